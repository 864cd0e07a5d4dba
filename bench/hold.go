package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// held is what a gateway keeps in memory.
type held struct {
	calls         int
	took          time.Duration
	before, after memory
}

// holdConcurrency is how many connections make the calls of hold.
const holdConcurrency = 64

// hold starts a fresh gateway, makes calls, the same number of every kind of
// answer, and reads the gateway's memory. Returns nil when none are asked for.
func (b *bench) hold(ctx context.Context) (*held, error) {
	if b.Calls == 0 {
		return nil, nil
	}
	gateway, err := b.newGateway(ctx)
	if err != nil {
		return nil, err
	}
	h, err := b.fill(ctx, gateway)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return nil, errors.Join(err, gateway.Stop())
	}
	if err := gateway.settle(ctx); err != nil {
		b.faults = append(b.faults, err)
	}
	return h, nil
}

func (b *bench) fill(ctx context.Context, g *gateway) (*held, error) {
	before, err := memoryOf(g.PID())
	if err != nil {
		return nil, err
	}
	h := &held{before: before}
	began := time.Now()
	for i, m := range b.Answers {
		calls := (b.Calls + i) / len(b.Answers)
		fmt.Fprintf(os.Stderr, "%d calls, %s\n", calls, m)
		o := slice{address: g.Listen, call: b.exchanges[m], concurrency: holdConcurrency, calls: int64(calls)}.run(ctx)
		b.blame(fmt.Sprintf("%d calls, %s", calls, m), o)
		g.sent += o.sent
	}
	h.calls, h.took = g.sent, time.Since(began)
	time.Sleep(settleTime)
	h.after, err = memoryOf(g.PID())
	return h, err
}
