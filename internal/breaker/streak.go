package breaker

import (
	"math"
	"time"
)

// streak counts failures in a row while a circuit is closed.
type streak struct {
	failures    int
	began, last time.Duration // when the first and the last of them ended
}

// fail counts a failure that ended now.
func (k *streak) fail(now time.Duration) {
	k.extend(1, now)
}

// extend counts failures in a row that were seen elsewhere, saturating (R28).
func (k *streak) extend(n int, now time.Duration) {
	if k.failures == 0 {
		k.began = now
	}
	k.failures = min(k.failures+n, math.MaxInt32)
	k.last = now
}

// faded reports whether a call that ended now after took began so long after
// the last failure that the streak is history (R27).
func (k *streak) faded(now, took, memory time.Duration) bool {
	return k.failures > 0 && elapsed(now-max(0, took), k.last) > memory
}

// streakReached reports whether so many failures in a row open; a threshold of
// 0 means that no streak does.
func (s *Settings) streakReached(failures int) bool {
	return s.FailureThreshold > 0 && failures >= s.FailureThreshold
}

// memory is how long a streak outlives its last failure. It outlives what the
// window shows, which says nothing about calls so rare.
func (s *Settings) memory() time.Duration {
	d := s.Cooldown
	if s.Window.Calls == 0 {
		d = max(d, s.Window.Span)
	}
	return later(d, d)
}
