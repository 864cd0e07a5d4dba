package main

import (
	"context"
	"sync"
	"time"
)

// load makes calls at the scenario's rate until ctx ends, and returns when the
// last of them has ended. A call begins when it is due, however many are still
// under way: callers do not wait for one another.
func (d *drill) load(ctx context.Context) {
	ending := context.WithoutCancel(ctx) // calls under way end in their own time
	due, gap := time.Now(), time.Second/time.Duration(d.Rate)
	var calls sync.WaitGroup
	for n := 0; pause(ctx, time.Until(due)) == nil && d.enter(ctx); n++ {
		calls.Go(func() {
			defer d.leave()
			d.call(ending, n)
		})
		due = due.Add(gap)
		if now := time.Now(); d.places != nil && now.After(due) {
			due = now // what a busy machine has missed is not made up for
		}
	}
	calls.Wait()
	d.client.close()
}

// enter waits until one more call may be under way, where not any number may. It
// returns false when ctx ends first.
func (d *drill) enter(ctx context.Context) bool {
	if d.places == nil {
		return true
	}
	select {
	case d.places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (d *drill) leave() {
	if d.places != nil {
		<-d.places
	}
}

// call makes the n-th call and keeps what came of it.
func (d *drill) call(ctx context.Context, n int) {
	c := call{fallback: n%2 == 0, stream: n/2%2 == 0}
	configuration := d.Alone
	if c.fallback {
		configuration = d.Fallback
	}
	from := d.at.Load()
	began := time.Now()
	c.end, c.asked = d.client.call(ctx, configuration, c.stream)
	c.took = time.Since(began)
	c.phase = d.belongs(int(from), int(d.at.Load()))

	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, c)
}

// belongs is the phase that a call counts for, which began in one and ended in
// another: the first sick one that it ran through.
func (d *drill) belongs(from, to int) int {
	for i := from; i <= to; i++ {
		if !d.Phases[i].well() {
			return i
		}
	}
	return from
}
