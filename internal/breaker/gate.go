package breaker

import (
	"cmp"
	"sync/atomic"
	"time"
)

// gate is what an open circuit tells a caller, so that refusing needs no lock.
type gate struct {
	state      State
	reason     string
	generation uint64
	// canary: the gate stays shut for callers until one has done well.
	canary         bool
	cause          string
	until, openFor time.Duration
	latest         atomic.Pointer[Refusal]
}

func (c *circuit) publishGate() {
	m := &c.machine
	switch m.state {
	case Open:
		c.gate.Store(&gate{
			state: Open, reason: ReasonCircuitOpen, generation: m.generation, cause: m.cause,
			until: m.openUntil, openFor: m.openFor, canary: c.settings.Canary && c.registry.canary != nil,
		})
	case HalfOpen:
		c.gate.Store(m.canaryGate())
	case ForcedOpen:
		c.gate.Store(&gate{state: ForcedOpen, reason: ReasonCircuitOpen, generation: m.generation, until: cmp.Or(m.override.until, forever), openFor: forever})
	default:
		c.gate.Store(nil)
	}
}

// refusal says the same to all who come in the same second.
func (g *gate) refusal(key string, now time.Duration) *Refusal {
	wait := g.wait(now)
	if r := g.latest.Load(); r != nil && r.RetryAfter == wait {
		return r
	}
	r := &Refusal{
		Key: key, State: g.state, Reason: g.reason, RetryAfter: wait,
		Cause: g.cause, Generation: g.generation,
	}
	g.latest.Store(r)
	return r
}

// wait is how long the circuit is open still.
func (g *gate) wait(now time.Duration) time.Duration {
	if g.state == ForcedOpen && g.until == forever {
		return 0
	}
	return truth(g.state, min(g.until-now, g.openFor))
}

// truth is what a refusal says of the wait: whole seconds, or nothing where a
// person has said no time (R31).
func truth(s State, wait time.Duration) time.Duration {
	if s == ForcedOpen && wait == 0 {
		return 0
	}
	return wholeSeconds(wait)
}
