package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/breaker/replicatest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

const key = "provider/model/region"

// rig is replicas on a server of their own.
type rig struct {
	server   *redistest.Server
	close    func()
	config   replicatest.Config
	replicas []*replicatest.Replica
}

// settings are those of the contract, shared.
func settings(change func(*breaker.Settings)) breaker.Settings {
	s := breaker.Settings{
		Enabled: true, Store: breaker.Cached, FailureThreshold: 5,
		FailureRate: breaker.All / 2, Window: breaker.Window{Span: 30 * time.Second, Buckets: 10}, MinCalls: 10,
		Cooldown: 30 * time.Second, CooldownMultiplier: 2, MaxCooldown: 5 * time.Minute, CooldownJitter: 0.25,
		MaxRetryAfter: time.Hour, HalfOpenCalls: 1, SuccessThreshold: 1,
		MaxHalfOpen: 2 * time.Minute, Lease: 30 * time.Second, StepDecay: time.Minute,
		MaxNeutral: breaker.DefaultMaxNeutral, IdleTTL: breaker.DefaultIdleTTL,
	}
	change(&s)
	return s
}

func open(n int, s breaker.Settings) (*rig, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	g := &rig{}
	g.server, g.close = replicatest.OpenServer()
	g.config = replicatest.Config{URL: g.server.URL(), Settings: s}
	for range n {
		if err := g.join(); err != nil {
			return nil, errors.Join(err, g.end())
		}
	}
	return g, nil
}

func (g *rig) join() error {
	r, err := replicatest.Start(g.config)
	if err == nil {
		g.replicas = append(g.replicas, r)
	}
	return err
}

// end stops all replicas, then the server.
func (g *rig) end() error {
	defer g.close()
	return g.each(func(_ int, r *replicatest.Replica) error { return r.Stop() })
}

// each asks all replicas at once.
func (g *rig) each(do func(i int, r *replicatest.Replica) error) error {
	errs := make([]error, len(g.replicas))
	var all sync.WaitGroup
	for i, r := range g.replicas {
		all.Go(func() { errs[i] = do(i, r) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// load calls for a time.
func (g *rig) load(l replicatest.Load, d time.Duration) ([]replicatest.Tally, error) {
	if err := g.each(func(_ int, r *replicatest.Replica) error { return r.Load(l) }); err != nil {
		return nil, err
	}
	time.Sleep(d)
	all := make([]replicatest.Tally, len(g.replicas))
	err := g.each(func(i int, r *replicatest.Replica) (err error) {
		all[i], err = r.Rest()
		return err
	})
	return all, err
}

// effort is what the server has done with scripts.
type effort struct {
	runs float64
	took time.Duration
}

func (g *rig) effort() (effort, error) {
	answer, err := g.server.Do("INFO", "commandstats")
	if err != nil {
		return effort{}, err
	}
	text, _ := answer.(string)
	var e effort
	for line := range strings.Lines(text) {
		name, stats, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "cmdstat_evalsha" && name != "cmdstat_eval" {
			continue
		}
		for field := range strings.SplitSeq(stats, ",") {
			name, number, _ := strings.Cut(field, "=")
			n, err := strconv.ParseFloat(number, 64)
			if err != nil {
				return effort{}, fmt.Errorf("read %q: %w", line, err)
			}
			switch name {
			case "calls":
				e.runs += n
			case "usec":
				e.took += time.Duration(n) * time.Microsecond
			}
		}
	}
	return e, nil
}

func (e effort) since(before effort) effort {
	return effort{e.runs - before.runs, e.took - before.took}
}

func (e effort) each() time.Duration { return e.took / time.Duration(max(1, e.runs)) }

func total(all []replicatest.Tally, of func(replicatest.Tally) uint64) (n uint64) {
	for _, t := range all {
		n += of(t)
	}
	return n
}
