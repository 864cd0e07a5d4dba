package breaker

import (
	"slices"
	"time"
)

// episode is one stay in half-open. It hands out a fixed number of slots for
// probes; a slot comes back only from a neutral probe (R10). An episode keeps
// the number of slots and successes it began with when the settings change.
type episode struct {
	canary bool // its one probe is ours, not a caller's
	slots  []slot
	needed int    // successes that close
	handed uint64 // leases so far

	successes, failures int
	neutrals            int // in a row

	// idle is the time spent without a live lease before idleSince.
	idle      time.Duration
	idleSince time.Duration
}

// slot is the place of one probe and the lease on it.
type slot struct {
	use        use
	lease      uint64 // which one, of all in the circuit's life or the store's
	expiresAt  time.Duration
	renewUntil time.Duration // the holder's own deadline
}

type use uint8

const (
	free use = iota
	leased
	spent
)

func newEpisode(s *Settings, now time.Duration) *episode {
	return &episode{slots: make([]slot, s.HalfOpenCalls), needed: s.SuccessThreshold, idleSince: now}
}

// newCanaryEpisode is the phase before: calls are still refused (T7).
func newCanaryEpisode(now time.Duration) *episode {
	return &episode{canary: true, slots: make([]slot, 1), needed: 1, idleSince: now}
}

// take leases a free slot under the name that the lease is to have, 0 for the
// next number, and returns that name.
func (e *episode) take(name uint64, s *Settings, now time.Duration) (uint64, bool) {
	for i := range e.slots {
		if e.slots[i].use != free {
			continue
		}
		if e.live() == 0 {
			e.idle = e.idleFor(now)
		}
		e.handed++
		if name == 0 {
			name = e.handed
		}
		e.slots[i] = slot{use: leased, lease: name, expiresAt: later(now, s.Lease), renewUntil: later(now, s.MaxHalfOpen)}
		return name, true
	}
	return 0, false
}

// give takes a slot out of its probe's hands, for good or to be handed out
// again.
func (e *episode) give(i int, to use, now time.Duration) {
	e.slots[i] = slot{use: to}
	if e.live() == 0 {
		e.idleSince = now
	}
}

// why names the reason of a move by whose verdict it is.
func (e *episode) why(probe, canary string) string {
	if e.canary {
		return canary
	}
	return probe
}

// held returns the slot under a lease; false when that lease is over.
func (e *episode) held(lease uint64) (int, bool) {
	i := slices.IndexFunc(e.slots, func(s slot) bool { return s.use == leased && s.lease == lease })
	return i, i >= 0
}

// count adds the verdict of the probe in slot i.
func (e *episode) count(i int, kind Kind, now time.Duration) {
	switch kind {
	case Success:
		e.successes++
		e.neutrals = 0
		e.give(i, spent, now)
	case Failure:
		e.failures++
		e.neutrals = 0
		e.give(i, spent, now)
	default:
		e.neutrals++
		e.give(i, free, now)
	}
}

// recant turns a success that was given at the first token into a failure. A
// holder that says so twice has none left to turn.
func (e *episode) recant() {
	e.successes = max(0, e.successes-1)
	e.failures++
}

// won reports whether enough probes succeeded; failed, whether so many failed
// that the rest cannot make it (R33).
func (e *episode) won() bool    { return e.successes >= e.needed }
func (e *episode) failed() bool { return e.failures > len(e.slots)-e.needed }

// ran reports whether slot i is under a lease that is over.
func (e *episode) ran(i int, now time.Duration) bool {
	return e.slots[i].use == leased && now >= e.slots[i].expiresAt
}

func (e *episode) live() int {
	n := 0
	for i := range e.slots {
		if e.slots[i].use == leased {
			n++
		}
	}
	return n
}

// lost returns how many leases are over.
func (e *episode) lost(now time.Duration) int {
	n := 0
	for i := range e.slots {
		if e.ran(i, now) {
			n++
		}
	}
	return n
}

// idleFor is how long the episode has been without a live lease altogether.
func (e *episode) idleFor(now time.Duration) time.Duration {
	if e.live() > 0 {
		return e.idle
	}
	return later(e.idle, elapsed(now, e.idleSince))
}

// leaseLeft is how long the lease lasts that is over first; false when there
// is none.
func (e *episode) leaseLeft(now time.Duration) (time.Duration, bool) {
	var left time.Duration
	found := false
	for i := range e.slots {
		if e.slots[i].use != leased {
			continue
		}
		if d := max(0, e.slots[i].expiresAt-now); !found || d < left {
			left, found = d, true
		}
	}
	return left, found
}

// renew is the heartbeat of the holder's process: it extends every lease whose
// call is inside its own deadline (R11). Leases that are over have ended the
// episode before.
func (e *episode) renew(now, lease time.Duration) {
	for i := range e.slots {
		if e.slots[i].use == leased && now < e.slots[i].renewUntil {
			e.slots[i].expiresAt = max(e.slots[i].expiresAt, later(now, lease))
		}
	}
}
