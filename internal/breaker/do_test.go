package breaker_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

func TestDoSettlesWithTheOutcome(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(1)))
	ran := 0
	fail := func(*breaker.Permit) breaker.Outcome { ran++; return outcome('F') }
	if err := g.Do(key, fail); err != nil {
		t.Fatalf("the first call: %v", err)
	}
	var refusal *breaker.Refusal
	if err := g.Do(key, fail); !errors.As(err, &refusal) || ran != 1 {
		t.Errorf("the second call: got %v after %d runs, want a refusal after 1", err, ran)
	}
}

// C66: a panic is one failure and goes on with the same value.
func TestDoCountsAPanicAndLetsItGoOn(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(2)))
	boom := errors.New("boom")
	got := func() (v any) {
		defer func() { v = recover() }()
		_ = g.Do(key, func(*breaker.Permit) breaker.Outcome { panic(boom) })
		return nil
	}()
	if got != boom {
		t.Errorf("the panic went on as %v, want %v", got, boom)
	}
	g.play("closed n=1 f=1 c=1 double=0")
}

// C66 for a probe: the slot is not lost with the panic.
func TestDoGivesThePanickingProbeAVerdict(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(1)))
	g.play("F +30s")
	func() {
		defer func() { _ = recover() }()
		_ = g.Do(key, func(*breaker.Permit) breaker.Outcome { panic("boom") })
	}()
	g.play("open")
	if got := g.snapshot().Cause; got != breaker.CausePanic {
		t.Errorf("cause: got %q, want %q", got, breaker.CausePanic)
	}
}

// X09: a call that ends its goroutine is neutral, and its slot comes back.
func TestDoTreatsGoexitAsNeutral(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(1)))
	g.play("F +30s")
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = g.Do(key, func(*breaker.Permit) breaker.Outcome {
			runtime.Goexit()
			return outcome('F')
		})
	}()
	<-gone
	g.play("half_open e=1 S closed")
}

// C96: retries around the breaker: three run, four are refused.
func TestRetriesAroundTheBreaker(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(3)))
	ran := 0
	var last error
	for range 7 {
		last = g.Do(key, func(*breaker.Permit) breaker.Outcome { ran++; return outcome('F') })
	}
	var refusal *breaker.Refusal
	if ran != 3 || !errors.As(last, &refusal) {
		t.Errorf("ran %d times and ended with %v, want 3 and a refusal", ran, last)
	}
	g.play("open n=3 f=3 r=4")
}
