package breaker

import (
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

var errAnswer = errors.New("the store answered something else than a circuit")

// indexScript reads the index of a group.
var indexScript = &cache.Script{
	Name: "circuits",
	Lua:  "return redis.call('HGETALL', KEYS[1])",
	Go: func(tx cache.Tx, keys, _ []string) ([]string, error) {
		var flat []string
		for key, generation := range tx.HashAll(keys[0]) {
			flat = append(flat, key, generation)
		}
		return flat, nil
	},
}

// The tag in braces keeps a record and the index of its group in one slot.
func indexKey(group int) string { return tag(group) + "open" }

func recordKey(group int, key string) string { return tag(group) + "key:" + key }

func tag(group int) string { return "cb:{" + strconv.Itoa(group) + "}:" }

func groupOf(key string) int {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int(h.Sum32() % groups)
}

// link is what a circuit that is shared has to do with the store. The circuit's
// mu guards it.
type link struct {
	version, birth uint64 // of the copy that was seen last; 0: none was
	// ahead are the transitions made here that the store has not made yet. It
	// makes them, and tells of them; if it cannot, they are told of as they are.
	ahead   []*transition
	alone   bool          // transitions were told of that the store has not made
	seen    time.Duration // when it was
	saidAt  time.Duration // when the command was given
	doubts  []uint64      // steps whose answers are lost
	owed    []*verdict    // of probes, that it could not be told
	command *Command      // the last, that it could not be told
	flight  *flight       // the call that is asking for a probe
	quiet   time.Duration // until when nobody asks for one
	// fresh: the circuit was kept by this replica alone, and it is not known yet
	// whether others share it.
	fresh bool
}

// verdict is the end of a probe on its way to the store.
type verdict struct {
	claim claim
	o     Outcome
	until time.Duration // when its lease is over
}

// flight is a question that other calls wait for, too.
type flight struct{ landed chan struct{} }

// shares reports whether the store is asked and told about the circuit.
func (c *circuit) shares() bool {
	return c.look()&shared != 0 && c.registry.replica.up()
}

// bind makes the circuit shared, or not, as its settings say. The caller holds mu.
func (c *circuit) bind() {
	s := c.registry.replica
	mode := Local
	if s != nil && !c.unruled() {
		mode = c.settings.Store
	}
	if (mode != Local) == (c.mode != Local) {
		c.mode = mode
		if mode != Local {
			c.packed.Store(new(c.settings.pack()))
			c.machine.unsent.keep = c.settings.Window.Calls
		}
		return
	}
	c.mode = mode
	if mode == Local {
		s.inGroup[groupOf(c.key)].Add(-1)
		if c.look().state() != Closed {
			s.unwell.Add(-1)
		}
		c.link, c.machine.unsent = link{}, nil
		return
	}
	c.id, c.index = recordKey(groupOf(c.key), c.key), indexKey(groupOf(c.key))
	s.inGroup[groupOf(c.key)].Add(1)
	c.link = link{fresh: c.machine.eventful()}
	c.packed.Store(new(c.settings.pack()))
	c.machine.unsent = &delta{generation: c.machine.generation, keep: c.settings.Window.Calls}
	if c.machine.state.operated() {
		c.link.command, c.link.saidAt = c.machine.saidAgain(s.registry.now()), s.registry.now()
	}
	s.ask(c)
	signal(s.wake)
}

// share is bind for a circuit that was just made.
func (c *circuit) share() {
	if c.registry.replica == nil {
		return
	}
	c.lock(instant{})
	defer c.mu.Unlock()
	c.bind()
	c.publish()
}

// packedSettings are those that the store is told with every step.
func (c *circuit) packedSettings() string {
	p := c.packed.Load()
	if p == nil {
		return ""
	}
	return *p
}

// letters takes what there is to tell, and asks for the circuit if it is wanted.
func (c *circuit) letters() []letter {
	wanted := c.wanted.Swap(false)
	now := c.registry.now()
	c.lock(instant{})
	defer c.mu.Unlock()
	s, l := c.registry.replica, &c.link
	if c.mode == Local || c.look()&evicted != 0 {
		return nil
	}
	var all []letter
	if cmd := c.unsaid(now); cmd != nil {
		all = append(all, letter{circuit: c, run: s.step(c, stepCommand, cmd.pack()...), said: cmd})
	}
	for _, v := range l.owed {
		if now < v.until {
			all = append(all, letter{circuit: c, run: s.step(c, stepSettle, v.pack()...), owed: v})
		}
	}
	l.owed = nil
	if l.fresh { // first of all whether there is something to add to
		return append(all, letter{circuit: c, run: s.step(c, stepSync, c.packDelta(&delta{generation: c.machine.generation}, now)...)})
	}
	if d := c.takeUnsent(); wanted || !d.empty() || c.machine.near > 0 || len(l.ahead) > 0 {
		all = append(all, letter{circuit: c, run: s.step(c, stepSync, c.packDelta(d, now)...), news: d.calls})
	}
	return all
}

// takeUnsent empties what the circuit has to tell. The caller holds mu.
func (c *circuit) takeUnsent() *delta {
	d := c.machine.unsent
	c.machine.unsent = &delta{generation: d.generation, keep: d.keep, row: d.row}
	return d
}

// forget drops what was to be told while the store was away for longer than the
// circuit remembers.
func (c *circuit) forget(away time.Duration) {
	c.lock(instant{})
	defer c.mu.Unlock()
	if c.mode != Local && away > c.settings.memory() {
		c.takeUnsent()
	}
}

// packDelta is the news as the store takes it. It may begin a record with the
// generation of the news only if they are of a closed circuit, open here at
// most because of them.
func (c *circuit) packDelta(d *delta, now time.Duration) []string {
	state := c.machine.state
	d.reach, d.held = elapsed(now, d.began), c.held()
	margin := c.registry.replica.margin
	if c.mode == Strict {
		margin = 0
	}
	return d.pack(state == Closed || state == Open, margin)
}

// successesMargin is the share of successes that the other replicas may not have
// told: 2 s of a window of 30 s.
const successesMargin = All * 7 / 100

// delivered takes what the store has answered to a letter.
func (c *circuit) delivered(l letter, a answer) {
	if a.err != nil {
		c.registry.replica.tally.late.Add(l.news)
		c.undelivered(l)
		return
	}
	if l.news > 0 && a.code == codeStale {
		c.tally.stale.Add(l.news)
	}
	if l.said != nil {
		a.transitions = nil // they were told of when it was given
	}
	c.absorb(a)
}

// undelivered keeps what may be said again, and makes known what the circuit has
// decided by itself meanwhile.
func (c *circuit) undelivered(l letter) {
	c.lock(instant{})
	defer c.mu.Unlock()
	c.link.doubt(l.run)
	if l.owed != nil {
		c.link.owed = append(c.link.owed, l.owed)
	}
	if l.said != nil && c.link.command == nil {
		c.link.command = l.said
	}
	if l.owed != nil || l.said != nil {
		c.registry.replica.enqueue(c)
	}
	c.onOurOwn()
}

// onOurOwn tells of the transitions that the store has not made. The caller holds
// mu.
func (c *circuit) onOurOwn() {
	for _, t := range c.link.ahead {
		c.registry.tell(c.key, t)
	}
	c.link.alone = c.link.alone || len(c.link.ahead) > 0
	c.link.ahead = nil
}

// hurry asks for a circuit again as soon as the store has waited for the others.
func (s *replica) hurry(c *circuit) {
	s.ask(c)
	s.hurried.Store(true)
}

// doubt remembers a step whose answer is lost by the number that it has put into
// the generation that it may have begun.
func (l *link) doubt(run cache.Run) {
	random, _ := strconv.ParseUint(run.Args[3], 10, 64)
	l.doubts = append(l.doubts[max(0, len(l.doubts)-maxDoubts+1):], random)
}

// maxDoubts is how many of them are remembered.
const maxDoubts = 8

func (c *Command) pack() []string {
	var p packer
	p.numbers(micros(c.For))
	return []string{string(c.Action), string(p), strconv.FormatUint(bit(c.Reassert), 10), c.Note, c.Actor}
}

func (v *verdict) pack() []string {
	var p packer
	p.numbers(float64(v.claim.generation), float64(v.claim.lease), float64(bit(v.claim.early)), float64(v.o.Kind), micros(v.o.OpenFor))
	return []string{string(p), v.o.Cause}
}

// newLease makes up a name that no other lease has.
func newLease() uint64 { return rand.Uint64()>>12 | 1 }
