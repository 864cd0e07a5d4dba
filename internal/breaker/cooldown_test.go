package breaker_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// openFor drives one opening of a circuit with threshold one and returns how
// long it lasts.
func (g *rig) openFor() time.Duration {
	g.t.Helper()
	g.play("F open")
	return g.snapshot().RetryAfter
}

// R30, C119: every failed recovery doubles the cooldown up to its maximum.
func TestCooldownGrowsWithFailedProbes(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(1)))
	var got []time.Duration
	for range 7 {
		d := g.openFor()
		got = append(got, d)
		g.advance(d)
	}
	s := time.Second
	if diff := cmp.Diff([]time.Duration{30 * s, 60 * s, 120 * s, 240 * s, 300 * s, 300 * s, 300 * s}, got); diff != "" {
		t.Errorf("cooldowns (-want +got):\n%s", diff)
	}
}

// R29: closing does not forget the steps; each StepDecay of healthy closed time
// takes one off, and ten take all.
func TestCooldownDecaysWhileHealthy(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		healthy string
		want    time.Duration
	}{
		{"closed again at once", "S", 240 * time.Second},
		{"just under a minute", "S +59s", 240 * time.Second},
		{"a minute", "S +1m", 120 * time.Second},
		{"two minutes", "S +2m", 60 * time.Second},
		{"three minutes", "S +3m", 30 * time.Second},
		{"a streak that ended well is not healthy time", "S +30s F +20s S +29s", 240 * time.Second},
		{"time around a streak adds up", "S +30s F +20s S +30s", 120 * time.Second},
		{"a streak that faded away is healthy again after its last failure", "S +30s F +20s F +10m F S", 30 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, with(threshold(3)))
			g.play("F F F +30s F +60s F +120s F +240s") // step 3
			g.play(tt.healthy)
			g.play("F F F open")
			if got := g.snapshot().RetryAfter; got != tt.want {
				t.Errorf("next cooldown: got %v, want %v", got, tt.want)
			}
		})
	}
}

// R29: however many steps there are, ten decays of healthy time forget them.
func TestCooldownForgetsAfterTenDecays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ healthy, want time.Duration }{
		{9*time.Minute + 59*time.Second, 5 * time.Minute},
		{10 * time.Minute, 30 * time.Second},
	} {
		g := setup(t, with(threshold(1)))
		for range 30 {
			g.advance(g.openFor())
		}
		g.play("S closed")
		g.advance(tt.healthy)
		if got := g.openFor(); got != tt.want {
			t.Errorf("after %v of healthy time: got %v, want %v", tt.healthy, got, tt.want)
		}
	}
}

// R29: healthy time counts also when a hint ended it.
func TestHintKeepsWhatHealthyTimeEarned(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(1)))
	g.play("F +30s F +60s F +120s S closed +2m F(1s) +1s F open") // step 2, less 2, plus 1
	if got, want := g.snapshot().RetryAfter, 60*time.Second; got != want {
		t.Errorf("cooldown: got %v, want %v", got, want)
	}
}

// R29: the failures that trip are not healthy time, however slowly they come.
func TestTrippingStreakIsNotHealthyTime(t *testing.T) {
	t.Parallel()
	g := setup(t, with(func(s *breaker.Settings) { s.FailureThreshold = 2 }))
	g.play("F F +30s F +60s S closed F +60s F open")
	if got, want := g.snapshot().RetryAfter, 60*time.Second; got != want {
		t.Errorf("cooldown: got %v, want %v", got, want)
	}
}

// T4, R32: a hint opens for exactly that long, whatever counters, steps and
// jitter say, up to the longest that is honoured.
func TestHintOpensForExactlyThatLong(t *testing.T) {
	t.Parallel()
	on := newStores(t)
	jittery := func(s *breaker.Settings) { s.CooldownJitter = 1 }
	tests := []struct {
		name   string
		script string
		want   time.Duration
	}{
		{"shorter than the cooldown", "F(1s)", time.Second},
		{"longer than the longest cooldown", "F(42m)", 42 * time.Minute},
		{"longer than is honoured", "F(30h)", time.Hour},
		{"as the failure that completes a streak", "F F F F F(7s)", 7 * time.Second},
		{"from a neutral call", "E(9s)", 9 * time.Second},
		{"from a success", "S(9s)", 9 * time.Second},
		{"in half-open", "F(1s) +1s F(3s)", 3 * time.Second},
		{"from a neutral probe", "F(1s) +1s E(3s)", 3 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, on, with(jittery), func(g *rig) {
				g.play(tt.script)
				s := g.snapshot()
				if s.State != breaker.Open || s.Reason != breaker.ReasonRetryAfter || s.RetryAfter != tt.want {
					t.Errorf("got %v, %s, %v; want open, retry_after, %v", s.State, s.Reason, s.RetryAfter, tt.want)
				}
			})
		})
	}
}

// A rate limit without a hint is a failure like any other.
func TestFailureWithoutAHintCountsInTheStreak(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(3)))
	for range 3 {
		g.acquire().Done(breaker.Outcome{Kind: breaker.Failure, Cause: "rate_limit"})
	}
	s := g.snapshot()
	if s.State != breaker.Open || s.Reason != breaker.ReasonConsecutive || s.Cause != "rate_limit" {
		t.Errorf("got %v, %s, caused by %q; want open, consecutive, caused by rate_limit", s.State, s.Reason, s.Cause)
	}
}

// X17, R30: jitter only lengthens, and it spreads.
func TestJitterOnlyLengthens(t *testing.T) {
	t.Parallel()
	const d = 30 * time.Second
	s := with(func(s *breaker.Settings) { s.FailureThreshold, s.CooldownJitter = 1, 0.25 })
	r := breaker.New(breaker.Config{Settings: always(s), Now: func() time.Duration { return 0 }})
	shortest, longest := time.Duration(math.MaxInt64), time.Duration(0)
	for i := range 1000 {
		k := string(rune(i + 1))
		var p breaker.Permit
		if err := r.Acquire(k, &p); err != nil {
			t.Fatal(err)
		}
		p.Done(outcome('F'))
		got, _ := r.Circuit(k)
		shortest, longest = min(shortest, got.RetryAfter), max(longest, got.RetryAfter)
	}
	if shortest < d || longest > d*5/4 || longest-shortest < d/5 {
		t.Errorf("1,000 openings last from %v to %v, want from %v to %v and a spread over %v", shortest, longest, d, d*5/4, d/5)
	}
}

// C109: times beyond the end of time end there; none wraps.
func TestHugeDurationsSaturate(t *testing.T) {
	t.Parallel()
	forever := func(s *breaker.Settings) {
		s.FailureThreshold, s.CooldownMultiplier, s.CooldownJitter = 1, 1000, 1
		s.Cooldown, s.MaxCooldown, s.MaxRetryAfter = math.MaxInt64-1, math.MaxInt64, math.MaxInt64
		s.MaxHalfOpen, s.Lease = math.MaxInt64, math.MaxInt64
	}
	for _, failure := range []string{"F", "F(2562047h47m16s)"} {
		g := setup(t, with(forever))
		g.advance(time.Hour)
		g.play(failure + " open")
		if got := g.refused().RetryAfter; got < 200*365*24*time.Hour {
			t.Errorf("%s: retry after %v, want centuries", failure, got)
		}
		g.advance(math.MaxInt64 - 2*time.Hour)
		g.play("x open")
		g.now.Store(math.MaxInt64)
		g.play("a1 half_open x")
	}
}

// R42: a clock that steps back stands still: nothing is refused longer than the
// circuit was opened for, and nothing decays backwards.
func TestClockThatStepsBack(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(2)))
	g.advance(time.Hour)
	g.play("F")
	g.advance(-30 * time.Minute)
	g.play("F open")
	g.advance(-30 * time.Minute)
	if got, want := g.refused().RetryAfter, 30*time.Second; got != want {
		t.Errorf("retry after: got %v, want %v", got, want)
	}
	if got, want := g.snapshot().RetryAfter, 30*time.Second; got != want {
		t.Errorf("snapshot: got %v, want %v", got, want)
	}
	g.advance(30*time.Minute + 30*time.Second)
	g.play("a1 half_open")
	g.advance(-time.Minute)
	g.play("x S1 closed F closed c=1")
}

// R42: time that runs backwards takes no step off and adds none.
func TestBackoffWhenTheClockStepsBack(t *testing.T) {
	t.Parallel()
	g := setup(t, with(threshold(1)))
	g.play("F +30s F +60s S closed")
	g.advance(-time.Minute)
	if got, want := g.openFor(), 60*time.Second; got != want {
		t.Errorf("cooldown: got %v, want %v", got, want)
	}
}

// R27: a streak fades when no call was made for twice the cooldown, and only
// then: slow failures one after another add up.
func TestStreakFades(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		gap, took time.Duration
		want      breaker.State
	}{
		{"twice the cooldown between them", time.Minute, 0, breaker.Open},
		{"longer", time.Minute + time.Nanosecond, 0, breaker.Closed},
		{"longer, because each call hung", 5 * time.Minute, 4 * time.Minute, breaker.Open},
		{"longer although each call hung", 5 * time.Minute, 3 * time.Minute, breaker.Closed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, with(threshold(3)))
			for range 3 {
				g.advance(tt.gap)
				g.acquire().Done(breaker.Outcome{Kind: breaker.Failure, Took: tt.took})
			}
			if got := g.snapshot().State; got != tt.want {
				t.Errorf("after three failures: got %v, want %v", got, tt.want)
			}
		})
	}
	g := setup(t, with(threshold(3)))
	g.play("F F c=2 +1m c=2 +1us c=0 F closed c=1")
}
