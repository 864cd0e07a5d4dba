package main

import (
	"sync"
	"sync/atomic"
	"time"
)

// key is one circuit as its callers know it.
type key struct {
	name   string
	index  int
	temper temper

	episodes episodes
	promised promised
	decree   atomic.Uint64
	seen     seen
}

// seen is what the callers of a circuit were told, to be compared with what it
// counted. Of calls whose end the breaker settles by itself they are not told.
type seen struct {
	refused, probes, probesWon, probesLost, stale, neutral, doubleDone, untold atomic.Uint64
}

// episodes count the probes under way, or used up, of the latest generations.
// They know nothing of the order of generations.
type episodes struct {
	mu     sync.Mutex
	latest [4]struct {
		generation uint64
		taken      int
	}
}

// take counts a probe and returns how many slots of its episode are taken now.
// A probe is counted after it was admitted and given back before it is settled,
// so that the number is never too high.
func (e *episodes) take(generation uint64) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.latest {
		if e.latest[i].generation == generation {
			e.latest[i].taken++
			return e.latest[i].taken
		}
	}
	copy(e.latest[1:], e.latest[:])
	e.latest[0].generation, e.latest[0].taken = generation, 1
	return 1
}

// giveBack counts a probe whose slot may be handed out again.
func (e *episodes) giveBack(generation uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.latest {
		if e.latest[i].generation == generation {
			e.latest[i].taken--
		}
	}
}

// A decree is what a person has said of a circuit for good: who reads the same
// before and after asking knows that it held in between.
const (
	undecided uint64 = iota
	refuseAll
	admitAll

	decrees
)

// decide numbers each decree, so that no two are equal.
func (k *key) decide(decree uint64) {
	next := k.decree.Load()/decrees + 1
	k.decree.Store(next*decrees + decree)
}

// promised is when the first wait ends that a caller of an open circuit was asked
// for.
type promised struct {
	mu         sync.Mutex
	generation uint64
	until      time.Duration
}

// come notes that a caller was refused who came at one time, had its answer at
// another and is to wait. It returns how much too early an earlier wait of the
// same opening has ended, 0 when it has not.
func (p *promised) come(generation uint64, came, answered, wait time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	until := answered + wait
	if p.generation != generation {
		p.generation, p.until = generation, until
		return 0
	}
	early := max(0, came-p.until)
	p.until = min(p.until, until)
	return early
}
