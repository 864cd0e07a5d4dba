package main

import (
	"context"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// worker is one goroutine that calls, as fast as it can. Calls that take their
// time wait in held, so that none of them holds up the others.
type worker struct {
	soak   *soak
	random *rand.Rand
	held   []*call
	spare  *call         // a call that is over, whose permit may be acquired anew
	now    time.Duration // read every so many calls
	period uint64        // of the cold keys
	stats  stats
}

// call is one call under way.
type call struct {
	key     *key
	permit  *breaker.Permit
	due     time.Duration // when it ends
	tokenAt time.Duration // when its first token comes; 0: it has or never will
	early   bool          // that token was the verdict of a probe
	outcome breaker.Outcome
}

func newWorker(s *soak, seed uint64) *worker {
	return &worker{soak: s, random: rand.New(rand.NewPCG(seed, 7))}
}

func (w *worker) work(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		if n%64 == 0 {
			w.now = w.soak.registry.Now()
			w.period = uint64(w.now / coldPeriod)
			w.tendHeld()
		}
		w.call(w.choose())
	}
	for _, c := range w.held {
		w.settle(c, c.outcome)
	}
	w.held = nil
}

// chance is one in n.
func (w *worker) chance(n int) bool { return w.random.IntN(n) == 0 }

func (w *worker) upTo(d time.Duration) time.Duration { return time.Duration(w.random.Int64N(int64(d))) }

// choose takes one of a few keys half of the time, so that callers meet. Cold
// keys have their time at the beginning of every coldPeriod, which leaves the
// breaker two looks at what is idle, a minute apart.
func (w *worker) choose() *key {
	keys := w.soak.keys
	if w.chance(2) {
		return keys[w.random.IntN(len(keys)/20)]
	}
	k := keys[w.random.IntN(len(keys))]
	if k.temper == cold && w.now%coldPeriod > 10*time.Second {
		return keys[k.index/2]
	}
	return k
}

// weather is how the target of a key is at present.
type weather int

const (
	fine weather = iota
	failing
	slow
)

// weatherOf changes every two seconds.
func (w *worker) weatherOf(k *key) weather {
	switch (k.index + int(w.now/(2*time.Second))) % 8 {
	case 0:
		return failing
	case 3:
		return slow
	default:
		return fine
	}
}

// generation tells a generation from that of the same number which a circuit had
// before it was let go.
func (w *worker) generation(k *key, number uint64) uint64 {
	if k.temper == cold {
		return w.period<<48 | number
	}
	return number
}

// call makes one call in one of the ways that there are.
func (w *worker) call(k *key) {
	switch {
	case w.chance(1000):
		w.panics(k)
	case w.chance(5000):
		w.exits(k)
	default:
		w.plain(k)
	}
}

func (w *worker) plain(k *key) {
	c := w.newCall(k)
	if !w.acquire(c) {
		w.spare = c
		return
	}
	c.outcome = w.end(k, c.permit.Probe())
	if w.chance(4) {
		runtime.Gosched() // others come in between
	}
	c.permit.SlowAfter(10 * time.Millisecond)
	switch {
	case w.forgotten(c):
		w.stats.forgotten++
	case w.lasting(c):
		w.hold(c)
	case w.chance(5000):
		w.settleTwiceAtOnce(c)
	default:
		w.settle(c, c.outcome)
		w.spare = c
	}
}

func (w *worker) newCall(k *key) *call {
	if c := w.spare; c != nil {
		*c, w.spare = call{key: k, permit: c.permit}, nil
		return c
	}
	return &call{key: k, permit: new(breaker.Permit)}
}

// forgotten is a call whose end nobody reports.
func (w *worker) forgotten(c *call) bool {
	if c.permit.Probe() {
		return w.chance(30)
	}
	return w.chance(20_000)
}

// lasting decides how long a call takes; false when it has ended already.
func (w *worker) lasting(c *call) bool {
	var most time.Duration
	switch sluggish := c.key.index%4 == 1 && w.weatherOf(c.key) == slow; {
	case w.chance(20_000), c.permit.Probe() && w.chance(20):
		most = 2 * time.Second // hangs
	case c.permit.Probe() && w.chance(3), sluggish && !w.chance(4), w.chance(1000):
		most = 60 * time.Millisecond
	default:
		return false
	}
	c.due = w.now + w.upTo(most)
	return true
}

func (w *worker) hold(c *call) {
	if w.chance(2) {
		c.permit.Within(maxHalfOpen)
	}
	if w.chance(3) {
		c.tokenAt = w.now + (c.due-w.now)/2
	}
	w.held = append(w.held, c)
}

// tendHeld ends the calls whose time has come.
func (w *worker) tendHeld() {
	still := w.held[:0]
	for _, c := range w.held {
		if c.tokenAt > 0 && w.now >= c.tokenAt {
			c.tokenAt = 0
			c.permit.FirstToken()
			c.early = c.permit.Probe() && !c.permit.Slow()
		}
		if w.now < c.due {
			still = append(still, c)
			continue
		}
		w.settle(c, c.outcome)
	}
	clear(w.held[len(still):])
	w.held = still
}

// end decides what becomes of a call.
func (w *worker) end(k *key, probe bool) breaker.Outcome {
	o := breaker.Outcome{Kind: breaker.Success}
	failures := 200
	switch {
	case w.weatherOf(k) == failing:
		failures = 2
	case probe:
		failures = 5
	}
	switch {
	case w.chance(20), probe && w.chance(6):
		o = breaker.Outcome{Kind: breaker.Neutral, GaveUp: w.chance(2)}
	case w.chance(failures):
		o = breaker.Outcome{Kind: breaker.Failure, Cause: "server_error", Took: w.upTo(time.Second)}
		if w.chance(50) {
			o.OpenFor = 1 + w.upTo(2*maxRetryAfter)
		}
	}
	return o
}
