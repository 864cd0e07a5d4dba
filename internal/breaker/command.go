package breaker

import (
	"fmt"
	"time"
)

// Action is what a person does to a circuit.
type Action string

// The actions, as commands, paths and events spell them.
const (
	ActionOpen     Action = "open"      // refuse every call (T20)
	ActionHalfOpen Action = "half_open" // find out with a probe, now
	ActionClose    Action = "close"     // admit calls and begin anew (T22)
	ActionReset    Action = "reset"     // the same, also where it is closed
	ActionDisable  Action = "disable"   // admit every call, record nothing (T21)
	ActionShadow   Action = "shadow"    // admit every call, tell when it would have opened (T21)
)

// Command is one decision of a person about one circuit.
type Command struct {
	Action Action
	For    time.Duration // how long the state lasts; 0: until another command
	Note   string        // why, in that person's words
	Actor  string        // who
	// Reassert restores what was decided before: nobody is told of it, and a
	// close ends only a state that a person had set.
	Reassert bool
}

// IllegalTransition is the error of a command that has no meaning in the state
// the circuit is in (T25).
type IllegalTransition struct {
	Key      string
	From, To State
}

func (e *IllegalTransition) Error() string {
	return fmt.Sprintf("circuit %s is %s and cannot become %s by command", e.Key, e.From, e.To)
}

// override is what a person has said, while it lasts.
type override struct {
	until       time.Duration // 0: until another command
	note, actor string
}

func (o override) over(now time.Duration) bool { return o.until > 0 && now >= o.until }

func (o override) remaining(now time.Duration) time.Duration {
	if o.until == 0 {
		return 0
	}
	return max(0, o.until-now)
}

// command obeys a person. To be told what is so already changes nothing but
// the words and the time (T23).
func (m *machine) command(c Command, in instant) (*transition, *IllegalTransition) {
	var t *transition
	switch to := c.Action.state(); {
	case c.Action == ActionReset, to == Closed && m.state != Closed:
		if c.Reassert && !m.state.operated() {
			return nil, nil
		}
		t = m.move(Closed, ReasonOperator, in)
		m.cause, m.backoff.step = "", 0
	case to == HalfOpen && m.state == Open:
		t = m.halfOpen(ReasonOperator, in)
	case to == HalfOpen && m.state != HalfOpen:
		return nil, &IllegalTransition{From: m.state, To: to}
	case to.operated() && to != m.state:
		t = m.move(to, ReasonOperator, in)
		m.cause = ""
		m.say(c, in)
	case to.operated():
		m.say(c, in)
		return nil, nil
	default:
		return nil, nil
	}
	t.actor, t.note = c.Actor, c.Note
	return t, nil
}

func (m *machine) say(c Command, in instant) {
	m.override = override{note: c.Note, actor: c.Actor}
	if c.For > 0 {
		m.override.until = later(in.now, c.For)
	}
}

// state is what an action leads to.
func (a Action) state() State {
	switch a {
	case ActionOpen:
		return ForcedOpen
	case ActionHalfOpen:
		return HalfOpen
	case ActionDisable:
		return Disabled
	case ActionShadow:
		return Shadow
	default:
		return Closed
	}
}

// known reports whether an action is one of those above.
func (a Action) known() bool {
	return a.state() != Closed || a == ActionClose || a == ActionReset
}

// expire ends what a person has said when its time is up. A target that was
// kept away from calls shows with a probe how it is; one that was not is taken
// to be well.
func (m *machine) expire(in instant) *transition {
	if !m.override.over(in.now) {
		return nil
	}
	if m.state == ForcedOpen && in.settings.Enabled {
		return m.halfOpen(ReasonOverrideOver, in)
	}
	return m.move(Closed, ReasonOverrideOver, in)
}

// hushed reports whether a shadow circuit would be open now.
func (m *machine) hushed(in instant) bool { return m.state == Shadow && in.now < m.muted }

// imagine is what opening is in a shadow circuit: it is told, and evidence is
// gathered anew once the circuit would have been half-open.
func (m *machine) imagine(reason, cause string, d time.Duration, in instant) *transition {
	if m.hushed(in) {
		return nil
	}
	t := &transition{
		from: Shadow, to: Shadow, reason: reason, cause: cause,
		generation: m.generation, counts: m.counts(in.now), openFor: d,
	}
	m.muted, m.backoff.healthySince = later(in.now, d), in.now
	m.streak, m.blamed = streak{}, ""
	m.window.clear()
	m.windows++
	m.near = 0
	return t
}
