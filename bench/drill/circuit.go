package main

import (
	"cmp"
	"fmt"
	"time"
)

// circuit is what the circuit did in one phase.
type circuit struct {
	openings int
	reason   string // of the first opening
	opened   bool   // sick phases: it opened, or was open from the start
	closed   bool   // well phases: it is closed at the end
	// after is how long the first opening took in a sick phase, the last closing
	// in a well one; 0 when it was so from the start.
	after    time.Duration
	canaries int // that were sent to find out; one that told nothing and was sent again counts once
	wrong    int // openings that a well provider gave no reason for
	untold   int // transitions that no event told of: the next one begins in another state
}

// when says it in words.
func (c circuit) when() string {
	if !c.opened && !c.closed {
		return "never"
	}
	return "after " + tidy(c.after).String()
}

// lateness is how long after a sick time a call may still end that began in it,
// where a record does not say.
const lateness = 4 * time.Second

// circuitsOf says what the circuit did in each phase. It is closed at first.
func circuitsOf(phases []phase, r *record) []circuit {
	all := make([]circuit, len(phases))
	state, since := stateClosed, r.phases[0].began
	next := 0
	for i, p := range phases {
		c := &all[i]
		began, first := r.phases[i].began, next
		c.opened = !p.well() && state == stateOpen
		for ; next < len(r.events) && (i == len(phases)-1 || r.events[next].At.Before(r.phases[i+1].began)); next++ {
			e := r.events[next]
			if e.From != state {
				c.untold++
			}
			if e.To == stateOpen {
				c.open(p, e, began, first == next && since.Before(began) && i > 0 && e.At.Sub(began) <= cmp.Or(r.late, lateness))
			}
			if e.To == stateHalfOpen && e.Reason == reasonCanary {
				c.canaries++
			}
			if e.To == stateClosed && p.well() {
				c.after = e.At.Sub(began)
			}
			state, since = e.To, e.At
		}
		c.closed = p.well() && state == stateClosed
	}
	return all
}

// open enters an opening. In a well phase it is wrong, unless it may be the
// work of calls that the provider failed while it was sick: those that the
// circuit admitted in the state that it was in when the provider got well.
func (c *circuit) open(p phase, e event, began time.Time, leftOver bool) {
	c.openings++
	if c.openings == 1 {
		c.reason = e.Reason
	}
	after := e.At.Sub(began)
	switch {
	case p.well() && !leftOver:
		c.wrong++
	case !p.well() && !c.opened:
		c.opened, c.after = true, after
	}
}

// story says in few words how the circuit went through the phase.
func (c circuit) story(p phase) string {
	switch {
	case p.well() && !c.closed:
		return "stays open"
	case p.well() && c.after == 0:
		return "stays closed"
	case p.well():
		return fmt.Sprintf("closed after %.1f s", c.after.Seconds())
	case !c.opened:
		return "stays closed"
	case c.after == 0:
		return "was open"
	default:
		return fmt.Sprintf("opened after %.1f s", c.after.Seconds())
	}
}
