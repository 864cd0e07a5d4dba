package breaker

import (
	"cmp"
	"slices"
	"time"
)

// stopwatch is how long one call may take before it is slow. There is one only
// for calls of circuits that open by slow calls.
type stopwatch struct {
	since, after time.Duration
	batch        *batch // in which the call waits; nil for probes
	stopped      bool   // it has answered
	late         bool   // and was slow to
	told         bool   // it was counted as slow in a circuit that is gone, and the store remembers
}

// handedOver is the stopwatch of a call whose circuit is gone. What it was counted
// as went with it, unless the store has kept that.
func (s *stopwatch) handedOver(kept bool) *stopwatch {
	if s == nil {
		return nil
	}
	alone := *s
	alone.batch, alone.told = nil, kept && s.batch != nil && s.batch.window != 0
	return &alone
}

// stop takes the answer that came now. The call waits for nothing any more.
func (s *stopwatch) stop(now time.Duration) {
	if s.stopped {
		return
	}
	s.stopped, s.late = true, s.over(now)
	if s.batch != nil && s.batch.window == 0 {
		s.batch.running--
		s.batch = nil
	}
}

// end is stop for a call that has left its batch; nil is no call that is watched.
func (s *stopwatch) end(now time.Duration) {
	if s != nil && !s.stopped {
		s.stopped, s.late = true, s.over(now)
	}
}

// over reports whether the call is slow: later than its threshold, not at it
// (R20).
func (s *stopwatch) over(now time.Duration) bool {
	if s.stopped {
		return s.late
	}
	return elapsed(now, s.since) > s.after
}

// batch is the calls under way that become slow in the same bucket of time.
// When it has passed they count as slow, once for all, without a timer for each
// (R22).
type batch struct {
	due     time.Duration // the end of that bucket
	running int
	window  uint64 // number of the one in which they were counted; 0: they were not
	mark    int64  // of the first of them there
	blamed  int    // of them, those that have failed since
}

// grain is how long the buckets are in which calls are watched.
func (s *Settings) grain() time.Duration {
	if s.Window.Calls > 0 {
		return time.Second
	}
	return s.Window.width()
}

// watch joins a call that will be slow after the time to those that will be at
// about the same.
func (m *machine) watch(slowAfter time.Duration, in instant) *batch {
	grain := in.settings.grain()
	due := later(slowAfter/grain*grain, grain)
	i, found := slices.BinarySearchFunc(m.watched, due, func(b *batch, due time.Duration) int { return cmp.Compare(b.due, due) })
	if !found {
		m.watched = slices.Insert(m.watched, i, &batch{due: due})
	}
	m.watched[i].running++
	return m.watched[i]
}

// catchUp does what time alone has made due: it ends what a person has said, or
// counts the calls that have become slow while they run.
func (m *machine) catchUp(in instant) *transition {
	if t := m.expire(in); t != nil {
		return t
	}
	return m.overdue(in)
}

// overdue counts the calls that have become slow while they run.
func (m *machine) overdue(in instant) *transition {
	counted, passed := false, 0
	for ; passed < len(m.watched) && m.watched[passed].due <= in.now; passed++ {
		if b := m.watched[passed]; b.running > 0 {
			counted = true
			m.window.slide(in.now)
			m.countLate(b)
		}
	}
	m.watched = slices.Delete(m.watched, 0, passed)
	if !counted {
		return nil
	}
	return m.evaluate(in)
}

func (m *machine) countLate(b *batch) {
	b.window, b.mark = m.windows, m.window.add(false, true)
	m.unsent.sample(false, true)
	for range b.running - 1 {
		m.window.add(false, true)
		m.unsent.sample(false, true)
	}
}

// leave takes a call that has ended out of its batch, and reports whether it
// was counted as slow in the window before.
func (s *stopwatch) leave(m *machine) bool {
	if s == nil || s.batch == nil {
		return s != nil && s.told
	}
	s.batch.running--
	return s.batch.window >= m.shape
}

// fail makes a failure of the slow call that was counted before. It returns
// false when the window shows it no more.
func (b *batch) fail(m *machine) bool {
	if b == nil {
		return false
	}
	b.blamed++
	return b.window == m.windows && m.window.blame(b.mark, b.blamed-1)
}

// watch is the slow path of Permit.SlowAfter.
func (c *circuit) watch(p *Permit, after time.Duration) {
	defer c.tell()
	in := c.lock(c.registry.instant())
	defer c.mu.Unlock()
	c.catchUp(in)
	p.timer = &stopwatch{since: in.now, after: after}
	if m := &c.machine; m.state.counts() && m.generation == p.Generation() && in.settings.SlowRate > 0 {
		p.timer.batch = m.watch(later(in.now, after), in)
	}
	c.publishDue()
}

// answered is the slow path of Permit.FirstToken for calls that are watched.
func (c *circuit) answered(s *stopwatch) {
	defer c.tell()
	in := c.lock(c.registry.instant())
	defer c.mu.Unlock()
	c.catchUp(in)
	s.stop(in.now)
	c.publishDue()
}

// catchUp does what time alone has made due. The caller holds mu.
func (c *circuit) catchUp(in instant) {
	if t := c.machine.catchUp(in); t != nil {
		c.apply(t)
	}
}

// publishDue tells the sweeper when time alone makes something due. The caller
// holds mu.
func (c *circuit) publishDue() {
	due := forever
	if w := c.machine.watched; len(w) > 0 {
		due = w[0].due
	}
	if until := c.machine.override.until; until > 0 {
		due = min(due, until)
	}
	if c.due.Swap(int64(due)) != int64(due) && int64(due) < c.registry.sweepAt.Load() {
		signal(c.registry.wake)
	}
}
