package breaker

import (
	"cmp"
	"slices"
	"time"
)

// Snapshot is one circuit as it is now. Reading it changes nothing: a circuit
// whose time is up reads Open and Eligible until a call comes (R5).
type Snapshot struct {
	Key        string
	Enabled    bool // false: the settings want no circuit; unless a person has set its state, it admits everything and records nothing
	State      State
	Eligible   bool   // open, and the next call will be a probe
	Reason     string // of the last transition; empty when there was none
	Cause      string // of the failure that opened it; empty while closed
	Generation uint64
	Since      time.Time     // of the state; UTC
	RetryAfter time.Duration // while open, until it is eligible; else 0

	// Of a state that a person has set: why, who, and until when; zero: until
	// another command.
	Note, Actor string
	Until       time.Time

	// The outcomes that the window shows, neutral ones left out; while open,
	// those that opened it; while half-open, the verdicts so far.
	Calls, Failures, Slow uint64
	FailureRate           *float64 // nil while there are too few calls (Settings.MinCalls)
	SlowRate              *float64 // nil then, too, and where slow calls open nothing
	ConsecutiveFailures   int

	// Totals over the life of the circuit.
	Neutral                       uint64 // neutral outcomes
	Rejected                      uint64 // calls that were not admitted
	Probes                        uint64 // calls that were admitted as probes
	ProbeSuccesses, ProbeFailures uint64 // verdicts of probes
	Stale                         uint64 // outcomes of an older generation
	DoubleDone                    uint64 // second Dones
	LeaseExpired                  uint64 // probes that were given up
}

// Circuits returns a snapshot of every circuit, ordered by key.
func (r *Registry) Circuits() []Snapshot {
	var all []Snapshot
	for _, c := range r.circuits.Range {
		all = append(all, c.(*circuit).snapshot())
	}
	all = append(all, r.groups.snapshots(r.now())...)
	slices.SortFunc(all, func(a, b Snapshot) int { return cmp.Compare(a.Key, b.Key) })
	return all
}

// Circuit returns the snapshot of one circuit; false when the key has not been
// used, or not for a long time.
func (r *Registry) Circuit(key string) (Snapshot, bool) {
	c, ok := r.circuits.Load(key)
	if !ok {
		return r.groups.snapshot(key, r.now())
	}
	return c.(*circuit).snapshot(), true
}

// snapshot reads the circuit and changes nothing.
func (c *circuit) snapshot() Snapshot {
	now := c.registry.now()
	c.lock(instant{})
	defer c.mu.Unlock()
	s := Snapshot{
		Key: c.key, Enabled: !c.off,
		Rejected: c.rejected.Load(), Stale: c.tally.stale.Load(), DoubleDone: c.tally.doubleDone.Load(),
		LeaseExpired: c.tally.expired.Load(), Neutral: c.tally.neutrals.Load(),
		Probes: c.tally.probes.Load(), ProbeSuccesses: c.tally.probesWon.Load(), ProbeFailures: c.tally.probesLost.Load(),
	}
	if s.Enabled || c.machine.state.operated() {
		c.describe(&s, now)
	}
	return s
}

func (c *circuit) describe(s *Snapshot, now time.Duration) {
	m := &c.machine
	s.State, s.Generation, s.Reason, s.Cause = m.state, m.generation, m.reason, m.cause
	s.Since = time.Now().Add(-elapsed(now, m.since)).UTC()
	s.RetryAfter = m.remaining(now)
	s.Eligible = m.state == Open && s.RetryAfter == 0 && !c.settings.Canary
	s.Note, s.Actor = m.override.note, m.override.actor
	if left := m.override.remaining(now); left > 0 {
		s.Until = time.Now().Add(left).UTC()
	}

	counts := m.counts(now)
	if m.state == Open {
		counts = m.opened
	}
	s.Calls, s.Failures, s.ConsecutiveFailures = counts.Calls, counts.Failures, counts.ConsecutiveFailures
	s.Slow = counts.Slow
	s.FailureRate, s.SlowRate = c.rate(counts.Failures, counts), c.rate(counts.Slow, counts)
	if c.settings.SlowRate == 0 {
		s.SlowRate = nil
	}
	if m.state.counts() && m.streak.faded(now, 0, c.settings.memory()) {
		s.ConsecutiveFailures = 0
	}
}

// rate is the share that some have of the calls; nil while there are too few calls to speak of
// one (R26). An episode has no more of them than it has slots.
func (c *circuit) rate(some uint64, n Counts) *float64 {
	least := c.settings.minCalls()
	if e := c.machine.episode; e != nil {
		least = min(least, uint64(len(e.slots)))
	}
	if n.Calls < max(1, least) {
		return nil
	}
	return new(float64(some) / float64(n.Calls))
}
