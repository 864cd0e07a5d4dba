package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// heading says where, when and under what other load this is.
func heading(p plan) string {
	load := "unknown"
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load, _, _ = strings.Cut(string(text), "/") // the rest counts processes
		load = load[:strings.LastIndexByte(load, ' ')]
	}
	return fmt.Sprintf("%s UTC, %d × %s, %s; load of the machine before: %s.\nMedians of %d rounds, %v for each in a round. CPU is of the whole process, the collector's work included.\n",
		time.Now().UTC().Format("2006-01-02 15:04"), runtime.NumCPU(), processor(), runtime.Version(), load, p.rounds, p.slice)
}

func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	_, rest, found := strings.Cut(string(text), "model name\t: ")
	if err != nil || !found {
		return runtime.GOARCH
	}
	name, _, _ := strings.Cut(rest, "\n")
	return name
}

// costs writes one row for each contestant, all in ns.
func costs(results []result) string {
	var text strings.Builder
	text.WriteString("\n| operation | keys | breaker | CPU ns, 1 processor | 2 processors | wall ns, 1 processor | 2 processors | allocations | × gobreaker's CPU, 1 processor | 2 processors |\n" +
		"|---|--:|---|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range results {
		one, two := r.on[1], r.on[2]
		fmt.Fprintf(&text, "| %s | %d | %s | %s | %s | %s | %s | %.0f | %s | %s |\n", r.operation, r.keys, r.name,
			ns(one.cpu), ns(two.cpu), ns(one.wall), ns(two.wall), one.allocs, times(one.ratio), times(two.ratio))
	}
	text.WriteString("\nA ratio is to gobreaker with a rolling window doing the same, the median of those within each round. " +
		"With one key a peer's breaker is at hand; ours, and all of them with a thousand, are looked up by key.\n")
	return text.String()
}

func ns(n float64) string {
	if n < 10 {
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

// times is empty where there is nothing to compare with.
func times(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", ratio)
}

func memory(keys int, held []holding) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\n| idle | bytes per key, of %d | beside them, KiB | goroutines more |\n|---|--:|--:|--:|\n", keys)
	for _, h := range held {
		fmt.Fprintf(&text, "| %s | %.0f | %.0f | %d |\n", h.name, h.perKey, h.fixed/1024, h.goroutines)
	}
	return text.String()
}
