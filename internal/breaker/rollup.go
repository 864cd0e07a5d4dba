package breaker

import (
	"sync"
	"time"
)

// A group is open while many of its circuits are: what they have in common is
// taken to be sick, and the others are spared (R40). It has no evidence of its
// own and no probes: its circuits find out, each for itself, and the group is
// open no longer than they are.

// ReasonRollup is the reason of a group that opens or closes, and of refusing a
// call because its group is open.
const ReasonRollup = "rollup"

// Rollup says when a group is open.
type Rollup struct {
	Percent int // of its circuits in use that are open; 0: never
	MinOpen int // at least so many of them
}

// rollups are the groups. Only the sweeper changes them.
type rollups struct {
	of func(key string) string

	mu   sync.RWMutex
	open map[string]*rollup // by key; those that were open once
}

type rollup struct {
	open         bool
	since, until time.Duration
	active, sick int
	generation   uint64
}

// roll is the counting of one look.
type roll struct{ groups map[string]*tallied }

type tallied struct {
	rule         Rollup
	active, sick int
	until        time.Duration // when the first of the open ones may be probed
	circuits     []*circuit
}

func (r *Registry) newRoll() roll {
	if r.groups.of == nil {
		return roll{}
	}
	return roll{map[string]*tallied{}}
}

// call counts a circuit in its group.
func (l roll) call(c *circuit, now time.Duration) {
	if l.groups == nil {
		return
	}
	key := c.registry.groups.of(c.key)
	c.lock(instant{})
	rule, m := c.settings.Rollup, &c.machine
	sick := m.state == Open && now < m.openUntil
	active := m.state != Closed || m.window.counts(now).calls > 0
	until := m.openUntil
	c.mu.Unlock()
	if key == "" || rule.Percent == 0 {
		return
	}
	g := l.groups[key]
	if g == nil {
		g = &tallied{until: forever}
		l.groups[key] = g
	}
	g.rule = rule
	g.circuits = append(g.circuits, c)
	g.active += int(bit(active))
	if sick {
		g.sick++
		g.until = min(g.until, until)
	}
}

func (g *tallied) opens() bool {
	return g.sick >= max(1, g.rule.MinOpen) && g.sick*100 >= g.rule.Percent*g.active
}

// settle opens and closes groups by what was counted, and returns how long until
// that has to be done again.
func (s *rollups) settle(r *Registry, l roll, now time.Duration) time.Duration {
	next := idleEvery
	for key, g := range l.groups {
		if t := s.update(key, g, now); t != nil {
			r.tell(key, t)
			for _, c := range g.circuits {
				c.republish()
			}
		}
		if g.until < forever {
			next = min(next, g.until-now)
		}
	}
	return next
}

func (s *rollups) update(key string, g *tallied, now time.Duration) *transition {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.open[key]
	if known == nil {
		if !g.opens() {
			return nil
		}
		known = &rollup{generation: firstGeneration}
		s.open[key] = known
	}
	was := known.open
	known.open, known.active, known.sick, known.until = g.opens(), g.active, g.sick, g.until
	if known.open == was {
		return nil
	}
	known.since = now
	known.generation++
	t := &transition{from: Open, to: Closed, reason: ReasonRollup, generation: known.generation,
		counts: Counts{Calls: uint64(g.active), Failures: uint64(g.sick)}}
	if known.open {
		t.from, t.to, t.openFor = Closed, Open, g.until-now
	}
	return t
}

// find returns the group of a key while it is open.
func (s *rollups) find(key string) (rollup, bool) {
	if s.of == nil {
		return rollup{}, false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if g := s.open[s.of(key)]; g != nil && g.open {
		return *g, true
	}
	return rollup{}, false
}

// inOpenGroup reports whether calls that a closed circuit would let through are
// refused for its group's sake. The caller holds mu.
func (c *circuit) inOpenGroup() bool {
	if c.settings.Rollup.Percent == 0 || c.machine.state != Closed {
		return false
	}
	_, open := c.registry.groups.find(c.key)
	return open
}

func (c *circuit) republish() {
	c.lock(instant{})
	defer c.mu.Unlock()
	c.publish()
}

// rolledUp refuses a call for its group's sake.
func (c *circuit) rolledUp() error {
	g, open := c.registry.groups.find(c.key)
	if !open {
		return nil
	}
	c.rejected.Add(1)
	return &Refusal{
		Key: c.key, State: Closed, Reason: ReasonRollup, Generation: c.look().generation(),
		RetryAfter: wholeSeconds(g.until - c.registry.now()),
	}
}

// snapshots are the groups that were open once, as circuits of their own.
func (s *rollups) snapshots(now time.Duration) []Snapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []Snapshot
	for key, g := range s.open {
		all = append(all, g.snapshot(key, now))
	}
	return all
}

func (s *rollups) snapshot(key string, now time.Duration) (Snapshot, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	g := s.open[key]
	if g == nil {
		return Snapshot{}, false
	}
	return g.snapshot(key, now), true
}

func (g *rollup) snapshot(key string, now time.Duration) Snapshot {
	s := Snapshot{
		Key: key, Enabled: true, Reason: ReasonRollup, Generation: g.generation,
		Since: time.Now().Add(-elapsed(now, g.since)).UTC(), Calls: uint64(g.active), Failures: uint64(g.sick),
	}
	if g.open {
		s.State, s.RetryAfter = Open, elapsed(g.until, now)
	}
	return s
}

// held reports whether so many siblings of a circuit are open that it must not
// open, too, by what it counts: one that fails is better than none.
func (c *circuit) held() bool {
	most := c.settings.MaxOpenPercent
	if most == 0 || most == 100 || c.registry.siblings == nil {
		return false
	}
	for _, route := range c.registry.siblings(c.key) {
		open := 1 // were it to open
		for _, key := range route {
			if v, ok := c.registry.circuits.Load(key); ok && key != c.key && v.(*circuit).look().refuses() {
				open++
			}
		}
		if open*100 > most*len(route) {
			return true
		}
	}
	return false
}
