package breaker_test

import (
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// R18, X15: the first token of a stream may settle a probe; how the stream ends
// still counts.
func TestFirstTokenSettlesAProbe(t *testing.T) {
	t.Parallel()
	on := newStores(t)
	tests := []struct {
		name   string
		change func(*breaker.Settings)
		script string
	}{
		{"recovery does not wait for the end", threshold(1), "F +30s a1 x t1 closed n=0 a2 S1 closed n=1 stale=0"},
		{"a stream that breaks later is a failure of the closed circuit", threshold(1), "F +30s a1 t1 closed F1 open n=1 f=1"},
		{"it counts in the streak", threshold(2), "F F +30s a1 t1 F1 closed c=1 F open"},
		{"a client that leaves later is neutral", threshold(1), "F +30s a1 t1 E1 closed n=0 e=1"},
		{"one of two verdicts", halfOpen(2, 2), "F +30s a1 a2 t1 half_open n=1 S1 half_open n=1 S2 closed"},
		{"its slot is used up", halfOpen(2, 2), "F +30s a1 a2 t1 S1 x"},
		{"a stream that breaks while half-open takes its verdict back", halfOpen(2, 2), "F +30s a1 a2 t1 F1 open"},
		{"and may be the one failure that is allowed", halfOpen(3, 2), "F +30s a1 a2 a3 t1 F1 half_open S2 half_open S3 closed"},
		{"another verdict closes; the stream belongs to the closed circuit", halfOpen(2, 2), "F +30s a1 a2 t1 t2 closed F1 open stale=0"},
		{"the circuit has moved on since", threshold(1), "F +30s a1 t1 closed F open F1 open stale=1"},
		{"no lease runs after it", threshold(1), "F +30s a1 t1 +10h S1 closed lost=0"},
		{"twice is once", halfOpen(3, 3), "F +30s a1 t1 t1 t1 half_open n=1"},
		{"twice ends no streak", threshold(2), "F F +30s a1 t1 closed F c=1 t1 closed c=1"},
		{"after the end it says nothing", halfOpen(2, 2), "F +30s a1 E1 t1 half_open n=0"},
		{"after the lease it says nothing", threshold(1), "F +30s a1 +30s t1 open lost=1 S1 stale=1"},
		{"an ordinary call is judged at its end", threshold(2), "F a1 t1 c=1 F1 open"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, on, with(tt.change), func(g *rig) { g.play(tt.script) })
		})
	}
}

// A hint at the end of a stream opens, also when its first token had closed.
func TestHintAtTheEndOfAProbingStream(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]breaker.Settings{"closed by it": with(threshold(1)), "still half-open": with(halfOpen(3, 2))} {
		g := setup(t, s)
		g.play("F +30s a1 t1")
		g.permits["1"].Done(breaker.Outcome{Kind: breaker.Failure, OpenFor: 9 * time.Second})
		if s := g.snapshot(); s.State != breaker.Open || s.RetryAfter != 9*time.Second {
			t.Errorf("%s: got %v for %v, want open for 9 s", name, s.State, s.RetryAfter)
		}
	}
}

// A permit says how the call was admitted until the end of the call.
func TestPermitSaysHowItWasAdmitted(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(1)))
	g.play("a1 F +30s a2 t2")
	for _, tt := range []struct {
		permit     string
		state      breaker.State
		generation uint64
		probe      bool
	}{{"1", breaker.Closed, 1, false}, {"2", breaker.HalfOpen, 3, true}} {
		p := g.permits[tt.permit]
		if p.State() != tt.state || p.Generation() != tt.generation || p.Probe() != tt.probe {
			t.Errorf("permit %s: got %v, %d, probe %v; want %v, %d, %v", tt.permit, p.State(), p.Generation(), p.Probe(), tt.state, tt.generation, tt.probe)
		}
	}
}
