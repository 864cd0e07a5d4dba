package main

import (
	"errors"
	"math"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// The same rule for all: more than half of at least ten calls in 30 s, in ten
// buckets.
const (
	span    = 30 * time.Second
	buckets = 10
	least   = 10
	rest    = time.Hour // longer than the run
)

func settings() breaker.Settings {
	return breaker.Settings{
		Enabled: true, FailureThreshold: 5,
		FailureRate: breaker.All / 2, Window: breaker.Window{Span: span, Buckets: buckets}, MinCalls: least,
		Cooldown: rest, CooldownMultiplier: 1, MaxCooldown: rest, MaxRetryAfter: rest,
		HalfOpenCalls: 1, SuccessThreshold: 1, MaxHalfOpen: rest, Lease: rest, StepDecay: time.Minute,
		MaxNeutral: breaker.DefaultMaxNeutral, IdleTTL: breaker.DefaultIdleTTL,
	}
}

// untrippable counts as always and never has enough to open.
func untrippable() breaker.Settings {
	s := settings()
	s.FailureThreshold, s.MinCalls = math.MaxInt, math.MaxInt
	return s
}

func watched() breaker.Settings {
	s := settings()
	s.SlowRate = breaker.All / 2
	return s
}

func newRegistry(s breaker.Settings) *breaker.Registry {
	return breaker.New(breaker.Config{Settings: func(string) breaker.Settings { return s }})
}

// ours always finds the circuit by its key, with one key, too.
func ours() []entry {
	return []entry{
		{success, "Breakwater, caller's clock", ourSuccess(settings(), func(r *breaker.Registry) time.Duration { return r.Now() })},
		{success, "Breakwater", ourSuccess(settings(), noClock)},
		{slow, "Breakwater", ourWatched},
		{mixed, "Breakwater", ourFailures(settings(), rarely)},
		{failure, "Breakwater", ourFailures(untrippable(), 1)},
		{refusal, "Breakwater", ourRefusal(func(err error) bool { return err != nil })},
		{refusal, "Breakwater, wait read", ourRefusal(func(err error) bool {
			r, ok := errors.AsType[*breaker.Refusal](err)
			return ok && r.RetryAfter > 0
		})},
	}
}

// noClock lets the circuit read the clock itself.
func noClock(*breaker.Registry) time.Duration { return 0 }

func ourSuccess(s breaker.Settings, clock func(*breaker.Registry) time.Duration) func([]string) loop {
	return func(all []string) loop {
		r, asked := newRegistry(s), built(all)
		return func(first, n int) {
			at, keys := clock(r), roundFrom(first, asked)
			for range n {
				var p breaker.Permit
				if r.Acquire(keys.next(), &p) != nil {
					panic("a closed circuit refused a call")
				}
				p.Done(breaker.Outcome{Kind: breaker.Success, At: at})
			}
		}
	}
}

func ourWatched(all []string) loop {
	r, asked := newRegistry(watched()), built(all)
	return func(first, n int) {
		keys := roundFrom(first, asked)
		for range n {
			var p breaker.Permit
			if r.Acquire(keys.next(), &p) != nil {
				panic("a closed circuit refused a call")
			}
			p.SlowAfter(10 * time.Second)
			p.Done(breaker.Outcome{Kind: breaker.Success})
		}
	}
}

// ourFailures lets every so many-th call fail.
func ourFailures(s breaker.Settings, every int) func([]string) loop {
	return func(all []string) loop {
		r, asked := newRegistry(s), built(all)
		return func(first, n int) {
			keys := roundFrom(first, asked)
			for i := range n {
				o := breaker.Outcome{Kind: breaker.Success}
				if i%every == 0 {
					o = breaker.Outcome{Kind: breaker.Failure, Cause: "server_error"}
				}
				var p breaker.Permit
				if r.Acquire(keys.next(), &p) != nil {
					panic("a closed circuit refused a call")
				}
				p.Done(o)
			}
		}
	}
}

func ourRefusal(refused func(error) bool) func([]string) loop {
	return func(all []string) loop {
		r, asked := newRegistry(settings()), built(all)
		for _, k := range all {
			var p breaker.Permit
			if err := r.Acquire(k, &p); err != nil {
				panic(err)
			}
			p.Done(breaker.Outcome{Kind: breaker.Failure, OpenFor: rest})
		}
		return func(first, n int) {
			keys := roundFrom(first, asked)
			var p breaker.Permit
			for range n {
				if !refused(r.Acquire(keys.next(), &p)) {
					panic("an open circuit admitted a call")
				}
			}
		}
	}
}
