package main

import (
	"slices"
	"time"
)

// The names of what is measured.
const (
	direct     = "upstream itself"
	plainProxy = "plain proxy"
	breakwater = "Breakwater"
)

// figures say how one server bore one load.
type figures struct {
	rate            float64       // calls answered rightly, per second
	p50, p99        time.Duration // of whole calls
	first           time.Duration // median time to the first text
	cpu, database   float64       // seconds per 1,000 calls
	store, scripts  float64       // the store's seconds per 1,000 calls, and the scripts it ran per call
	resident        float64       // bytes after the load
	addedP50        time.Duration // over the upstream itself
	addedFirst      time.Duration
	cpuRatio        float64 // to the proxy in the same round
	addedP50Ratio   float64
	addedFirstRatio float64
	rateRatio       float64
}

func newFigures(o outcome, before, after usage) figures {
	thousands := float64(o.sent) / 1000
	return figures{
		rate:     float64(len(o.timings)) / o.took.Seconds(),
		p50:      o.quantile(0.50, total),
		p99:      o.quantile(0.99, total),
		first:    o.quantile(0.50, first),
		cpu:      (after.cpu - before.cpu).Seconds() / thousands,
		database: (after.database - before.database).Seconds() / thousands,
		store:    (after.store - before.store).Seconds() / thousands,
		scripts:  float64(after.scripts-before.scripts) / float64(o.sent),
		resident: float64(after.memory.resident),
	}
}

// cell is one server under one load.
type cell struct {
	load
	server string
}

// round has the figures of one turn through all cells.
type round map[cell]figures

// against fills in what a server's figures are beside the upstream's and the
// proxy's of the same round.
func (r round) against(c cell) figures {
	f := r[c]
	base, proxy := r[cell{c.load, direct}], r[cell{c.load, plainProxy}]
	f.addedP50, f.addedFirst = f.p50-base.p50, f.first-base.first
	f.cpuRatio = f.cpu / proxy.cpu
	f.rateRatio = f.rate / proxy.rate
	f.addedP50Ratio = float64(f.addedP50) / float64(proxy.p50-base.p50)
	f.addedFirstRatio = float64(f.addedFirst) / float64(proxy.first-base.first)
	return f
}

// row is one line of the table.
type row struct {
	cell
	figures
}

// medians returns the median of every figure over the rounds. They need not
// come from one round: on a busy machine a mean would follow the worst.
func medians(loads []load, rounds []round) []row {
	var table []row
	for _, l := range loads {
		for _, server := range []string{direct, plainProxy, breakwater} {
			c := cell{l, server}
			all := make([]figures, len(rounds))
			for i, r := range rounds {
				all[i] = r.against(c)
			}
			table = append(table, row{c, medianFigures(all)})
		}
	}
	return table
}

func medianFigures(all []figures) figures {
	return figures{
		rate:            median(all, func(f figures) float64 { return f.rate }),
		p50:             median(all, func(f figures) time.Duration { return f.p50 }),
		p99:             median(all, func(f figures) time.Duration { return f.p99 }),
		first:           median(all, func(f figures) time.Duration { return f.first }),
		cpu:             median(all, func(f figures) float64 { return f.cpu }),
		database:        median(all, func(f figures) float64 { return f.database }),
		store:           median(all, func(f figures) float64 { return f.store }),
		scripts:         median(all, func(f figures) float64 { return f.scripts }),
		resident:        median(all, func(f figures) float64 { return f.resident }),
		addedP50:        median(all, func(f figures) time.Duration { return f.addedP50 }),
		addedFirst:      median(all, func(f figures) time.Duration { return f.addedFirst }),
		cpuRatio:        median(all, func(f figures) float64 { return f.cpuRatio }),
		addedP50Ratio:   median(all, func(f figures) float64 { return f.addedP50Ratio }),
		addedFirstRatio: median(all, func(f figures) float64 { return f.addedFirstRatio }),
		rateRatio:       median(all, func(f figures) float64 { return f.rateRatio }),
	}
}

// median returns the middle value, the mean of both when there are two.
func median[T time.Duration | float64](all []figures, of func(figures) T) T {
	values := make([]T, len(all))
	for i, f := range all {
		values[i] = of(f)
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
