package breaker

import (
	"math"
	"time"
)

// A duration of healthy time worth this many StepDecays forgets every step.
const decaysToForget = 10

// maxStep is far beyond the last step that makes a difference; it bounds the work
// of counting there.
const maxStep = 10_000

// backoff remembers how often in a row recovery failed.
type backoff struct {
	step int
	// healthySince is when the closed time began that counts as healthy, moved
	// forward by what was spent in failure streaks since.
	healthySince time.Duration
}

// decay takes off one step per StepDecay of healthy time (R29).
func (b *backoff) decay(healthy, every time.Duration) {
	steps := healthy / every
	if steps >= decaysToForget {
		b.step = 0
		return
	}
	b.step = max(0, b.step-int(steps))
}

// grow counts a failed recovery.
func (b *backoff) grow() {
	b.step = min(b.step+1, maxStep)
}

// cooldown returns how long the step keeps a circuit open: the base grown by
// the step and capped, then lengthened by the fraction jitter, in [0, 1), of
// the largest allowed jitter (R30). It never shortens and never overflows.
func (b *backoff) cooldown(s *Settings, jitter float64) time.Duration {
	grown, most := float64(s.Cooldown), float64(s.MaxCooldown)
	if s.CooldownMultiplier > 1 {
		for i := 0; i < b.step && grown < most; i++ {
			grown *= s.CooldownMultiplier
		}
	}
	d := s.MaxCooldown
	if grown < most {
		d = time.Duration(grown)
	}
	extra := float64(d) * s.CooldownJitter * jitter
	if extra >= math.MaxInt64 {
		return math.MaxInt64
	}
	return later(d, time.Duration(extra))
}

// later adds a duration to a point in time and stops at the end of time
// instead of wrapping.
func later(at, d time.Duration) time.Duration {
	if d > 0 && at > math.MaxInt64-d {
		return math.MaxInt64
	}
	return at + d
}

// elapsed is the time from then to now. A clock that went backwards has stood
// still (R42).
func elapsed(now, then time.Duration) time.Duration { return max(0, now-then) }
