package breaker_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// TestTransitions walks the transitions that a circuit makes by itself, and the
// rules that speak of them.
func TestTransitions(t *testing.T) {
	t.Parallel()
	on := newStores(t)
	tests := []struct {
		name   string
		change func(*breaker.Settings)
		script string
	}{
		{"T1 a streak opens", threshold(3), "FF closed F open by=consecutive c=3"},
		{"T6 the call that finds the time up is the first probe", threshold(1), "F +30s eligible probes=0 a1 half_open by=half_open probes=1 x"},
		{"R2 and takes one of the slots, not one beside them", halfOpen(2, 2), "F +30s a1 a2 x probes=2"},
		{"T10 a free slot is leased", halfOpen(3, 3), "F +30s a1 a2 a3 half_open probes=3 r=0 x"},
		{"T11 without one calls are refused", threshold(1), "F +30s a1 x x half_open r=2 S1 closed"},
		{"T12 a success that does not close uses its slot up", halfOpen(2, 2), "F +30s a1 S1 half_open n=1 a2 x S2 closed by=probe_success"},
		{"T13 closing begins a new window and a new streak", threshold(3), "FFF +30s S closed n=0 f=0 c=0 FF closed c=2 F open"},
		{"T13 closing keeps the step", threshold(1), "F +30s F +60s S closed F open +59s x +1s a1 half_open"},
		{"T14 every failed recovery is one step more", threshold(1), "F +30s F open by=probe_failure +59s x +1s F open +119s x +1s a1"},
		{"T14 a failure that the others can make up for is none", halfOpen(3, 2), "F +30s F half_open S S closed F open +29s x +1s a1"},
		{"T15 a neutral probe gives its slot back at once", halfOpen(2, 2), "F +30s a1 a2 x E1 a3 x half_open n=0"},
		{"T15 and takes no verdict away", halfOpen(2, 2), "F +30s S E half_open n=1 S closed"},
		{"C89 an episode counts its verdicts apart", halfOpen(20, 15), "F +30s SSF/5 half_open n=15 f=5 rate=0.333 SSSSS closed"},
		{"R44 every counter of a life", threshold(1), "S E F x x +30s E half_open a1 +30s x open S1 S1 e=2 r=3 probes=2 lost=1 stale=1 double=1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := with(func(s *breaker.Settings) { s.FailureRate = 0 })
			tt.change(&s)
			everywhere(t, on, s, func(g *rig) { g.play(tt.script) })
		})
	}
}

// C40: a call may end without an error and be a failure all the same: what its
// caller makes of the result decides.
func TestResultWithoutAnErrorMayFail_C40(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(2)))
	marked := func(status int) func(*breaker.Permit) breaker.Outcome {
		return func(*breaker.Permit) breaker.Outcome {
			if status == 503 {
				return breaker.Outcome{Kind: breaker.Failure, Cause: "marked"}
			}
			return breaker.Outcome{Kind: breaker.Success}
		}
	}
	for _, step := range []struct {
		status int
		after  string
	}{{200, "closed n=1 f=0"}, {503, "closed n=2 f=1 c=1"}, {200, "c=0"}, {503, "closed c=1"}, {503, "open n=5 f=3"}} {
		if err := g.Do(key, marked(step.status)); err != nil {
			t.Fatalf("a call that the circuit let through: %v", err)
		}
		g.play(step.after)
	}
	if got := g.snapshot().Cause; got != "marked" {
		t.Errorf("cause: got %q, want that of the marked result", got)
	}
}

// C68: the same errors open a circuit or do not, as the caller's judgement of
// them has it, from one call to the next.
func TestTheCallerJudgesItsErrors_C68(t *testing.T) {
	t.Parallel()
	lenient := func(error) breaker.Outcome { return outcome('S') }
	strict := func(err error) breaker.Outcome {
		if err != nil {
			return outcome('F')
		}
		return outcome('S')
	}
	g := setup(t, with(func(s *breaker.Settings) { s.FailureThreshold, s.FailureRate = 6, 0 }))
	fail := func(times int, judge func(error) breaker.Outcome) {
		t.Helper()
		for range times {
			if err := g.Do(key, func(*breaker.Permit) breaker.Outcome { return judge(errors.New("boom")) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	fail(5, lenient)
	g.play("closed n=5 f=0 c=0")
	fail(5, strict)
	g.play("closed n=10 f=5 c=5")
	fail(1, strict)
	g.play("open n=11 f=6 c=6")
}

// C46: every end of a call and every refusal is counted once, every transition
// told once, and failures beyond the limit are no second one.
func TestEverythingIsToldOnce_C46(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, told := started(t, with(threshold(2)))
		g.play("S n=1 f=0 e=0 r=0")          // a success
		g.play("E n=1 f=0 e=1 r=0")          // a neutral end
		g.play("F n=2 f=1 e=1 r=0")          // a failure
		g.play("a1 a2 a3 F1 open n=3 f=2")   // the one at the limit
		g.play("F2 F3 open n=3 f=2 stale=2") // two beyond it
		g.play("x n=3 f=2 e=1 r=1 double=0") // a refusal
		g.play("!reset closed n=0 f=0")      // a reset
		if diff := cmp.Diff([]string{breaker.ReasonConsecutive, breaker.ReasonOperator}, told()); diff != "" {
			t.Errorf("transitions (-want +got):\n%s", diff)
		}
	})
}

// C44: a share of slow calls beyond all of them is refused like one of failures.
func TestValidateRefusesASlowRateAboveAll_C44(t *testing.T) {
	t.Parallel()
	for rate, valid := range map[breaker.Rate]bool{0: true, breaker.All: true, breaker.All + 10_000: false} {
		err := with(func(s *breaker.Settings) { s.SlowRate = rate }).Validate()
		if valid != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), "slow_call_rate_threshold: ") {
			t.Errorf("%d millionths: got %v, want valid: %v", rate, err, valid)
		}
	}
}
