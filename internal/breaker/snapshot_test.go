package breaker_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

var ignoreSince = cmpopts.IgnoreFields(breaker.Snapshot{}, "Since")

// CF-S1, CF-S7: a key that was never used has no circuit, and reading makes
// none; a new one is pristine.
func TestSnapshotOfANewCircuit(t *testing.T) {
	t.Parallel()
	g := setup(t, defaults())
	if _, ok := g.Circuit(key); ok || len(g.Circuits()) != 0 {
		t.Fatal("there is a circuit before the first call")
	}
	g.acquire()
	want := breaker.Snapshot{Key: key, Enabled: true, State: breaker.Closed, Generation: 1}
	if diff := cmp.Diff(want, g.snapshot(), ignoreSince); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
}

// R5: reading an open circuit whose time is up does not move it.
func TestSnapshotIsAPureRead(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(2)))
	g.play("S F F")
	want := breaker.Snapshot{
		Key: key, Enabled: true, State: breaker.Open, Reason: breaker.ReasonConsecutive, Cause: "server_error",
		Generation: 2, RetryAfter: 30 * time.Second, Calls: 3, Failures: 2, ConsecutiveFailures: 2,
	}
	if diff := cmp.Diff(want, g.snapshot(), ignoreSince); diff != "" {
		t.Errorf("just opened (-want +got):\n%s", diff)
	}
	g.advance(time.Hour)
	want.RetryAfter, want.Eligible = 0, true
	for range 3 {
		if diff := cmp.Diff([]breaker.Snapshot{want}, g.Circuits(), ignoreSince); diff != "" {
			t.Errorf("past its time (-want +got):\n%s", diff)
		}
	}
	if since := time.Since(g.snapshot().Since); since < time.Hour || since > time.Hour+time.Minute {
		t.Errorf("open since %v ago, want an hour", since)
	}
}

// A circuit that recovered says so, and no longer what had opened it.
func TestSnapshotAfterRecovery(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(1)))
	g.play("F +30s S")
	want := breaker.Snapshot{Key: key, Enabled: true, State: breaker.Closed, Reason: breaker.ReasonProbeSuccess, Generation: 4, Probes: 1, ProbeSuccesses: 1}
	if diff := cmp.Diff(want, g.snapshot(), ignoreSince); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
}

// C91: what remains of the open time; nothing once it is over or in other
// states.
func TestSnapshotRemainingTime(t *testing.T) {
	t.Parallel()
	g := setup(t, with(func(s *breaker.Settings) { s.FailureThreshold, s.Cooldown = 1, time.Second }))
	g.play("S")
	steps := []struct {
		script string
		want   time.Duration
	}{
		{"closed", 0}, {"F open", time.Second}, {"+110ms", 890 * time.Millisecond},
		{"+890ms eligible", 0}, {"a1 half_open", 0}, {"S1 closed", 0},
	}
	for _, step := range steps {
		g.play(step.script)
		if got := g.snapshot().RetryAfter; got != step.want {
			t.Errorf("after %q: got %v, want %v", step.script, got, step.want)
		}
	}
}

// C48, CF-S9: one circuit per key and none shared between keys that look alike.
func TestCircuitsAreIndependent(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(1)))
	keys := []string{"a/m/r", "a/m/R", "a/m%2Fr/", "a/m/r/", "{a}:m\x00r", ""}
	for _, k := range keys {
		var p breaker.Permit
		if err := g.Acquire(k, &p); err != nil {
			t.Fatalf("%q is refused after a failure elsewhere: %v", k, err)
		}
		if k == "a/m/r" {
			p.Done(outcome('F'))
		} else {
			p.Done(outcome('S'))
		}
	}
	var got []string
	for _, s := range g.Circuits() {
		got = append(got, s.Key+" "+s.State.String())
	}
	want := []string{" closed", "a/m%2Fr/ closed", "a/m/R closed", "a/m/r open", "a/m/r/ closed", "{a}:m\x00r closed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("circuits (-want +got):\n%s", diff)
	}
}
