package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker/replicatest"
)

// table is what was measured, beside what is promised.
type table struct{ rows []row }

type row struct{ what, measured, promised string }

func (t *table) add(what, promised, format string, args ...any) {
	t.rows = append(t.rows, row{what, fmt.Sprintf(format, args...), promised})
}

func (t *table) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d processors, load %s at the end\n\n", runtime.NumCPU(), loadAverage())
	text.WriteString("| | measured | promised |\n|---|---|---|\n")
	for _, r := range t.rows {
		fmt.Fprintf(&text, "| %s | %s | %s |\n", r.what, r.measured, r.promised)
	}
	return text.String()
}

// spread shortens a distribution to what a table holds.
func spread(s replicatest.Spread) string {
	round := func(d time.Duration) time.Duration {
		switch {
		case d < 10*time.Microsecond:
			return d.Round(10 * time.Nanosecond)
		case d < 10*time.Millisecond:
			return d.Round(time.Microsecond)
		default:
			return d.Round(100 * time.Microsecond)
		}
	}
	return fmt.Sprintf("p50 %v, p90 %v, p99 %v, max %v (%d)", round(s.P50), round(s.P90), round(s.P99), round(s.Max), s.N)
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
