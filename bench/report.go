package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// machine is where and under what other load a run took place.
type machine struct {
	processors int
	model      string
	load       string // over 1, 5 and 15 minutes
	at         time.Time
}

// describeMachine leaves out what the system does not tell.
func describeMachine() machine {
	m := machine{processors: runtime.NumCPU(), model: "unknown processor", load: "unknown", at: time.Now().UTC()}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.load = strings.Join(strings.Fields(string(text))[:3], " ")
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		_, rest, _ := strings.Cut(string(text), "model name\t: ")
		if name, _, ok := strings.Cut(rest, "\n"); ok {
			m.model = name
		}
	}
	return m
}

// report writes everything as Markdown.
func report(r *runCmd, before, after machine, table []row, h *held) string {
	var text strings.Builder
	writeHead(&text, before, after)
	if len(table) > 0 {
		fmt.Fprintf(&text, "Medians of %d rounds, %s per server and load in each; the upstream waits %s before an answer and %s between the pieces of a stream.\n",
			r.Rounds, r.Slice, r.FirstToken, r.Pace)
		writeFigures(&text, table)
		writeRatios(&text, table)
	}
	if h != nil {
		fmt.Fprintf(&text, "\nA fresh gateway after %d calls (%s) in %s, %d at once: %s MiB resident (%s at start, %s at most).\n",
			h.calls, answers(r.Answers), h.took.Round(time.Second), holdConcurrency, mib(float64(h.after.resident)), mib(float64(h.before.resident)), mib(float64(h.after.peak)))
	}
	return text.String()
}

func writeHead(text *strings.Builder, before, after machine) {
	fmt.Fprintf(text, "%s to %s UTC, %d × %s, %s; load of the machine %s before, %s after.\n",
		before.at.Format("2006-01-02 15:04"), after.at.Format("15:04"), before.processors, before.model, runtime.Version(), before.load, after.load)
}

// answers names the kinds of answer, of which each had the same number of calls.
func answers(modes []mode) string {
	names := make([]string, len(modes))
	for i, m := range modes {
		names[i] = string(m)
	}
	return strings.Join(names, " and ")
}

func writeFigures(text *strings.Builder, table []row) {
	text.WriteString("\n| answer | at once | server | requests/s | p50 ms | p99 ms | first text ms | CPU s per 1,000 | Postgres CPU s per 1,000 | resident MiB |\n" +
		"|---|--:|---|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range table {
		first, cpu, database, resident := "", "", "", ""
		if r.mode == stream {
			first = ms(r.first)
		}
		if r.server != direct {
			cpu, resident = seconds(r.cpu), mib(r.resident)
		}
		if r.server == breakwater {
			database = seconds(r.database)
		}
		fmt.Fprintf(text, "| %s | %d | %s | %.0f | %s | %s | %s | %s | %s | %s |\n", r.mode, r.concurrency, r.server,
			r.rate, ms(r.p50), ms(r.p99), first, cpu, database, resident)
	}
}

func writeRatios(text *strings.Builder, table []row) {
	text.WriteString("\n| answer | at once | added p50 ms: proxy | Breakwater | ratio | added first text ms: proxy | Breakwater | ratio | CPU ratio | requests/s ratio |\n" +
		"|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	var proxy row
	for _, r := range table {
		switch r.server {
		case plainProxy:
			proxy = r
		case breakwater:
			first := " | | "
			if r.mode == stream {
				first = fmt.Sprintf("%s | %s | %.2f", ms(proxy.addedFirst), ms(r.addedFirst), r.addedFirstRatio)
			}
			fmt.Fprintf(text, "| %s | %d | %s | %s | %.2f | %s | %.2f | %.2f |\n", r.mode, r.concurrency,
				ms(proxy.addedP50), ms(r.addedP50), r.addedP50Ratio, first, r.cpuRatio, r.rateRatio)
		}
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/float64(time.Millisecond)) }
func seconds(s float64) string  { return fmt.Sprintf("%.3f", s) }
func mib(bytes float64) string  { return fmt.Sprintf("%.1f", bytes/(1<<20)) }
