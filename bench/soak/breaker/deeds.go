package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// person is the actor of every command.
const person = "operator"

// note is why.
const note = "soak"

// longestDecree is the longest that a command lasts which names a time.
const longestDecree = 3 * time.Second

// reconfigure takes every circuit from one round of settings to the next.
func (s *soak) reconfigure(ctx context.Context) {
	every(ctx, 500*time.Millisecond, func() {
		s.reconfigured++
		s.registry.Reconfigure(settingsOf(s.reconfigured, s.Keys))
	})
}

// command gives orders, one at a time, so that the last one is known.
func (s *soak) command(ctx context.Context) {
	random := rand.New(rand.NewPCG(0, 1))
	every(ctx, 5*time.Millisecond, func() {
		s.commands++
		k := s.keys[random.IntN(len(s.keys))]
		s.order(ctx, k, randomCommand(random))
	})
}

func randomCommand(random *rand.Rand) breaker.Command {
	actions := []breaker.Action{
		breaker.ActionOpen, breaker.ActionHalfOpen, breaker.ActionClose,
		breaker.ActionReset, breaker.ActionDisable, breaker.ActionShadow,
	}
	c := breaker.Command{Action: actions[random.IntN(len(actions))], Actor: person, Note: note}
	if random.IntN(3) > 0 {
		c.For = time.Duration(random.Int64N(int64(longestDecree)))
	}
	return c
}

// order gives a command and remembers what has to hold from then on.
func (s *soak) order(ctx context.Context, k *key, c breaker.Command) {
	k.decide(undecided)
	now, err := s.registry.Command(ctx, k.name, c)
	if _, illegal := errors.AsType[*breaker.IllegalTransition](err); illegal && c.Action == breaker.ActionHalfOpen {
		return
	}
	if err != nil {
		s.broken(obeyed, "%s of %s: %v", c.Action, k.name, err)
		return
	}
	if c.For > 0 {
		return
	}
	want := map[breaker.Action]breaker.State{
		breaker.ActionOpen: breaker.ForcedOpen, breaker.ActionDisable: breaker.Disabled, breaker.ActionShadow: breaker.Shadow,
	}
	state, lasting := want[c.Action]
	if !lasting {
		return
	}
	if now.State != state || now.Actor != c.Actor || now.Note != c.Note || !now.Until.IsZero() {
		s.broken(obeyed, "%s is %s by %q until %v right after %s by %q", k.name, now.State, now.Actor, now.Until, c.Action, c.Actor)
	}
	if state == breaker.ForcedOpen {
		k.decide(refuseAll)
	} else {
		k.decide(admitAll)
	}
}

// recover ends what a person has said and lets every call succeed, until every
// circuit is closed.
func (s *soak) recover(ctx context.Context) {
	began := time.Now()
	w := s.workers[0]
	w.stats = stats{}
	w.period++ // a cold circuit may have been let go since
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	s.registry.Reconfigure(settingsOf(0, s.Keys))
	for _, k := range s.keys {
		if now, ok := s.registry.Circuit(k.name); ok && now.Actor != "" {
			s.order(deadline, k, breaker.Command{Action: breaker.ActionClose, Actor: person, Note: note})
		}
	}
	sick := s.keys
	every(deadline, 20*time.Millisecond, func() {
		sick = s.stillSick(w, sick)
		if len(sick) == 0 {
			cancel()
		}
	})
	s.recovery = time.Since(began)
	s.sum.add(&w.stats)
	for _, k := range sick {
		now, _ := s.registry.Circuit(k.name)
		s.broken(recovered, "%s is %s (%s) after %v of nothing but successes", k.name, now.State, now.Reason, s.recovery.Round(time.Second))
	}
}

// stillSick calls each circuit once, with success, and returns those that are
// not closed afterwards.
func (s *soak) stillSick(w *worker, keys []*key) []*key {
	var sick []*key
	for _, k := range keys {
		c := w.newCall(k)
		if w.acquire(c) {
			w.settle(c, breaker.Outcome{Kind: breaker.Success})
		}
		if now, ok := s.registry.Circuit(k.name); !ok || now.State != breaker.Closed {
			sick = append(sick, k)
		}
	}
	return sick
}
