package breaker

import (
	"time"
)

// Why a closed circuit refuses a call: by chance, to spare its target.
const (
	ReasonRamping   = "ramping"   // the target has just recovered (R37)
	ReasonThrottled = "throttled" // it answers fewer calls than it is asked (R38)
)

// sparingRetryAfter is what a call that was refused by chance is told to wait.
const sparingRetryAfter = time.Second

// leastShare is the share of calls that are let through when a ramp begins.
const leastShare = 0.2

// Throttle lets calls through by chance when their target answers few of them,
// before a circuit would open: the more it is asked beyond K times what it
// answers, the less (R38). Each replica counts for itself.
type Throttle struct {
	K      float64       // 0: off
	Window time.Duration // over which calls are counted
}

// throttleBuckets is how finely the window of a throttle slides.
const throttleBuckets = 12

// throttle counts what a target was asked and what it answered. The circuit's mu
// guards it.
type throttle struct{ asked, answered *timeWindow }

func newThrottle(t Throttle) *throttle {
	return &throttle{newTimeWindow(t.Window, throttleBuckets), newTimeWindow(t.Window, throttleBuckets)}
}

// mostRefused is the largest share of calls that a throttle refuses: the rest find
// out when the target is well again.
const mostRefused = 0.9

// refuses counts a call that asks to go, and decides by chance in [0, 1).
func (t *throttle) refuses(k, chance float64, now time.Duration) bool {
	t.asked.slide(now)
	asked, answered := float64(t.asked.counts(now).calls), float64(t.answered.counts(now).calls)
	t.asked.succeed(1)
	return chance < min(mostRefused, (asked-k*answered)/(asked+1))
}

func (t *throttle) answer(now time.Duration) {
	t.answered.slide(now)
	t.answered.succeed(1)
}

// ramping returns the share of calls that is let through after a recovery; false
// when all are.
func (m *machine) ramping(s *Settings, now time.Duration) (float64, bool) {
	recovered := m.state == Closed && (m.reason == ReasonProbeSuccess || m.reason == ReasonCanarySuccess)
	past := elapsed(now, m.since)
	if s.RecoveryRamp == 0 || !recovered || past >= s.RecoveryRamp {
		return 1, false
	}
	return leastShare + (1-leastShare)*float64(past)/float64(s.RecoveryRamp), true
}

// spares reports whether calls are let through by chance. The caller holds mu.
func (c *circuit) spares() bool {
	if c.throttle != nil {
		return c.machine.state == Closed
	}
	if c.settings.RecoveryRamp == 0 {
		return false
	}
	_, ramping := c.machine.ramping(c.settings, c.registry.now())
	return ramping
}

// spare decides by chance about a call that a closed circuit would let through.
func (c *circuit) spare() error {
	in := c.lock(c.registry.instant())
	defer c.mu.Unlock()
	defer c.publish() // a ramp that is over spares nobody
	m := &c.machine
	if m.state != Closed || c.unruled() {
		return nil
	}
	if share, ramping := m.ramping(in.settings, in.now); ramping && in.jitter >= share {
		return c.spared(ReasonRamping)
	}
	if c.throttle != nil && c.throttle.refuses(in.settings.Throttle.K, in.jitter, in.now) {
		return c.spared(ReasonThrottled)
	}
	return nil
}

func (c *circuit) spared(reason string) error {
	c.rejected.Add(1)
	return &Refusal{Key: c.key, State: Closed, Reason: reason, RetryAfter: sparingRetryAfter, Generation: c.machine.generation}
}

// answeredCall counts a call that its target has answered, for the throttle.
func (c *circuit) answeredCall(o Outcome) {
	if o.Kind == Failure {
		return
	}
	now := c.registry.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.throttle != nil {
		c.throttle.answer(now)
	}
}

// fit gives the circuit the throttle of its settings. The caller holds mu.
func (c *circuit) fit(was Throttle) {
	switch t := c.settings.Throttle; {
	case t.K == 0:
		c.throttle = nil
	case c.throttle == nil || t.Window != was.Window:
		c.throttle = newThrottle(t)
	}
}
