package breaker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// admittedOf asks so many times, with chances spread evenly over [0, 1), and
// returns how many calls were let through; each is ended as asked.
func (g *rig) admittedOf(n int, end func(p *breaker.Permit)) (admitted int, reason string) {
	g.t.Helper()
	for i := range n {
		g.chance.Store(int64(i*1000/n + 5))
		var p breaker.Permit
		err := g.Acquire(key, &p)
		var refusal *breaker.Refusal
		switch {
		case err == nil:
			admitted++
			end(&p)
		case errors.As(err, &refusal):
			reason = refusal.Reason
			if refusal.State != breaker.Closed || refusal.RetryAfter != time.Second {
				g.t.Fatalf("refused with %+v", refusal)
			}
		}
	}
	return admitted, reason
}

func endWell(p *breaker.Permit)  { p.Done(breaker.Outcome{Kind: breaker.Success}) }
func endBadly(p *breaker.Permit) { p.Done(breaker.Outcome{Kind: breaker.Failure}) }

// R37: after a recovery a growing share of the calls is let through.
func TestRecoveryRamp(t *testing.T) {
	t.Parallel()
	on := newStores(t)
	everywhere(t, on, with(func(s *breaker.Settings) { s.FailureThreshold, s.RecoveryRamp = 1, 10*time.Second }), func(g *rig) {
		g.play("S S S n=3") // none before there was a recovery
		g.play("F +30s S closed")
		for _, row := range []struct {
			after time.Duration
			want  int
		}{{0, 20}, {5 * time.Second, 60}, {10 * time.Second, 100}, {time.Hour, 100}} {
			if got, reason := g.admittedOf(100, endWell); got != row.want || got < 100 && reason != breaker.ReasonRamping {
				g.t.Errorf("%v after: got %d of 100 (%s), want %d", row.after, got, reason, row.want)
			}
			g.advance(5 * time.Second)
		}
		g.chance.Store(0)
		g.play("F open")
	})
}

// R38: a target that answers everything is not throttled; one that answers
// nothing soon gets few calls, and all of them again once it answers.
func TestSoftThrottle(t *testing.T) {
	t.Parallel()
	s := with(func(s *breaker.Settings) {
		s.FailureThreshold, s.FailureRate = 100_000, 0
		s.Throttle = breaker.Throttle{K: 2, Window: 2 * time.Minute}
	})
	g := setup(t, s)
	if got, _ := g.admittedOf(1000, endWell); got != 1000 {
		t.Errorf("healthy: got %d of 1000", got)
	}
	g.advance(3 * time.Minute)
	got, reason := g.admittedOf(1000, endBadly)
	if got > 150 || got < 90 || reason != breaker.ReasonThrottled {
		t.Errorf("down: got %d of 1000 (%s), want a few", got, reason)
	}
	if got, _ := g.admittedOf(1000, endWell); got < 100 {
		t.Errorf("just well again: got %d of 1000, want a tenth at least", got)
	}
	g.advance(3 * time.Minute)
	if got, _ := g.admittedOf(1000, endWell); got != 1000 {
		t.Errorf("well again: got %d of 1000", got)
	}
	half := 0
	got, _ = g.admittedOf(1000, func(p *breaker.Permit) {
		if half++; half%2 == 0 {
			endBadly(p)
			return
		}
		endWell(p)
	})
	if got != 1000 { // K = 2 leaves a target alone that answers one of two
		t.Errorf("half well: got %d of 1000", got)
	}
}

func TestThrottleAndRateDoNotGoTogether(t *testing.T) {
	t.Parallel()
	for name, throttle := range map[string]breaker.Throttle{
		"with a rate":      {K: 2, Window: time.Minute},
		"below one":        {K: 0.5, Window: time.Minute},
		"without a window": {K: 2},
	} {
		s := defaults()
		s.Throttle = throttle
		if err := s.Validate(); err == nil {
			t.Errorf("%s: a throttle of %+v is valid", name, throttle)
		}
	}
}
