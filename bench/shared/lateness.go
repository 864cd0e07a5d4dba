package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/breaker/replicatest"
)

const (
	streak = 5
	rounds = 150
	turn   = 120 * time.Millisecond // the longest between two of a replica's
)

// late are the times of one way of gathering evidence.
type late struct {
	trip []time.Duration // from the last failure until somebody refuses
	news []time.Duration // from then until another replica does
	lost int             // rounds in which evidence was lost with an answer that was late
}

// lateness measures how late a circuit opens when the evidence exists, and how
// late the other replicas know.
func lateness(t *table) error {
	g, err := open(processes, settings(func(s *breaker.Settings) {
		s.FailureThreshold, s.FailureRate, s.Cooldown, s.MaxCooldown = streak, 0, time.Hour, time.Hour
	}))
	if err != nil {
		return err
	}
	for _, way := range []struct {
		name, promised string
		witnesses      int
	}{
		{"all failures seen by one replica", "at once", 1},
		{fmt.Sprintf("the %d failures seen by %d replicas", streak, streak), "≤ 145ms", streak},
	} {
		var l late
		for range rounds {
			if err := g.open(&l, way.witnesses); err != nil {
				return errors.Join(err, g.end())
			}
		}
		t.add(way.name+": from the last until it opens", way.promised, "%s", spread(replicatest.SpreadOf(l.trip)))
		t.add(way.name+": from then until each other replica knows", "≤ 145ms, usually 1 round trip", "%s", spread(replicatest.SpreadOf(l.news)))
		t.add(way.name+": rounds lost with an answer that came too late", "told once at most", "%d of %d", l.lost, rounds)
	}
	return g.end()
}

// open opens a closed circuit by failures that so many replicas see.
func (g *rig) open(l *late, witnesses int) error {
	if err := g.reset(); err != nil {
		return err
	}
	for i := range streak {
		if _, err := g.replicas[i%witnesses].Acquire(key, fmt.Sprint(i)); err != nil {
			return err
		}
	}
	time.Sleep(rand.N(turn)) // at no certain moment of what the replicas do in turn
	evidence, err := g.fail(witnesses)
	if err != nil {
		return err
	}
	seen := make([]time.Time, len(g.replicas))
	if err := g.each(func(i int, r *replicatest.Replica) (err error) {
		seen[i], err = r.Await(key, breaker.Open, 2*time.Second)
		return err
	}); err != nil {
		return err
	}
	if slices.ContainsFunc(seen, time.Time.IsZero) {
		l.lost++
		return nil
	}
	slices.SortFunc(seen, time.Time.Compare)
	l.trip = append(l.trip, max(0, seen[0].Sub(evidence)))
	for _, at := range seen[1:] {
		l.news = append(l.news, at.Sub(seen[0]))
	}
	return nil
}

// fail ends the calls, at about the same time, and returns when the last of them
// ended.
func (g *rig) fail(witnesses int) (time.Time, error) {
	failed := breaker.Outcome{Kind: breaker.Failure, Cause: "server_error"}
	last := make([]time.Time, len(g.replicas))
	err := g.each(func(i int, r *replicatest.Replica) (err error) {
		for n := i; n < streak && i < witnesses && err == nil; n += witnesses {
			last[i], err = r.End(fmt.Sprint(n), failed)
		}
		return err
	})
	return slices.MaxFunc(last, time.Time.Compare), err
}

// reset has a person close the circuit and waits until all know.
func (g *rig) reset() error {
	if err := g.each(func(_ int, r *replicatest.Replica) error {
		grant, err := r.Acquire(key, "meeting")
		if err == nil && grant.Refusal == nil {
			_, err = r.Done("meeting", breaker.Outcome{Kind: breaker.Neutral})
		}
		return err
	}); err != nil {
		return err
	}
	if err := g.replicas[0].Command(key, breaker.Command{Action: breaker.ActionReset, Actor: "bench", Note: "next round"}); err != nil {
		return err
	}
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		if agreed, err := g.agree(); agreed || err != nil {
			return err
		}
	}
	return errors.New("the replicas do not all hear that the circuit was closed")
}

// agree reports whether all see the same closed circuit.
func (g *rig) agree() (bool, error) {
	all := make([]breaker.Snapshot, len(g.replicas))
	err := g.each(func(i int, r *replicatest.Replica) (err error) {
		all[i], err = r.Circuit(key)
		return err
	})
	for _, one := range all {
		if one.State != breaker.Closed || one.Generation != all[0].Generation {
			return false, err
		}
	}
	return true, err
}
