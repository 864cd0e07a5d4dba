package breaker

import (
	"sync/atomic"
	"time"
)

// Permit is the right to make one call. It lives in the caller's memory: its
// zero value is ready for Registry.Acquire, and it may be acquired anew once it
// is done. It belongs to the goroutine of its call and must not be copied while
// the call is under way; Done alone may come from anywhere.
type Permit struct {
	circuit *circuit // nil: nothing to settle
	word    word     // of the circuit, as granted
	lease   uint64   // of a probe
	probe   bool
	canary  bool
	early   bool
	own     bool       // given without the store
	timer   *stopwatch // nil unless the circuit watches for slow calls
	done    atomic.Bool
}

// State is the state in which the call was admitted.
func (p *Permit) State() State { return p.word.state() }

// Generation is the generation in which the call was admitted; 0 when the
// circuit is not enabled.
func (p *Permit) Generation() uint64 { return p.word.generation() }

// Probe reports whether the call finds out for others whether the target is
// well again. It should not be retried.
func (p *Permit) Probe() bool { return p.probe }

// Canary reports whether the call is one of our own, made for no caller.
func (p *Permit) Canary() bool { return p.canary }

// Within tells how long from now the call may take by its own clocks. The lease
// of a probe is renewed that long, so that only one whose holder forgot it is
// given up (R11). It costs nothing for other permits.
func (p *Permit) Within(d time.Duration) {
	if p.probe && !p.done.Load() {
		p.circuit.within(p.claim(), d)
	}
}

// Watched reports whether the circuit opens by slow calls, and so wants to know
// of this one when it is slow.
func (p *Permit) Watched() bool { return p.word&watched != 0 }

// SlowAfter tells, right after the call was admitted, how long it may take until
// it is slow; for a stream, until its first token (R20). A call that is not told
// is never slow. It costs nothing while no circuit opens by slow calls.
func (p *Permit) SlowAfter(d time.Duration) {
	if p.Watched() && p.timer == nil && !p.done.Load() {
		p.circuit.watch(p, d)
	}
}

// Slow reports whether the call was slow; it is settled once the call is done.
func (p *Permit) Slow() bool { return p.timer != nil && p.timer.stopped && p.timer.late }

// FirstToken takes the first token of a stream as the verdict of a probe, so
// that a long answer does not hold recovery back (R18). The call goes on under
// the permit: Done still has to be called, and a stream that fails later counts
// as a failure. It does nothing for other permits.
func (p *Permit) FirstToken() {
	if p.done.Load() {
		return
	}
	if p.timer != nil && !p.timer.stopped {
		p.circuit.answered(p.timer)
	}
	if !p.probe || p.early || p.Slow() {
		return
	}
	p.early = p.circuit.verdict(p.claim(), Success) == Applied
}

// Done reports the end of the call. Only the first one counts; later ones are
// counted as such and return Ignored (R7).
func (p *Permit) Done(o Outcome) Settlement {
	c := p.circuit
	if c == nil {
		return Ignored
	}
	if p.done.Swap(true) {
		c.tally.doubleDone.Add(1)
		return Ignored
	}
	if p.word&sparing != 0 {
		c.answeredCall(o)
	}
	if o.OpenFor <= 0 && p.timer == nil && p.word&strict == 0 {
		switch {
		case o.Kind == Success && c.onTab(p.word, &o):
			return Applied
		case o.Kind == Neutral && p.word.state() == Closed && c.look() == p.word:
			c.tally.neutrals.Add(1)
			return Applied
		}
	}
	return c.settle(p.claim(), o)
}

func (p *Permit) claim() claim {
	return claim{generation: p.word.generation(), probe: p.probe, lease: p.lease, early: p.early, own: p.own, timer: p.timer}
}
