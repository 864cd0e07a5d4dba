package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/breakwater-llm/breakwater/bench/rig"
)

// subject is something that is called: the upstream itself, the proxy in front
// of it, or the gateway.
type subject struct {
	name    string
	address string
	headers func() string // of each call; nil = none
	pid     int           // 0 = its use of the machine is not measured
	db      *database     // of the gateway
	redis   *rig.Redis    // of a gateway that shares its state
	sent    *int          // counts the calls that must be on record
}

// settleTime passes between a slice and its accounting: the gateway writes its
// records after the calls.
const settleTime = 400 * time.Millisecond

// load is one row of the table: what is called, and how.
type load struct {
	mode        mode
	concurrency int
}

func (b *bench) loads() []load {
	var all []load
	for _, m := range b.Answers {
		for _, n := range b.Concurrency {
			all = append(all, load{m, n})
		}
	}
	return all
}

// compare measures every load on every server, in turns, and returns the
// medians over the rounds.
func (b *bench) compare(ctx context.Context) (table []row, err error) {
	if b.Rounds == 0 {
		return nil, nil
	}
	proxy, err := rig.Start(ctx, b.dir, "proxy", b.self, "proxy", "http://"+b.upstream.Listen)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, proxy.Stop()) }()
	gateway, err := b.newGateway(ctx)
	if err != nil {
		return nil, err
	}
	subjects := []subject{
		{name: direct, address: b.upstream.Listen},
		{name: plainProxy, address: proxy.Listen, pid: proxy.PID()},
		{name: breakwater, address: gateway.Listen, pid: gateway.PID(), db: b.db, sent: &gateway.sent},
	}
	rounds, err := b.rounds(ctx, subjects)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return nil, errors.Join(err, gateway.Stop())
	}
	if err := gateway.settle(ctx); err != nil {
		b.faults = append(b.faults, err)
	}
	return medians(b.loads(), rounds), nil
}

// rounds measures everything as often as asked, after one round that only
// warms up. Each round begins with another server.
func (b *bench) rounds(ctx context.Context, subjects []subject) ([]round, error) {
	var all []round
	for i := range b.Rounds + 1 {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", i, b.Rounds)
		r := round{}
		for _, l := range b.loads() {
			for j := range subjects {
				s := subjects[(i+j)%len(subjects)]
				f, err := b.slice(ctx, s, l)
				if err != nil {
					return nil, err
				}
				r[cell{l, s.name}] = f
			}
		}
		if i > 0 {
			all = append(all, r)
		}
	}
	return all, nil
}

// slice loads one server and accounts for it.
func (b *bench) slice(ctx context.Context, s subject, l load) (figures, error) {
	before, err := s.usage(ctx)
	if err != nil {
		return figures{}, err
	}
	o := slice{address: s.address, call: b.exchanges[l.mode], headers: s.headers, concurrency: l.concurrency, length: b.Slice}.run(ctx)
	if err := ctx.Err(); err != nil {
		return figures{}, err
	}
	time.Sleep(settleTime)
	after, err := s.usage(ctx)
	if err != nil {
		return figures{}, err
	}
	b.blame(fmt.Sprintf("%s, %s, %d at once", s.name, l.mode, l.concurrency), o)
	if s.sent != nil {
		*s.sent += o.sent
	}
	return newFigures(o, before, after), nil
}

// usage is what a server has taken of the machine so far.
type usage struct {
	cpu, database, store time.Duration
	scripts              int // that the store ran
	memory               memory
}

func (s subject) usage(ctx context.Context) (u usage, err error) {
	if s.pid == 0 {
		return u, nil
	}
	if u.cpu, err = cpuTime(s.pid); err != nil {
		return u, err
	}
	if u.memory, err = memoryOf(s.pid); err != nil || s.db == nil {
		return u, err
	}
	if u.database, err = s.db.cpuTime(); err != nil || s.redis == nil {
		return u, err
	}
	if u.store, err = cpuTime(s.redis.PID()); err != nil {
		return u, err
	}
	u.scripts, err = s.redis.ScriptRuns(ctx)
	return u, err
}
