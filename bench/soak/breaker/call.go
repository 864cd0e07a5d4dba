package main

import (
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// acquire asks for a permit and judges the answer.
func (w *worker) acquire(c *call) bool {
	before := c.key.decree.Load()
	err := w.soak.registry.Acquire(c.key.name, c.permit)
	w.soak.judgeDecree(c.key, before, err == nil)
	if err != nil {
		w.refused(c.key, err)
		return false
	}
	w.admitted(c)
	return true
}

func (w *worker) refused(k *key, err error) {
	w.stats.refused++
	k.seen.refused.Add(1)
	if fault := faultOfRefusal(k.name, err); fault != "" {
		w.soak.broken(waits, "%s", fault)
	}
	if w.chance(16) {
		w.judgeWait(k, err)
	}
}

// judgeWait holds an open circuit to the waits that it asked for. The call came
// after the worker last looked at the clock. An opening is never extended: an
// open circuit is told nothing.
func (w *worker) judgeWait(k *key, err error) {
	r, ok := errors.AsType[*breaker.Refusal](err)
	if !ok || r.State != breaker.Open {
		return
	}
	if early := k.promised.come(w.generation(k, r.Generation), w.now, w.soak.registry.Now(), r.RetryAfter); early > 0 {
		w.soak.broken(waits, "%s asked a caller to come back %v before it admitted any", k.name, early)
	}
}

func (w *worker) admitted(c *call) {
	w.stats.admitted++
	if !c.permit.Probe() {
		return
	}
	w.stats.probes++
	k := c.key
	k.seen.probes.Add(1)
	if taken := k.episodes.take(w.generation(k, c.permit.Generation())); k.temper != fickle && taken > slots(k.index) {
		w.soak.broken(probing, "%s: %d slots taken of %d in generation %d", k.name, taken, slots(k.index), c.permit.Generation())
	}
}

// judgeDecree holds the breaker to what a person has said, if that was the same
// before and after.
func (s *soak) judgeDecree(k *key, before uint64, admitted bool) {
	if k.decree.Load() != before {
		return
	}
	switch before % decrees {
	case refuseAll:
		if admitted {
			s.broken(obeyed, "%s admitted a call although it is forced open", k.name)
		}
	case admitAll:
		if !admitted {
			s.broken(obeyed, "%s refused a call although it is disabled or in shadow", k.name)
		}
	}
}

// faultOfRefusal returns what is wrong with a refusal, if anything.
func faultOfRefusal(key string, err error) string {
	r, ok := errors.AsType[*breaker.Refusal](err)
	if !ok {
		return key + " refused with another error: " + err.Error()
	}
	longest := map[breaker.State]time.Duration{
		breaker.Open: longestOpen, breaker.HalfOpen: max(probingWait, longestOpen), breaker.ForcedOpen: longestDecree,
	}
	most, refuses := longest[r.State]
	switch {
	case !refuses:
		return key + " refused although it is " + r.State.String()
	case r.Key != key:
		return key + " refused in the name of " + r.Key
	case r.State == breaker.ForcedOpen && r.RetryAfter == 0:
		return ""
	case r.RetryAfter < time.Second, r.RetryAfter%time.Second != 0, r.RetryAfter > most+time.Second:
		return key + " refused, being " + r.State.String() + ", with a wait of " + r.RetryAfter.String()
	default:
		return ""
	}
}

// settle ends a call.
func (w *worker) settle(c *call, o breaker.Outcome) {
	if w.chance(2) {
		o.At = w.soak.registry.Now()
	}
	w.giveBack(c, o.Kind)
	w.settled(c, o.Kind, c.permit.Done(o))
	if w.chance(200) {
		w.again(c, o)
	}
}

// giveBack says that the slot of a probe may be handed out again.
func (w *worker) giveBack(c *call, k breaker.Kind) {
	if c.permit.Probe() && k == breaker.Neutral && !c.early {
		c.key.episodes.giveBack(w.generation(c.key, c.permit.Generation()))
	}
}

func (w *worker) settled(c *call, k breaker.Kind, s breaker.Settlement) {
	w.stats.settled[k][s]++
	seen := &c.key.seen
	switch {
	case s == breaker.Stale:
		seen.stale.Add(1)
	case s != breaker.Applied:
	case k == breaker.Neutral:
		seen.neutral.Add(1)
	case !c.permit.Probe():
	case k == breaker.Success:
		seen.probesWon.Add(1)
	default:
		seen.probesLost.Add(1)
	}
}

// again settles a call a second time.
func (w *worker) again(c *call, o breaker.Outcome) {
	w.stats.doubleDone++
	if c.permit.Generation() != 0 {
		c.key.seen.doubleDone.Add(1)
	}
	if got := c.permit.Done(o); got != breaker.Ignored {
		w.soak.broken(contained, "the second end of a call of %s was %s", c.key.name, got)
	}
}

// settleTwiceAtOnce lets two ends of a call race.
func (w *worker) settleTwiceAtOnce(c *call) {
	w.giveBack(c, c.outcome.Kind)
	var got [2]breaker.Settlement
	var both sync.WaitGroup
	for i := range got {
		both.Go(func() { got[i] = c.permit.Done(c.outcome) })
	}
	both.Wait()
	first, second := got[0], got[1]
	if first == breaker.Ignored {
		first, second = second, first
	}
	if second != breaker.Ignored {
		w.soak.broken(contained, "of two ends of a call of %s at once one was %s, the other %s", c.key.name, first, second)
	}
	w.settled(c, c.outcome.Kind, first)
	w.stats.doubleDone++
	if c.permit.Generation() != 0 {
		c.key.seen.doubleDone.Add(1)
	}
}

// panics makes a call that panics; the breaker settles it.
func (w *worker) panics(k *key) {
	thrown, caught := new(int), any(nil)
	w.do(k, func(*call) { panic(thrown) }, func(do func()) {
		defer func() { caught = recover() }()
		do()
	}, func() {
		w.stats.panicked++
		if caught != any(thrown) {
			w.soak.broken(contained, "a call of %s panicked with one value and went on with another: %v", k.name, caught)
		}
	})
}

// exits makes a call that ends its goroutine; the breaker settles it as neutral.
func (w *worker) exits(k *key) {
	w.do(k, func(c *call) {
		w.giveBack(c, breaker.Neutral)
		runtime.Goexit()
	}, func(do func()) {
		var ended sync.WaitGroup
		ended.Go(do)
		ended.Wait()
	}, func() { w.stats.exited++ })
}

// do makes a call under a permit of the breaker's own that ends in an unusual
// way, which around contains; afterwards is for a call that was admitted.
func (w *worker) do(k *key, end func(*call), around func(func()), afterwards func()) {
	before, ran := k.decree.Load(), false
	var refusal error
	around(func() {
		refusal = w.soak.registry.Do(k.name, func(p *breaker.Permit) breaker.Outcome {
			ran = true
			w.inside(&call{key: k, permit: p}, before, end)
			return breaker.Outcome{Kind: breaker.Neutral}
		})
	})
	if ran {
		afterwards()
		return
	}
	w.soak.judgeDecree(k, before, false)
	w.refused(k, refusal)
}

func (w *worker) inside(c *call, before uint64, end func(*call)) {
	w.soak.judgeDecree(c.key, before, true)
	w.admitted(c)
	c.key.seen.untold.Add(1)
	end(c)
}
