package main

import (
	"fmt"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/breaker/replicatest"
)

const (
	processes = 8
	callers   = 8 // each
	callTime  = 20 * time.Millisecond
	loadTime  = 10 * time.Second
)

// costs loads one key from all processes, and compares what the store has
// counted with what the callers have.
func costs(t *table) error {
	for _, failing := range []float64{0, 0.05} {
		if err := cost(t, failing); err != nil {
			return err
		}
	}
	return nil
}

func cost(t *table, failing float64) error {
	g, err := open(processes, settings(func(s *breaker.Settings) {
		s.FailureThreshold, s.Window.Span = 0, 10*time.Minute // so that all stays in the window
	}))
	if err != nil {
		return err
	}
	defer g.close()
	before, err := g.effort()
	if err != nil {
		return err
	}
	all, err := g.load(replicatest.Load{Key: key, Callers: callers, Took: callTime, Failing: failing}, loadTime)
	if err != nil {
		return err
	}
	after, err := g.effort()
	if err != nil {
		return err
	}
	calls := total(all, func(t replicatest.Tally) uint64 { return t.Calls })
	failures := total(all, func(t replicatest.Tally) uint64 { return t.Failures })
	e := after.since(before)
	name := fmt.Sprintf("%d processes × %d callers, calls of %v, %.0f %% failing", processes, callers, callTime, 100*failing)
	t.add(name+": calls per second", "", "%.0f", float64(calls)/loadTime.Seconds())
	t.add(name+": runs of the store per 1,000 calls", "0 in the path of calls", "%.1f (%.1f a second), %v of the server each", 1000*e.runs/float64(calls), e.runs/loadTime.Seconds(), e.each())
	t.add(name+": to acquire, to end", "no waiting", "%s; %s", spread(all[0].Acquire), spread(all[0].Done))
	return counted(t, g, name, calls, failures)
}

// counted compares the totals of callers with those of a replica that joins when
// the others have ended.
func counted(t *table, g *rig, name string, calls, failures uint64) error {
	if err := g.each(func(_ int, r *replicatest.Replica) error { return r.Stop() }); err != nil {
		return err
	}
	g.replicas = nil
	if err := g.join(); err != nil {
		return err
	}
	r := g.replicas[0]
	if _, err := r.Acquire(key, "look"); err != nil {
		return err
	}
	seen := breaker.Snapshot{}
	for limit := time.Now().Add(3 * time.Second); time.Now().Before(limit) && seen.Calls == 0; {
		var err error
		if seen, err = r.Circuit(key); err != nil {
			return err
		}
	}
	t.add(name+": outcomes counted by the store", "all, none twice", "%d of %d calls, %d of %d failures", seen.Calls, calls, seen.Failures, failures)
	return r.Stop()
}

// strict measures what every call waits for where everything is asked.
func strict(t *table) error {
	g, err := open(1, settings(func(s *breaker.Settings) { s.Store = breaker.Strict }))
	if err != nil {
		return err
	}
	before, err := g.effort()
	if err != nil {
		return err
	}
	all, err := g.load(replicatest.Load{Key: key, Callers: 1}, 5*time.Second)
	if err != nil {
		return err
	}
	after, err := g.effort()
	if err != nil {
		return err
	}
	t.add("strict, one caller: to acquire", "≤ 60µs", "%s", spread(all[0].Acquire))
	t.add("strict, one caller: to end", "≤ 60µs", "%s", spread(all[0].Done))
	t.add("strict: of the server, each run", "≤ 12µs", "%v", after.since(before).each())
	return g.end()
}

// probes measures calls that are all probes.
func probes(t *table) error {
	g, err := open(1, settings(func(s *breaker.Settings) {
		s.FailureThreshold, s.Cooldown, s.MaxCooldown = 1, time.Millisecond, time.Millisecond
	}))
	if err != nil {
		return err
	}
	all, err := g.load(replicatest.Load{Key: key, Callers: 1, Failing: 1, Pause: 2 * time.Millisecond}, 5*time.Second)
	if err != nil {
		return err
	}
	t.add("cached, a probe: to acquire", "≤ 60µs", "%s", spread(all[0].ProbeAcquire))
	t.add("cached, a probe: to end", "≤ 60µs", "%s", spread(all[0].ProbeDone))
	return g.end()
}
