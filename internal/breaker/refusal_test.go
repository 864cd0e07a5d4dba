package breaker_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// CF-B8, C111: whoever is refused learns which circuit, why and for how long.
func TestRefusalOfAnOpenCircuit(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(1)))
	g.play("F +12s500ms")
	got := g.refused()
	want := &breaker.Refusal{
		Key: key, State: breaker.Open, Reason: breaker.ReasonCircuitOpen,
		RetryAfter: 18 * time.Second, Cause: "server_error", Generation: 2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
	var refusal *breaker.Refusal
	if err := fmt.Errorf("call alpha: %w", got); !errors.As(err, &refusal) {
		t.Errorf("a wrapped refusal cannot be found in %v", err)
	}
}

// C15, R31: while every probe is under way the wait is short.
func TestRefusalWhileProbing(t *testing.T) {
	t.Parallel()
	g := setup(t, with(halfOpen(4, 4)))
	g.play("F +30s a1 a2 a3 a4")
	got := g.refused()
	want := &breaker.Refusal{
		Key: key, State: breaker.HalfOpen, Reason: breaker.ReasonProbing,
		RetryAfter: 5 * time.Second, Cause: "server_error", Generation: 3,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
	if got := g.snapshot().Rejected; got != 1 {
		t.Errorf("rejected calls: got %d, want 1", got)
	}
	g.advance(28 * time.Second)
	if got, want := g.refused().RetryAfter, 2*time.Second; got != want {
		t.Errorf("with 2 s of the lease left the wait is %v, want %v", got, want)
	}
}

// R31: of several probes the one whose lease ends first says how long to wait.
func TestRefusalNamesTheShortestLease(t *testing.T) {
	t.Parallel()
	g := setup(t, with(halfOpen(2, 2)))
	g.play("F +30s a1 +27s a2")
	if got, want := g.refused().RetryAfter, 3*time.Second; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// CF-S4, R31: whole seconds, rounded up, never below one.
func TestRetryAfterIsInWholeSeconds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ after, want time.Duration }{
		{0, 30 * time.Second},
		{time.Nanosecond, 30 * time.Second},
		{28 * time.Second, 2 * time.Second},
		{29 * time.Second, time.Second},
		{30*time.Second - time.Nanosecond, time.Second},
	} {
		g := setup(t, with(threshold(1)))
		g.play("F")
		g.advance(tt.after)
		if got := g.refused().RetryAfter; got != tt.want {
			t.Errorf("after %v: got %v, want %v", tt.after, got, tt.want)
		}
	}
}

// A permit that was refused, or never acquired, settles nothing.
func TestPermitWithoutARightSettlesNothing(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(1)))
	p := g.acquire()
	p.Done(outcome('F'))
	if err := g.Acquire(key, p); err == nil {
		t.Fatal("an open circuit admitted a call")
	}
	for name, p := range map[string]*breaker.Permit{"refused": p, "zero": {}} {
		p.Within(time.Second)
		p.FirstToken()
		if got := p.Done(outcome('F')); got != breaker.Ignored {
			t.Errorf("%s permit: got %v, want ignored", name, got)
		}
		if p.Probe() || p.Generation() != 0 {
			t.Errorf("%s permit: probe %v, generation %d", name, p.Probe(), p.Generation())
		}
	}
}
