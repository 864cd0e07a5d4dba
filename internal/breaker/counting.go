package breaker

import "time"

// record counts an outcome in a closed circuit and evaluates what it makes of
// it. A success may open, too: it can be the one that makes the rate known, or
// the first after others have left the window (R24).
func (m *machine) record(c claim, o Outcome, in instant) *transition {
	slow, counted := c.slow(o, in), c.timer.leave(m)
	switch o.Kind {
	case Success:
		m.endStreak(in.now)
		m.unsent.endStreak()
	case Failure:
		m.fade(o.Took, in)
		m.streak.fail(in.now)
		m.blamed = o.Cause
		m.unsent.fail(in.now-o.Took, o.Cause)
	}
	said := o.Kind != Neutral || slow
	if said {
		m.count(c, o.Kind == Failure, slow, counted, in)
	}
	switch {
	case o.OpenFor > 0:
		m.unsent.hint(o)
		return m.hint(o, in)
	case !said:
		return nil
	default:
		return m.evaluate(in)
	}
}

// count adds an outcome to the window, once: of one that was counted as slow
// while it ran only its failure is news (R21, R22).
func (m *machine) count(c claim, failed, slow, counted bool, in instant) {
	m.window.slide(in.now)
	switch {
	case !counted:
		m.window.add(failed, slow)
		m.unsent.sample(failed, slow)
	case failed && c.timer.batch.fail(m):
		m.unsent.blame()
	case failed:
		m.window.add(failed, false)
		m.unsent.sample(failed, false)
	}
}

// slow reports whether an outcome is that of a slow call. Of the neutral ones
// only a call that was given up says so (R16).
func (c claim) slow(o Outcome, in instant) bool {
	if in.settings.SlowRate == 0 || c.timer == nil || !c.timer.over(in.now) {
		return false
	}
	return o.Kind != Neutral || o.GaveUp && in.settings.SlowCancels
}

// evaluate opens a closed circuit whose streak or rates have come to their
// limits (T1, T2, T3): once, for the first of them that has.
func (m *machine) evaluate(in instant) *transition {
	s := in.settings
	if m.hushed(in) {
		return nil
	}
	seen := m.window.counts(in.now)
	exceeded := s.exceeded(seen)
	if !s.streakReached(m.streak.failures) && len(exceeded) == 0 {
		m.near = 0
		return nil
	}
	if in.held || m.waits(seen, in) {
		return nil
	}
	var t *transition
	switch {
	case s.streakReached(m.streak.failures):
		t = m.trip(ReasonConsecutive, m.blamed, in)
	case exceeded[0] == ReasonFailureRate:
		t = m.trip(ReasonFailureRate, m.blamed, in)
	default:
		t = m.trip(ReasonSlowRate, "", in)
	}
	t.exceeded = exceeded
	return t
}

// waits reports whether what others have not told yet could show that no limit
// is passed. They are given a moment to tell it.
func (m *machine) waits(n samples, in instant) bool {
	if in.margin == 0 || in.settings.streakReached(in.row) {
		return false
	}
	n.calls += n.calls * uint64(in.margin) / uint64(All)
	if elapsed(in.now, m.since) >= youth && len(in.settings.exceeded(n)) > 0 {
		return false
	}
	if m.near == 0 {
		m.near = in.now
	}
	return elapsed(in.now, m.near) < patience
}

// unmoved reports whether, as long as the window is steady, a success would
// change nothing but its count.
func (m *machine) unmoved(in instant) bool {
	return m.state.counts() && m.streak.failures == 0 && in.settings.safe(m.window.counts(in.now))
}

// adopt takes the settings that govern from now on. What was counted stays
// unless the window has another shape (R45).
func (m *machine) adopt(was, s *Settings) {
	if was.Window != s.Window {
		m.reform(s)
	}
	if s.SlowRate == 0 {
		m.watched = nil
	}
}

// reform begins an empty window of another shape.
func (m *machine) reform(s *Settings) {
	m.window = newWindow(s.Window)
	m.windows++
	m.shape = m.windows
}

// counts are those of the present state.
func (m *machine) counts(now time.Duration) Counts {
	if e := m.episode; e != nil {
		return Counts{Calls: uint64(e.successes + e.failures), Failures: uint64(e.failures)}
	}
	seen := m.window.counts(now)
	return Counts{Calls: seen.calls, Failures: seen.failures, Slow: seen.slow, ConsecutiveFailures: m.streak.failures}
}

// endStreak forgets the streak. What passed from its first failure until then
// was not healthy time.
func (m *machine) endStreak(until time.Duration) {
	if m.streak.failures > 0 {
		m.backoff.healthySince = later(m.backoff.healthySince, elapsed(until, m.streak.began))
	}
	m.streak = streak{}
}

// settleBackoff takes off the steps that the closed time behind earned. The
// streak that trips was not healthy time.
func (m *machine) settleBackoff(in instant) {
	until := in.now
	if m.streak.failures > 0 {
		until = m.streak.began
	}
	m.backoff.decay(elapsed(until, m.backoff.healthySince), in.settings.StepDecay)
}

// fade ends a streak that a call which ended now after took is too late to
// continue (R27).
func (m *machine) fade(took time.Duration, in instant) {
	if m.streak.faded(in.now, took, in.settings.memory()) {
		m.endStreak(m.streak.last)
	}
}
