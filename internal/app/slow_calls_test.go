package app_test

import (
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

// A target that serves, but slowly, is left alone: its circuit opens by the
// share of slow calls, and rows, metrics and the API say so.
func TestATargetThatIsSlowIsLeftAlone(t *testing.T) {
	t.Parallel()
	const waits = 300 * time.Millisecond
	late := []any{apptest.RoleChunk, waits, apptest.Chunk("o"), apptest.Chunk("k"), apptest.FinishChunk, apptest.UsageChunk, apptest.Done}
	a, b := apptest.NewUpstream(t, apptest.Stream(late...)), apptest.NewUpstream(t, apptest.Stream(late[0], late[2], late[3], late[4], late[5], late[6]))
	g := apptest.Start(t, apptest.TwoTargets(a, b,
		"circuit_breaker: {cooldown: 1h, max_cooldown: 1h, window: {size: 10m}}",
		"breakers: [{match: 'alpha/*/*', slow_call_rate_threshold: 0.5, slow_call_duration: 50ms, min_calls: 2}]"))
	for range 3 {
		if answer := g.Post(t, apptest.StreamBody); answer.Status != 200 || answer.Content(t) != "ok" {
			t.Fatalf("a call got %d %s", answer.Status, answer.Body)
		}
	}
	if a.Calls() != 2 || b.Calls() != 1 {
		t.Errorf("the slow target was asked %d times and the other %d, want 2 and 1", a.Calls(), b.Calls())
	}
	if c := g.Circuit(t, "alpha/m1/r1"); c.State != "open" || c.Reason != "slow_rate" || c.Slow != 2 || c.Failures != 0 || c.SlowCallRate == nil || *c.SlowCallRate != 1 {
		t.Errorf("the circuit is %+v, want it open by two slow calls", c)
	}
	for i, row := range g.Attempts(t, 4) {
		if want := i < 2; row["slow"] != want {
			t.Errorf("attempt %d: slow is %v, want %t", i+1, row["slow"], want)
		}
	}
	g.AwaitMetric(t, `breakwater_circuit_slow_call_rate{model="m1",provider="alpha",region="r1"}`, "1")
	g.AwaitMetric(t, `breakwater_attempt_duration_seconds_count{model="m1",outcome="slow",provider="alpha",region="r1"}`, "2")
	g.AwaitMetric(t, `breakwater_circuit_transitions_total{from_state="closed",model="m1",provider="alpha",reason="slow_rate",region="r1",to_state="open"}`, "1")
}
