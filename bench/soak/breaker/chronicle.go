package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// chronicle is what events tell. Only the goroutine that delivers them writes to
// it; it is read when that has ended.
type chronicle struct {
	*breaches
	keys    int
	seq     uint64
	dropped uint64
	past    map[string]*past
	moves   map[move]int
	reborn  int // circuits that were let go and made anew
}

// past is what is known of one circuit.
type past struct {
	state       breaker.State
	generations []uint64 // the latest
}

// remembered is of how many generations a chronicle is sure.
const remembered = 64

// move is one kind of transition.
type move struct {
	from, to breaker.State
	reason   string
}

func newChronicle(b *breaches, keys int) *chronicle {
	return &chronicle{breaches: b, keys: keys, past: map[string]*past{}, moves: map[move]int{}}
}

// add takes the next event.
func (c *chronicle) add(e breaker.Event) {
	if e.Seq != c.seq+1 {
		clear(c.past) // what is not known cannot be held against anyone
		if e.Seq <= c.seq {
			c.broken(ordered, "event %d came after event %d", e.Seq, c.seq)
		} else {
			c.dropped += e.Seq - c.seq - 1
		}
	}
	c.seq = e.Seq
	c.moves[move{e.From, e.To, e.Reason}]++
	if fault := faultOfEvent(e); fault != "" {
		c.broken(ordered, "%s went from %s to %s (%s): %s", e.Key, e.From, e.To, e.Reason, fault)
	}
	c.follow(e)
}

// follow joins an event to the one before it of the same circuit.
func (c *chronicle) follow(e breaker.Event) {
	p := c.past[e.Key]
	if p == nil {
		p = &past{state: e.From}
		if c.dropped == 0 {
			p.state = breaker.Closed
		}
		c.past[e.Key] = p
	}
	if c.isReborn(p, e) {
		c.reborn++
		*p = past{state: breaker.Closed}
	}
	if e.From != p.state {
		c.broken(ordered, "%s left %s for %s, but was %s before", e.Key, e.From, e.To, p.state)
	}
	p.state = e.To
	if imagined(e) {
		return
	}
	if slices.Contains(p.generations, e.Generation) {
		c.broken(ordered, "%s came to generation %d twice, now as %s", e.Key, e.Generation, e.To)
	}
	p.generations = append(p.generations, e.Generation)
	if len(p.generations) > remembered {
		p.generations = p.generations[1:]
	}
}

// isReborn reports whether a circuit is a new one of the same name, which counts
// generations anew: only a cold one that was closed is let go.
func (c *chronicle) isReborn(p *past, e breaker.Event) bool {
	return temperOf(indexOf(e.Key), c.keys) == cold && p.state == breaker.Closed && e.From == breaker.Closed &&
		len(p.generations) > 0 && e.Generation <= p.generations[len(p.generations)-1]
}

// imagined is an opening of a circuit in shadow that did not happen.
func imagined(e breaker.Event) bool { return e.From == breaker.Shadow && e.To == breaker.Shadow }

// faultOfEvent returns what is wrong with an event by itself, if anything.
func faultOfEvent(e breaker.Event) string {
	opens := e.To == breaker.Open || imagined(e)
	byPerson := e.Reason == breaker.ReasonOperator
	switch {
	case !legal(e):
		return "no rule moves it so"
	case opens && (e.OpenFor <= 0 || e.OpenFor > longestOpen):
		return fmt.Sprintf("it opens for %v", e.OpenFor)
	case !opens && e.OpenFor != 0:
		return "it does not open, but says for how long"
	case byPerson && (e.Actor != person || e.Note == ""), !byPerson && e.Actor != breaker.ActorBreaker:
		return fmt.Sprintf("its actor is %q, who notes %q", e.Actor, e.Note)
	case e.Counts.Failures > e.Counts.Calls, e.Counts.Slow > e.Counts.Calls, e.Counts.ConsecutiveFailures < 0:
		return fmt.Sprintf("it counted %+v", e.Counts)
	case e.At.IsZero(), e.At.After(time.Now().Add(time.Second)):
		return "it has no time"
	default:
		return ""
	}
}

// legal is the table of every transition (T1 to T25).
func legal(e breaker.Event) bool {
	from, to := e.From, e.To
	switch e.Reason {
	case breaker.ReasonConsecutive, breaker.ReasonFailureRate, breaker.ReasonSlowRate:
		return from == breaker.Closed && to == breaker.Open || imagined(e)
	case breaker.ReasonRetryAfter:
		return (from == breaker.Closed || from == breaker.HalfOpen) && to == breaker.Open || imagined(e)
	case breaker.ReasonHalfOpen:
		return from == breaker.Open && to == breaker.HalfOpen
	case breaker.ReasonProbeSuccess:
		return from == breaker.HalfOpen && to == breaker.Closed
	case breaker.ReasonProbeFailure, breaker.ReasonProbeLost, breaker.ReasonHalfOpenTimeout:
		return from == breaker.HalfOpen && to == breaker.Open
	case breaker.ReasonOverrideOver:
		return from == breaker.ForcedOpen && (to == breaker.HalfOpen || to == breaker.Closed) ||
			(from == breaker.Disabled || from == breaker.Shadow) && to == breaker.Closed
	case breaker.ReasonOperator:
		return to != breaker.Open && (to != breaker.HalfOpen || from == breaker.Open)
	default:
		return false
	}
}
