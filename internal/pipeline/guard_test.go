package pipeline_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// threeInARow opens after three failures, for 30 s, without jitter.
var threeInARow = breaker.Settings{
	Enabled: true, FailureThreshold: 3, Window: breaker.Window{Span: 30 * time.Second, Buckets: 10}, MinCalls: 10,
	Cooldown: 30 * time.Second, CooldownMultiplier: 2, MaxCooldown: 5 * time.Minute, StepDecay: time.Minute,
	MaxRetryAfter: time.Hour,
	HalfOpenCalls: 1, SuccessThreshold: 1, MaxHalfOpen: 2 * time.Minute, Lease: 30 * time.Second,
	MaxNeutral: breaker.DefaultMaxNeutral, IdleTTL: breaker.DefaultIdleTTL,
}

func threshold(failures int) breaker.Settings {
	settings := threeInARow
	settings.FailureThreshold = failures
	return settings
}

// guarded is a whole stack over scripted upstreams with the real breaker.
type guarded struct {
	t        *testing.T
	circuits *breaker.Registry
	u        *upstreams
	runs     *records
	handle   pipeline.Handler
}

// guard composes it. Call it in a bubble, so that the breaker has its clock.
func guard(t *testing.T, settings breaker.Settings, policy pipeline.Policy, u *upstreams) *guarded {
	t.Helper()
	circuits := breaker.New(breaker.Config{Settings: func(string) breaker.Settings { return settings }})
	quota := func(string) time.Duration { return 10 * time.Minute }
	runs := new(records)
	return &guarded{t: t, circuits: circuits, u: u, runs: runs, handle: wrap(t, terminal(u, policy).Handle,
		pipeline.NewTelemetry(runs), pipeline.NewFallback(nil, nil), pipeline.NewUsage(priced), pipeline.NewCircuitBreaker(circuits, quota, slowAfter))}
}

// call sends one call for alpha and returns the attempt's row and the error.
func (g *guarded) call() (llm.Attempt, error) {
	g.t.Helper()
	call := newCall(alpha)
	_, err := g.handle(g.t.Context(), call, nil)
	return *call.Signals.Attempt(), err
}

// calls sends n calls for alpha, one after the other.
func (g *guarded) calls(n int) {
	g.t.Helper()
	for range n {
		_, _ = g.call()
	}
}

// opened makes alpha fail until its circuit is open.
func (g *guarded) opened() {
	g.t.Helper()
	healthy := g.u.scripts[alpha]
	g.u.and(alpha, fails(refusedConn, 0))
	for g.circuit().State != "open" {
		g.calls(1)
	}
	g.u.and(alpha, healthy...)
}

// circuit is what these tests look at of a snapshot.
type circuit struct {
	State  string
	Streak int
	Cause  string
}

func (g *guarded) circuit() circuit {
	snapshot, ok := g.circuits.Circuit(alpha.Key())
	if !ok {
		return circuit{}
	}
	return circuit{State: snapshot.State.String(), Streak: snapshot.ConsecutiveFailures, Cause: snapshot.Cause}
}

// wants compares; an empty cause is not asked for.
func (g *guarded) wants(want circuit) {
	g.t.Helper()
	got := g.circuit()
	if want.Cause == "" {
		got.Cause = ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		g.t.Errorf("circuit of alpha (-want +got):\n%s", diff)
	}
}
