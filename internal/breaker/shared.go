package breaker

import (
	"errors"
	"time"
)

// errNoCanary says that another replica sends one, or that none is wanted.
var errNoCanary = errors.New("no canary is wanted")

// commandTimeouts is how many time-outs of the store a command waits for it.
const commandTimeouts = 4

// quietFor is how long a replica that was refused a probe does not ask again.
const quietFor = 50 * time.Millisecond

// acquireShared asks the store whether a call may go: for circuits that look as
// if it could be a probe, and for all where everything is asked. A replica asks
// once at a time; the calls that come meanwhile wait for that answer.
func (c *circuit) acquireShared(p *Permit) error {
	strict := c.look()&strict != 0
	for range 2 {
		now := c.registry.now()
		if g := c.gate.Load(); g.bars(now) && (!strict || g.canary) {
			return c.turnAway(g, now)
		}
		if w := c.look(); w.admits() {
			*p = Permit{circuit: c, word: w.granted()}
			return nil
		}
		leads, landed := c.board(strict, now)
		if leads {
			defer c.land(landed)
			return c.askForProbe(p, false)
		}
		if landed == nil {
			break
		}
		<-landed
	}
	return c.refuseNow(p)
}

// board returns whether the call is the one to ask the store, or what it has to
// wait for; nil when nobody is to ask now.
func (c *circuit) board(strict bool, now time.Duration) (bool, chan struct{}) {
	if strict {
		return true, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch l := &c.link; {
	case l.flight != nil:
		return false, l.flight.landed
	case now < l.quiet:
		return false, nil
	default:
		l.flight = &flight{landed: make(chan struct{})}
		return true, l.flight.landed
	}
}

// land lets those go on who wait for the answer.
func (c *circuit) land(landed chan struct{}) {
	if landed == nil {
		return
	}
	c.mu.Lock()
	c.link.flight = nil
	c.mu.Unlock()
	close(landed)
}

func (c *circuit) askForProbe(p *Permit, canary bool) error {
	lease := newLease()
	var name packer
	name.numbers(float64(lease), float64(bit(canary)))
	s := c.registry.replica
	a := s.one(c, s.step(c, stepAcquire, string(name)))
	if a.err != nil {
		err := c.acquireLocally(p, instant{lease: lease, canary: canary}) // under the same name, should it have been granted
		if p.lease != lease {
			c.owe(&verdict{claim: claim{probe: true, lease: lease}, until: later(s.registry.now(), c.leaseTime())}) // nobody holds it
		}
		return err
	}
	c.absorb(a)
	if canary && a.code != codeProbe {
		return errNoCanary
	}
	if a.code == codeProbe {
		c.holdLease(a.record.generation, lease)
		*p = Permit{circuit: c, word: c.look()&(watched|shared|strict) | newWord(a.record.generation, HalfOpen), probe: true, canary: canary, lease: lease}
		return nil
	}
	if a.code == codeRefused {
		c.beQuiet()
	}
	return c.refuseNow(p) // unless the store has just admitted it
}

// holdLease begins the heartbeat of a lease that is held here.
func (c *circuit) holdLease(generation, lease uint64) {
	c.tally.probes.Add(1)
	in := c.lock(c.registry.instant())
	defer c.mu.Unlock()
	c.machine.within(claim{generation: generation, lease: lease}, later(in.now, in.settings.MaxHalfOpen))
	signal(c.registry.wake)
}

// beQuiet keeps this replica from asking for a probe for a moment.
func (c *circuit) beQuiet() {
	now := c.registry.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link.quiet = later(now, quietFor)
}

// refuseNow refuses by what is known here, unless the circuit has closed
// meanwhile.
func (c *circuit) refuseNow(p *Permit) error {
	in := c.lock(c.registry.instant())
	defer c.mu.Unlock()
	if w := c.look(); w.passes() {
		*p = Permit{circuit: c, word: w.granted()}
		return nil
	}
	c.rejected.Add(1)
	return c.refusal(c.machine.refuse(in))
}

// settleShared tells the store the verdict of a probe. It returns false when the
// verdict counts here only: the store cannot be told now, or the probe goes on as
// an ordinary call.
func (c *circuit) settleShared(cl claim, o Outcome) (settled Settlement, verdictKind Kind, told bool) {
	if cl.early && !c.probing(cl) {
		return 0, o.Kind, false
	}
	o = c.judged(cl, o)
	if cl.early && o.Kind != Failure && o.OpenFor == 0 {
		return Applied, o.Kind, true // has been told
	}
	if cl.own {
		cl.generation = 0 // if the store has given it, it knows by which
	}
	v := &verdict{claim: cl, o: o, until: later(c.registry.now(), c.leaseTime())}
	s := c.registry.replica
	a := s.one(c, s.step(c, stepSettle, v.pack()...))
	if a.err != nil {
		if !cl.early { // to recant twice would be once too often
			c.owe(v)
		}
		return 0, o.Kind, false
	}
	c.absorb(a)
	c.mu.Lock()
	c.link.quiet = 0 // there may be a place again
	c.mu.Unlock()
	return map[string]Settlement{codeApplied: Applied, codeStale: Stale, codeExpired: Expired}[a.code], o.Kind, true
}

// probing reports whether the episode of a probe goes on.
func (c *circuit) probing(cl claim) bool {
	w := c.look()
	return w.state() == HalfOpen && w.generation() == cl.generation
}

// judged is the outcome of a probe with its slowness in it (R34).
func (c *circuit) judged(cl claim, o Outcome) Outcome {
	in := c.registry.instant()
	if o.At > 0 {
		in.now = o.At
	}
	in = c.lock(in)
	defer c.mu.Unlock()
	c.catchUp(in)
	if c.unruled() {
		o = Outcome{Kind: Neutral}
	}
	if cl.slow(o, in) {
		o.Kind = Failure
	}
	return o
}

func (c *circuit) leaseTime() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settings.Lease
}

func (c *circuit) owe(v *verdict) {
	c.mu.Lock()
	c.link.owed = append(c.link.owed, v)
	c.mu.Unlock()
	c.registry.replica.enqueue(c)
}

// tell sends what the circuit has to say, now where its mode wants it, else soon
// if it could open anything.
func (c *circuit) tell() {
	w := c.look()
	if w&shared == 0 {
		return
	}
	s := c.registry.replica
	if w&strict != 0 && s.up() {
		s.deliver(c.letters())
		return
	}
	c.mu.Lock()
	quiet, ahead := c.machine.unsent.quiet(), len(c.link.ahead) > 0
	c.mu.Unlock()
	if !quiet || ahead {
		s.enqueue(c)
	}
	if ahead {
		signal(s.wake)
	}
}

// sayLater keeps a person's word for a store that could not be told now. The
// caller holds mu.
func (c *circuit) sayLater(cmd Command) {
	if c.mode == Local {
		return
	}
	c.link.command, c.link.saidAt = &cmd, c.registry.now()
	c.registry.replica.enqueue(c)
}

// unsaid takes the word that the store was not told, for as long as it lasts
// still. The caller holds mu.
func (c *circuit) unsaid(now time.Duration) *Command {
	said := c.link.command
	if said == nil {
		return nil
	}
	c.link.command = nil
	cmd := *said
	if cmd.For > 0 {
		cmd.For -= elapsed(now, c.link.saidAt)
		if cmd.For <= 0 {
			return nil
		}
		c.link.saidAt = now
	}
	return &cmd
}

// commandShared sends a person's word to the store. It returns false when the
// store cannot be told now.
func (c *circuit) commandShared(cmd Command) (bool, error) {
	s := c.registry.replica
	a := s.oneWithin(c, s.step(c, stepCommand, cmd.pack()...), commandTimeouts*s.timeout) // a person can wait
	if a.err != nil {
		return false, nil
	}
	c.mu.Lock()
	c.link.command = nil // what was said before holds no more
	c.mu.Unlock()
	c.absorb(a)
	if a.code == codeIllegal {
		return true, &IllegalTransition{Key: c.key, From: c.look().state(), To: cmd.Action.state()}
	}
	return true, nil
}

// renew keeps the leases alive whose calls are inside their own deadlines.
func (s *replica) renew(leases []renewal) {
	for len(leases) > 0 {
		n := min(len(leases), pipelined)
		letters := make([]letter, n)
		for i, r := range leases[:n] {
			letters[i] = letter{circuit: r.circuit, run: s.step(r.circuit, stepRenew, string(r.names))}
		}
		s.deliver(letters)
		leases = leases[n:]
	}
}

// renewal is the leases of one circuit that are held here.
type renewal struct {
	circuit *circuit
	names   packer
}

// leases lists those that are held here and worth keeping.
func (e *episode) leases(now time.Duration) packer {
	var names packer
	for _, s := range e.slots {
		if s.use == leased && now < s.renewUntil {
			names.numbers(float64(s.lease))
		}
	}
	return names
}
