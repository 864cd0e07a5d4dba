package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// slice is a stretch of load on one server.
type slice struct {
	address     string
	call        exchange
	headers     func() string // of each call; nil = none
	concurrency int
	calls       int64         // at most this many; 0 = as many as fit
	length      time.Duration // no call begins after it; 0 = until calls are made
}

// outcome is what a slice brought.
type outcome struct {
	sent    int
	took    time.Duration
	timings []timing // of the calls whose answers were right
	errs    []error
}

// run loads the server from as many connections as the slice says.
func (s slice) run(ctx context.Context) outcome {
	var left atomic.Int64
	left.Store(s.calls)
	began := time.Now()
	more := func() bool {
		switch {
		case ctx.Err() != nil, s.length > 0 && time.Since(began) >= s.length:
			return false
		default:
			return s.calls == 0 || left.Add(-1) >= 0
		}
	}

	workers := make([]outcome, s.concurrency)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() { workers[i] = s.worker(more) })
	}
	wg.Wait()

	all := outcome{took: time.Since(began)}
	for _, w := range workers {
		all.sent += w.sent
		all.timings = append(all.timings, w.timings...)
		all.errs = append(all.errs, w.errs...)
	}
	return all
}

func (s slice) worker(more func() bool) outcome {
	var o outcome
	c := newClient(s.address, s.call, s.headers)
	defer c.close()
	for more() {
		o.sent++
		t, err := c.do()
		if err != nil {
			o.errs = append(o.errs, err)
			continue
		}
		o.timings = append(o.timings, t)
	}
	return o
}

// quantile returns the duration that a share q of the calls did not exceed, or
// 0 when there was none.
func (o outcome) quantile(q float64, of func(timing) time.Duration) time.Duration {
	if len(o.timings) == 0 {
		return 0
	}
	sorted := make([]time.Duration, len(o.timings))
	for i, t := range o.timings {
		sorted[i] = of(t)
	}
	slices.Sort(sorted)
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func total(t timing) time.Duration { return t.total }
func first(t timing) time.Duration { return t.first }
