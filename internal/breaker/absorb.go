package breaker

import (
	"slices"
	"time"
)

// absorb makes the store's copy that of the circuit, with what was seen here
// since on top.
func (c *circuit) absorb(a answer) {
	in := c.lock(c.registry.instant())
	defer c.mu.Unlock()
	c.hear(a.transitions)
	switch l := &c.link; {
	case c.mode == Local:
	case a.record == nil:
		c.lost(in)
	case a.record.birth == l.birth && a.record.version < l.version && a.sent < l.seen:
		// It was overtaken by a later answer. One that was asked for since then says
		// that the store has forgotten, and how the circuit is.
	case l.command != nil: // it does not know yet what a person has said
	case a.record.near > 0 && a.record.state == Closed && len(l.ahead) > 0:
		// It is nearly what was found here; the store decides in a moment.
		c.registry.replica.hurry(c)
	default:
		c.take(a.record, in)
	}
}

// hear tells of what a step of this replica has done in the store. What does not
// go on from what the replica has told alone is no news, or rejoin tells of it.
// The caller holds mu.
func (c *circuit) hear(done []*transition) {
	for _, t := range done {
		c.tally.expired.Add(uint64(t.expired))
		if c.link.alone && t.from != c.machine.state && t.reason != ReasonOperator {
			continue
		}
		c.link.alone = false
		c.registry.tell(c.key, t)
	}
}

// take replaces the machine. The caller holds mu.
func (c *circuit) take(r *record, in instant) {
	was, next := &c.machine, r.machine
	next.clamp(in)
	next.inherit(was, c.link.birth == 0)
	ahead := c.link.ahead
	c.link.seen = in.now
	c.link.version, c.link.birth, c.link.ahead, c.link.fresh = r.version, r.birth, nil, false
	c.tellLost(&next, ahead)
	c.rejoin(next.state, false, in)
	woken := next.state == HalfOpen && was.state != HalfOpen
	*was = next
	if next.near > 0 {
		c.registry.replica.hurry(c)
	}
	c.machine.reshape(c.settings)
	c.overlay(in)
	c.publish()
	c.publishDue()
	if woken {
		signal(c.registry.wake)
	}
}

// tellLost tells of the transition that led to what the store shows, if a step of
// this replica made it whose answer was lost: nobody else does. The caller holds
// mu.
func (c *circuit) tellLost(next *machine, ahead []*transition) {
	was := &c.machine
	if next.generation == was.generation || !slices.Contains(c.link.doubts, next.generation%1024) {
		return
	}
	c.link.doubts = nil
	t := &transition{from: was.state, to: next.state, reason: next.reason, cause: next.cause, openFor: next.openFor}
	if n := len(ahead); n > 0 && ahead[n-1].to == next.state {
		t = ahead[n-1]
	} else if next.state == was.state {
		return // it was told of when it was made here
	}
	if next.state == Open {
		t.counts = next.opened
	}
	t.generation = next.generation
	c.registry.tell(c.key, t)
	c.link.alone = false
}

// rejoin tells of the way back from what this replica had told alone, or from what
// the store has lost.
func (c *circuit) rejoin(to State, gone bool, in instant) {
	m := &c.machine
	if (c.link.alone || gone) && to != m.state {
		c.registry.tell(c.key, &transition{from: m.state, to: to, reason: ReasonSharedState, generation: m.generation, counts: m.counts(in.now)})
	}
	c.link.alone = false
}

// inherit keeps what only this replica knows.
func (m *machine) inherit(was *machine, first bool) {
	m.unsent = was.unsent
	same := m.generation == was.generation
	m.newborn = same && was.newborn ||
		first && m.state == Closed && was.state == Closed && was.generation == firstGeneration && m.since < was.since
	m.windows, m.shape = was.windows+1, was.windows+1
	if same || m.newborn {
		m.windows, m.shape, m.watched = was.windows, was.shape, was.watched
	}
	if m.episode == nil || was.episode == nil {
		return
	}
	for i := range m.episode.slots {
		if held, ok := was.episode.held(m.episode.slots[i].lease); ok {
			m.episode.slots[i].renewUntil = was.episode.slots[held].renewUntil
		}
	}
}

// overlay counts what the store has not been told on top of what it has. News of
// another generation are none. The caller holds mu.
func (c *circuit) overlay(in instant) {
	m := &c.machine
	d := m.unsent
	if d.generation != m.generation && !(m.newborn && d.generation == firstGeneration) {
		c.tally.stale.Add(d.calls)
		m.unsent = &delta{generation: m.generation, keep: d.keep}
		return
	}
	d.generation = m.generation
	if d.empty() || !m.state.counts() {
		return
	}
	m.unsent = nil
	d.reach = elapsed(in.now, d.began)
	t := m.merge(d, in)
	m.unsent = d
	c.apply(t)
}

// lost is what to make of a record that is not there: a lost circuit reads
// closed (T24), but what a person has said, or this replica alone has found, is
// said again. The caller holds mu.
func (c *circuit) lost(in instant) {
	m := &c.machine
	switch {
	case c.link.fresh:
		c.found(in)
	case m.state.operated():
		c.link.command, c.link.saidAt = m.saidAgain(in.now), in.now
		c.registry.replica.enqueue(c)
	case m.state == Closed, len(c.link.ahead) > 0:
	default:
		c.rejoin(Closed, true, in) // and each replica tells that it has begun anew
		fresh := newMachine(c.settings, in.now)
		fresh.generation, fresh.unsent, fresh.windows = in.mint, &delta{generation: in.mint, keep: m.unsent.keep}, m.windows+1
		fresh.shape = fresh.windows
		*m = fresh
		c.publish()
		c.publishDue()
	}
	c.link.version, c.link.birth = 0, 0
}

// found begins the record of a circuit that this replica has kept alone: a closed
// one with what was counted, an open one for the time that is left. The caller
// holds mu.
func (c *circuit) found(in instant) {
	c.link.fresh = false
	m := &c.machine
	d := &delta{generation: m.generation, keep: m.unsent.keep, cause: m.blamed}
	switch m.state {
	case Closed:
		m.window.slide(in.now)
		n := m.counts(in.now)
		d.calls, d.failures, d.slow = n.Calls, n.Failures, n.Slow
		d.tail, d.row, d.began = uint64(n.ConsecutiveFailures), uint64(n.ConsecutiveFailures), m.streak.began
		if w, ok := m.window.(*countWindow); ok {
			d.outcomes = w.outcomes()
		}
	case Open:
		d.openFor, d.cause = max(m.remaining(in.now), time.Microsecond), m.cause
		c.link.alone = true // it was told when it opened
	default:
		return
	}
	m.unsent = d
	c.registry.replica.enqueue(c)
	signal(c.registry.replica.wake)
}

// saidAgain is the command that leads to what a person has said.
func (m *machine) saidAgain(now time.Duration) *Command {
	action := map[State]Action{ForcedOpen: ActionOpen, Disabled: ActionDisable, Shadow: ActionShadow}[m.state]
	return &Command{Action: action, For: m.override.remaining(now), Note: m.override.note, Actor: m.override.actor, Reassert: true}
}
