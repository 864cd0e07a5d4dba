package breaker

import "time"

const (
	// idleEvery is how often idle circuits are looked for.
	idleEvery = time.Minute
	// beatsPerLease is how often a lease is renewed while it would last.
	beatsPerLease = 3
	// shortestBeat keeps a tiny lease from spinning the sweeper.
	shortestBeat = time.Millisecond
)

// idleness is what the sweeper remembers of a circuit between two looks.
type idleness struct {
	settled uint64 // calls that had ended by then
	since   time.Duration
}

// sweepUntil is the one ticker: it renews leases, ends episodes and lets idle
// circuits go. It sleeps long while nothing is half-open.
func (r *Registry) sweepUntil(stop <-chan struct{}) {
	timer := time.NewTimer(idleEvery)
	defer timer.Stop()
	var evictAt time.Duration
	for {
		select {
		case <-stop:
			return
		case <-r.wake:
		case <-timer.C:
		}
		now := r.now()
		if now >= evictAt {
			r.evictIdle()
			evictAt = later(now, idleEvery)
		}
		r.sweepAt.Store(int64(forever))
		next := r.tend()
		r.sweepAt.Store(int64(later(r.now(), next)))
		timer.Reset(next)
	}
}

// tend gives every half-open circuit its heartbeat and returns how long until
// the next is due.
func (r *Registry) tend() time.Duration {
	next := idleEvery
	var kept []renewal
	roll := r.newRoll()
	now := r.now()
	for _, v := range r.circuits.Range {
		c := v.(*circuit)
		next = min(next, max(c.canary(now), shortestBeat))
		roll.call(c, now)
		if c.look().state() == HalfOpen {
			lease, held := c.tend()
			next = min(next, max(lease/beatsPerLease, shortestBeat))
			if c.shares() {
				kept = append(kept, renewal{c, held})
			}
		}
		if due := time.Duration(c.due.Load()); due != forever {
			next = min(next, max(c.overdue(due), shortestBeat))
		}
	}
	next = min(next, max(r.groups.settle(r, roll, now), shortestBeat))
	if len(kept) > 0 {
		r.replica.renew(kept)
	}
	return next
}

// overdue counts calls that have become slow by the time that was due, and
// returns how long until the next do.
func (c *circuit) overdue(due time.Duration) time.Duration {
	in := c.registry.instant()
	if in.now < due {
		return due - in.now
	}
	c.settleDue()
	return min(idleEvery, elapsed(time.Duration(c.due.Load()), in.now))
}

// tend returns how long the leases are that it renewed, and those that the store
// has to renew: where it is there, it alone ends an episode.
func (c *circuit) tend() (time.Duration, packer) {
	in := c.lock(c.registry.instant())
	defer c.mu.Unlock()
	if c.shares() {
		if e := c.machine.episode; e != nil {
			return c.settings.Lease, e.leases(in.now)
		}
		return c.settings.Lease, nil
	}
	c.apply(c.machine.tend(in))
	return c.settings.Lease, nil
}

func (r *Registry) evictIdle() {
	for _, c := range r.circuits.Range {
		c.(*circuit).evictIfIdle()
	}
}

// evictIfIdle lets a circuit go that was not used for its IdleTTL and has
// nothing to remember. A call that is under way is not lost with it: its permit
// hands the outcome on to the circuit that takes the place. That spares every
// other call a counter of what is under way.
func (c *circuit) evictIfIdle() {
	in := c.lock(c.registry.instant())
	defer c.mu.Unlock()
	if settled := c.settled(); settled != c.idle.settled {
		c.idle = idleness{settled: settled, since: in.now}
	}
	if elapsed(in.now, c.idle.since) < c.settings.IdleTTL || !c.machine.pristine(in) {
		return
	}
	if c.mode != Local {
		if c.registry.keeps(c.key) || !c.machine.unsent.quiet() {
			return
		}
		c.registry.replica.inGroup[groupOf(c.key)].Add(-1)
	}
	c.word.Store(uint64(c.look() | evicted))
	c.registry.circuits.CompareAndDelete(c.key, c)
}
