package breaker

import (
	"context"
	"sync"
	"time"
)

// A canary finds out for callers whether a target is well again (R36). Circuits
// that want one stay shut until it has done well; it is sent by the one replica
// that gets the lease, and only while there are callers to be spared.

// latestStart is the most that a canary waits at random after a circuit is due, so
// that those of many circuits do not start together.
const latestStart = time.Second

// bars reports whether the gate is shut for callers.
func (g *gate) bars(now time.Duration) bool { return g != nil && (now < g.until || g.canary) }

// turnAway refuses a call at the gate.
func (c *circuit) turnAway(g *gate, now time.Duration) error {
	c.rejected.Add(1)
	if g.canary {
		c.demand(now)
	}
	return g.refusal(c.key, now)
}

// demand notes that a canary would help somebody, and tells the sweeper once a
// second at most.
func (c *circuit) demand(now time.Duration) {
	at := int64(max(now, 1))
	was := c.demanded.Load()
	if was != 0 && elapsed(now, time.Duration(was)) < time.Second {
		return
	}
	if c.demanded.CompareAndSwap(was, at) {
		signal(c.registry.wake)
	}
}

// canaryGate is shut as long as a canary has the word; nil when calls probe.
func (m *machine) canaryGate() *gate {
	if !m.episode.canary {
		return nil
	}
	return &gate{
		state: HalfOpen, reason: ReasonProbing, generation: m.generation, cause: m.cause,
		until: later(m.since, probingRetryAfter), openFor: probingRetryAfter, canary: true,
	}
}

// canary sends one if it is time, and returns how long until it may be.
func (c *circuit) canary(now time.Duration) time.Duration {
	g := c.gate.Load()
	if g == nil || !g.canary || !c.wantsCanary(now) {
		return idleEvery
	}
	if g.state == Open {
		if wait := later(g.until, g.start(c.registry.jitter())) - now; wait > 0 && now < later(g.until, latestStart) {
			return wait
		}
	}
	c.registry.send(c)
	return idleEvery
}

// start is how much later than it could a canary starts.
func (g *gate) start(jitter float64) time.Duration {
	return time.Duration(jitter * float64(min(latestStart, g.openFor/10)))
}

// wantsCanary reports whether a call was refused lately.
func (c *circuit) wantsCanary(now time.Duration) bool {
	asked := c.demanded.Load()
	if asked == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return elapsed(now, time.Duration(asked)) <= c.settings.CanaryDemand
}

// flock is the canaries that are under way.
type flock struct {
	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelFunc
	ended  bool
	out    sync.WaitGroup
}

// begin lets one more go; false once the registry has stopped.
func (f *flock) begin() (context.Context, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return nil, false
	}
	if f.ctx == nil {
		f.ctx, f.cancel = context.WithCancel(context.Background())
	}
	f.out.Add(1)
	return f.ctx, true
}

// end calls them all back and waits for them.
func (f *flock) end() {
	f.mu.Lock()
	f.ended = true
	if f.cancel != nil {
		f.cancel()
	}
	f.mu.Unlock()
	f.out.Wait()
}

// send sends one canary, if this replica gets the lease. One at a time is enough.
func (r *Registry) send(c *circuit) {
	if c.sending.Swap(true) {
		return
	}
	ctx, ok := r.flock.begin()
	if !ok {
		c.sending.Store(false)
		return
	}
	go func() {
		defer r.flock.out.Done()
		defer c.sending.Store(false)
		var p Permit
		if !c.acquireCanary(&p) {
			return
		}
		defer func() {
			if !p.done.Load() {
				p.Done(Outcome{Kind: Neutral})
			}
		}()
		r.canary(ctx, c.key, &p)
	}()
}

func (c *circuit) acquireCanary(p *Permit) bool {
	if c.shares() {
		return c.askForProbe(p, true) == nil && p.canary
	}
	return c.acquireLocally(p, instant{canary: true}) == nil && p.canary
}
