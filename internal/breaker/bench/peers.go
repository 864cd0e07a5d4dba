package main

import (
	"errors"
	"math"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/sony/gobreaker/v2"
)

var errServer = errors.New("server error")

func peers() []entry {
	rolling := rollingWindow(func(c gobreaker.Counts) bool { return c.Requests >= least && 2*c.TotalFailures > c.Requests })
	never := rollingWindow(func(c gobreaker.Counts) bool { return c.Requests == math.MaxUint32 && 2*c.TotalFailures > c.Requests })
	return []entry{
		{success, yardstick, goSuccess(rolling)},
		{success, "gobreaker, default", goSuccess(gobreaker.Settings{})},
		{success, "failsafe-go, direct calls", fsSuccess},
		{success, "failsafe-go, executor", fsExecutor},
		{mixed, yardstick, goFailures(rolling, rarely)},
		{mixed, "failsafe-go, direct calls", fsFailures(newFSBreaker, rarely)},
		{failure, yardstick, goFailures(never, 1)},
		{failure, "failsafe-go, direct calls", fsFailures(newFSCounter, 1)},
		{refusal, yardstick, goRefusal(rolling)},
		{refusal, "failsafe-go, direct calls", fsRefusal},
		{refusal, "failsafe-go, executor", fsExecutorRefusal},
	}
}

type goBreaker = gobreaker.CircuitBreaker[struct{}]

func rollingWindow(trip func(gobreaker.Counts) bool) gobreaker.Settings {
	return gobreaker.Settings{Interval: span, BucketPeriod: span / buckets, Timeout: rest, ReadyToTrip: trip}
}

func goShelf(keys []string, s gobreaker.Settings) *shelf[*goBreaker] {
	return newShelf(keys, func() *goBreaker { return gobreaker.NewCircuitBreaker[struct{}](s) })
}

func goWell() (struct{}, error) { return struct{}{}, nil }
func goIll() (struct{}, error)  { return struct{}{}, errServer }

func goSuccess(settings gobreaker.Settings) func([]string) loop {
	return func(keys []string) loop {
		s := goShelf(keys, settings)
		return func(first, n int) {
			s.each(first, n, func(_ int, b *goBreaker) {
				if _, err := b.Execute(goWell); err != nil {
					panic(err)
				}
			})
		}
	}
}

// goFailures lets every so many-th call fail.
func goFailures(settings gobreaker.Settings, every int) func([]string) loop {
	return func(keys []string) loop {
		s := goShelf(keys, settings)
		return func(first, n int) {
			s.each(first, n, func(i int, b *goBreaker) {
				call := goWell
				if i%every == 0 {
					call = goIll
				}
				if _, err := b.Execute(call); err != nil && err != errServer {
					panic(err)
				}
			})
		}
	}
}

func goRefusal(settings gobreaker.Settings) func([]string) loop {
	return func(keys []string) loop {
		s := goShelf(keys, settings)
		s.each(0, len(keys)*least, func(_ int, b *goBreaker) { _, _ = b.Execute(goIll) })
		return func(first, n int) {
			s.each(first, n, func(_ int, b *goBreaker) {
				if _, err := b.Execute(goWell); err != gobreaker.ErrOpenState {
					panic("an open breaker admitted a call")
				}
			})
		}
	}
}

type (
	fsBreaker = circuitbreaker.CircuitBreaker[any]
	fsRunner  = failsafe.Executor[any]
)

func fsBuilder() circuitbreaker.Builder[any] {
	return circuitbreaker.NewBuilder[any]().WithFailureRateThreshold(0.5, least, span).WithDelay(rest)
}

func newFSBreaker() fsBreaker { return fsBuilder().Build() }
func newFSRunner() fsRunner   { return failsafe.With(newFSBreaker()) }

func fsWell() error { return nil }
func fsIll() error  { return errServer }

func fsSuccess(keys []string) loop {
	s := newShelf(keys, newFSBreaker)
	return func(first, n int) {
		s.each(first, n, func(_ int, b fsBreaker) {
			if !b.TryAcquirePermit() {
				panic("a closed breaker refused a call")
			}
			b.RecordSuccess()
		})
	}
}

func fsExecutor(keys []string) loop {
	s := newShelf(keys, newFSRunner)
	return func(first, n int) {
		s.each(first, n, func(_ int, r fsRunner) {
			if err := r.Run(fsWell); err != nil {
				panic(err)
			}
		})
	}
}

// newFSCounter counts failures in a period, up to a number out of reach: rates
// trip at their limit there, so that none is safe from all failures.
func newFSCounter() fsBreaker {
	return circuitbreaker.NewBuilder[any]().WithFailureThresholdPeriod(math.MaxInt32, span).Build()
}

// fsFailures lets every so many-th call fail.
func fsFailures(make func() fsBreaker, every int) func([]string) loop {
	return func(keys []string) loop {
		s := newShelf(keys, make)
		return func(first, n int) {
			s.each(first, n, func(i int, b fsBreaker) {
				if !b.TryAcquirePermit() {
					panic("a closed breaker refused a call")
				}
				if i%every == 0 {
					b.RecordFailure()
				} else {
					b.RecordSuccess()
				}
			})
		}
	}
}

func fsRefusal(keys []string) loop {
	s := newShelf(keys, func() fsBreaker {
		b := newFSBreaker()
		b.Open()
		return b
	})
	return func(first, n int) {
		s.each(first, n, func(_ int, b fsBreaker) {
			if b.TryAcquirePermit() {
				panic("an open breaker admitted a call")
			}
		})
	}
}

func fsExecutorRefusal(keys []string) loop {
	s := newShelf(keys, func() fsRunner {
		b := newFSBreaker()
		b.Open()
		return failsafe.With(b)
	})
	return func(first, n int) {
		s.each(first, n, func(_ int, r fsRunner) {
			if err := r.Run(fsIll); !errors.Is(err, circuitbreaker.ErrOpen) {
				panic("an open breaker admitted a call")
			}
		})
	}
}
