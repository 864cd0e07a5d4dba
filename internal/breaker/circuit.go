package breaker

import (
	"sync"
	"sync/atomic"
	"time"
)

// circuit is the shell around one machine: what is read and counted without a
// lock on top, the machine and its lock below.
type circuit struct {
	registry *Registry
	key      string

	word     atomic.Uint64
	gate     atomic.Pointer[gate] // nil unless every call is refused
	demanded atomic.Int64         // when a call was refused last that a canary would help; 0: never
	sending  atomic.Bool          // a canary of this replica is under way
	tab      atomic.Pointer[tab]  // nil while successes take the lock
	due      atomic.Int64         // when time alone makes something due
	rejected atomic.Uint64
	tally    tally

	// Of a circuit that is shared; id and index name it in the store.
	id, index      string
	packed         atomic.Pointer[string] // its settings, as the store wants them
	queued, wanted atomic.Bool            // to be flushed; to be asked for

	mu       sync.Mutex
	machine  machine
	version  uint64    // of the policy in force
	off      bool      // that policy does not enable the circuit
	settings *Settings // of the last policy that did
	mode     Mode
	link     link
	throttle *throttle // nil unless the settings want one
	ended    uint64    // calls that were counted, over the life of the circuit
	idle     idleness
}

// tally counts over the life of a circuit; the counters only ever grow.
type tally struct {
	neutrals, stale, expired, doubleDone atomic.Uint64
	probes, probesWon, probesLost        atomic.Uint64
}

func newCircuit(r *Registry, key string, p *policy, now time.Duration) *circuit {
	s := p.of(key)
	c := &circuit{registry: r, key: key, machine: newMachine(s, now), version: p.version, off: !s.Enabled, settings: s}
	c.idle.since = now
	c.due.Store(int64(forever))
	c.fit(Throttle{})
	c.publish()
	return c
}

func (c *circuit) look() word { return word(c.word.Load()) }

// acquire is the slow path of Registry.Acquire.
func (c *circuit) acquire(w word, p *Permit) error {
	*p = Permit{}
	if w&off != 0 {
		return nil
	}
	if w&rolled != 0 {
		if err := c.rolledUp(); err != nil {
			return err
		}
	}
	if w&sparing != 0 {
		if err := c.spare(); err != nil {
			return err
		}
		if w := c.look(); w&(strict|rolled) == 0 && w.passes() {
			*p = Permit{circuit: c, word: w.granted()}
			return nil
		}
	}
	if c.shares() {
		return c.acquireShared(p)
	}
	return c.acquireLocally(p, instant{})
}

// acquireLocally decides by what is known here. The instant says who asks, and
// under what name a lease is wanted.
func (c *circuit) acquireLocally(p *Permit, in instant) error {
	in.now, in.jitter = c.registry.now(), c.registry.jitter()
	if g := c.gate.Load(); !in.canary && g.bars(in.now) {
		return c.turnAway(g, in.now)
	}
	in = c.lock(in)
	defer c.mu.Unlock()
	c.catchUp(in)
	d, t := c.machine.acquire(in)
	c.apply(t)
	if !d.admitted {
		c.rejected.Add(bit(!in.canary))
		return c.refusal(d)
	}
	if d.probe {
		c.tally.probes.Add(1)
	}
	*p = Permit{circuit: c, word: c.look().granted(), probe: d.probe, canary: in.canary, lease: d.lease, own: c.mode != Local}
	return nil
}

// verdict settles a probe whose call goes on. The call is counted when it ends.
func (c *circuit) verdict(cl claim, k Kind) Settlement {
	if c.shares() {
		if s, _, ok := c.settleShared(cl, Outcome{Kind: k}); ok {
			return s
		}
	}
	in := c.lock(c.registry.instant())
	defer c.mu.Unlock()
	if c.unruled() {
		return Ignored
	}
	s, t := c.machine.settle(cl, Outcome{Kind: k}, in)
	c.apply(t)
	return s
}

// within tells the lease of a probe how long its holder may take.
func (c *circuit) within(cl claim, d time.Duration) {
	until := later(c.registry.now(), d)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.machine.within(cl, until)
}

// settle is the slow path of Permit.Done.
func (c *circuit) settle(cl claim, o Outcome) Settlement {
	if cl.probe && c.shares() {
		if s, verdict, ok := c.settleShared(cl, o); ok {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.count(cl, s, verdict)
			return s
		}
	}
	if c.look()&strict != 0 && c.registry.now() >= time.Duration(c.due.Load()) {
		c.settleDue() // one thing after the other
	}
	s, c := c.settleHere(cl, o)
	c.tell()
	return s
}

// settleHere settles without asking anybody, and returns the circuit that it
// counts for.
func (c *circuit) settleHere(cl claim, o Outcome) (Settlement, *circuit) {
	in := c.registry.instant()
	if o.At > 0 {
		in.now = o.At
	}
	in = c.lock(in)
	timer := cl.timer
	defer func() { timer.end(in.now) }()
	if c.look()&evicted == 0 {
		defer c.mu.Unlock()
		return c.settleLocked(cl, o, in), c
	}
	current := c.machine.current(cl)
	c.mu.Unlock()
	if !current {
		c.tally.stale.Add(1)
		return Stale, c
	}
	// An evicted circuit had nothing to remember, so that one made anew stands
	// for it as long as it has not moved.
	next := c.registry.circuit(c.key)
	in = next.lock(in)
	defer next.mu.Unlock()
	if next.mode == Local || !next.machine.current(cl) { // else the store has kept what this one was
		cl = claim{generation: firstGeneration, timer: cl.timer}
	}
	cl.timer = cl.timer.handedOver(next.mode != Local)
	return next.settleLocked(cl, o, in), next
}

func (c *circuit) settleLocked(cl claim, o Outcome, in instant) Settlement {
	if c.unruled() {
		o = Outcome{Kind: Neutral} // gives a probe's slot back, counts nothing
	}
	c.catchUp(in)
	verdict := o.Kind
	if cl.probe && cl.slow(o, in) {
		verdict = Failure // R34
	}
	s, t := c.machine.settle(cl, o, in)
	c.count(cl, s, verdict)
	c.apply(t)
	if s == Applied && o.Kind == Success {
		c.openTab(in)
	}
	return s
}

func (c *circuit) count(cl claim, s Settlement, k Kind) {
	if cl.probe && s == Applied {
		switch k {
		case Success:
			c.tally.probesWon.Add(1)
		case Failure:
			c.tally.probesLost.Add(1)
		}
	}
	switch {
	case s == Stale:
		c.tally.stale.Add(1)
	case s == Expired: // counted with the transition that it caused
	case k == Neutral:
		c.tally.neutrals.Add(1)
	default:
		c.ended++
	}
}

// settled changes whenever a call ends, however it ends. The caller holds mu.
func (c *circuit) settled() uint64 {
	return c.ended + c.tally.neutrals.Load() + c.tally.stale.Load()
}

// lock takes mu, brings the machine up to date and returns the instant with the
// settings that govern it.
func (c *circuit) lock(in instant) instant {
	c.mu.Lock()
	c.closeTab()
	in.settings, in.held = c.settings, c.held()
	if c.mode != Local {
		in.mint = newLease()
	}
	return in
}

// apply makes a transition known: to the counters, to the fast path, to those
// who listen and to the sweeper. The caller holds mu.
func (c *circuit) apply(t *transition) {
	switch {
	case t == nil:
	case c.mode != Local && c.registry.replica.up():
		c.link.ahead = append(c.link.ahead, t)
	default:
		c.link.alone = c.mode != Local
		c.registry.tell(c.key, t)
	}
	c.move(t)
}

// move is apply for a transition that nobody is told of.
func (c *circuit) move(t *transition) {
	if t != nil {
		c.tally.expired.Add(uint64(t.expired))
	}
	c.publish()
	if t != nil && (t.to == HalfOpen || c.settings.Rollup.Percent > 0) {
		signal(c.registry.wake)
	}
}

// publish shows the machine to the fast path: the gate first, for whoever reads
// an open word looks for it next. The caller holds mu.
func (c *circuit) publish() {
	m := &c.machine
	w := newWord(m.generation, m.state) | c.look()&evicted
	if c.unruled() {
		w |= off
	} else if c.settings.SlowRate > 0 {
		w |= watched
	}
	if c.mode != Local {
		w |= shared
		c.countUnwell(w)
	}
	if c.mode == Strict {
		w |= strict
	}
	if c.spares() {
		w |= sparing
	}
	if c.inOpenGroup() {
		w |= rolled
	}
	c.publishGate()
	c.word.Store(uint64(w))
}

// countUnwell counts the circuits that are shared and not closed.
func (c *circuit) countUnwell(w word) {
	was := c.look()&shared != 0 && c.look().state() != Closed
	if is := w.state() != Closed; is != was {
		c.registry.replica.unwell.Add(int64(bit(is)) - int64(bit(was)))
	}
}

// unruled reports whether nothing governs the circuit: the settings say that it
// is not enabled, and no person has said otherwise.
func (c *circuit) unruled() bool { return c.off && !c.machine.state.operated() }

func (c *circuit) refusal(d decision) *Refusal {
	m := &c.machine
	return &Refusal{
		Key: c.key, State: m.state, Reason: d.reason, RetryAfter: truth(m.state, d.retryAfter),
		Cause: m.cause, Generation: m.generation,
	}
}

// settleDue does what time alone has made due, and tells it.
func (c *circuit) settleDue() {
	defer c.tell()
	in := c.lock(c.registry.instant())
	defer c.mu.Unlock()
	c.catchUp(in)
	c.publishDue()
}

// command is the shell around machine.command. It returns false when the
// circuit has been let go, so that another stands for its key.
func (c *circuit) command(cmd Command) (bool, error) {
	if c.shares() {
		c.settleDue()
		if done, err := c.commandShared(cmd); done {
			return true, err
		}
	}
	in := c.lock(c.registry.instant())
	defer c.mu.Unlock()
	if c.look()&evicted != 0 {
		return false, nil
	}
	c.catchUp(in)
	t, illegal := c.machine.command(cmd, in)
	if illegal != nil {
		illegal.Key = c.key
		return true, illegal
	}
	if t != nil && !cmd.Reassert {
		c.registry.tell(c.key, t) // whether the store has done it or will: it does not tell again
	}
	c.move(t)
	c.publishDue()
	c.sayLater(cmd)
	return true, nil
}

// adopt takes the settings of a policy unless it has newer ones. They apply
// from the next evaluation on; nothing that was counted is lost (R45).
func (c *circuit) adopt(p *policy) {
	s := p.of(c.key)
	c.lock(instant{})
	defer c.mu.Unlock()
	if p.version > c.version {
		c.version, c.off = p.version, !s.Enabled
		if s.Enabled {
			was := c.settings.Throttle
			c.machine.adopt(c.settings, s)
			c.settings = s
			c.fit(was)
		}
		c.bind()
		c.publish()
	}
}
