package operators

import (
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// clock tells the store's time from this process's: at one moment both were
// looked at.
type clock struct{ here, there time.Time }

func (c clock) known() bool { return !c.here.IsZero() }

// at is what the store's clock shows when it is t here.
func (c clock) at(t time.Time) time.Time { return c.there.Add(t.Sub(c.here)) }

// until is when it is t at the store.
func (c clock) until(t time.Time) time.Time { return c.here.Add(t.Sub(c.there)) }

// actions are how a circuit gets into each operator state.
var actions = map[string]breaker.Action{
	breaker.ForcedOpen.String(): breaker.ActionOpen,
	breaker.Disabled.String():   breaker.ActionDisable,
	breaker.Shadow.String():     breaker.ActionShadow,
}

// stateOf is the operator state that an action leads to; empty for the actions
// that end one.
func stateOf(a breaker.Action) string {
	for state, action := range actions {
		if action == a {
			return state
		}
	}
	return ""
}

// taken is the decision behind an override that was read.
func taken(o Override, c clock, now time.Time) decision {
	d := decision{
		command: breaker.Command{Action: actions[o.State], Note: o.Reason, Actor: o.Actor},
		made:    now, setAt: o.SetAt, saved: true,
	}
	if o.Until != nil {
		d.command.For = c.until(*o.Until).Sub(now)
	}
	return d
}

// ended reports whether the decision ends operator states, as opposed to being
// one.
func (d decision) ended() bool { return stateOf(d.command.Action) == "" }

// over reports whether the time of an operator state is up.
func (d decision) over(now time.Time) bool {
	return !d.ended() && d.command.For > 0 && now.Sub(d.made) >= d.command.For
}

// again is the command by which a circuit is brought back to the decision.
func (d decision) again(now time.Time) breaker.Command {
	c := d.command
	c.Reassert = true
	if c.For > 0 {
		c.For -= now.Sub(d.made)
	}
	return c
}

// dated is the decision with the time that it is kept under: when it was made,
// by the store's clock as well as that is known, and after the one that it
// replaced.
func (d decision) dated(c clock) decision {
	if d.setAt.IsZero() && c.known() {
		d.setAt = latest(c.at(d.made), d.floor.Add(storeTick)).UTC().Truncate(storeTick)
	}
	return d
}

// storeTick is how exactly the store keeps times.
const storeTick = time.Microsecond

func (d decision) override(key string) Override {
	o := Override{Key: key, State: stateOf(d.command.Action), Reason: d.command.Note, Actor: d.command.Actor, SetAt: d.setAt}
	if d.command.For > 0 {
		until := d.setAt.Add(d.command.For)
		o.Until = &until
	}
	return o
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
