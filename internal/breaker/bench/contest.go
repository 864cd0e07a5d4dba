package main

import (
	"fmt"
	"strings"
	"sync"
)

// What is measured.
const (
	floor   = "floor"
	success = "success while closed"
	slow    = "the same, watched for slowness"
	mixed   = "one failure in a hundred"
	failure = "failure below the limit"
	refusal = "refusal while open"
)

// rarely has no factor in common with the number of keys, so that the failures
// are not always those of the same ones.
const rarely = 101

// yardstick is the contestant that the others are compared with.
const yardstick = "gobreaker, rolling window"

// contestant is one way to do one thing.
type contestant struct {
	operation string
	name      string
	keys      int
	loop      loop
}

// loop does something n times, beginning with the first-th key. Several run at
// once. The loop is inside so that no call is added to what is measured.
type loop func(first, n int)

// entry is a contestant before it is told how many keys it has.
type entry struct {
	operation string
	name      string
	prepare   func(keys []string) loop
}

// contestants returns all of them, each for one key and for a thousand.
func contestants() []contestant {
	var all []contestant
	entries := append(append(floors(), ours()...), peers()...)
	for _, operation := range []string{floor, success, slow, mixed, failure, refusal} {
		for _, n := range []int{1, 1000} {
			keys := keyNames(n)
			for _, e := range entries {
				if e.operation != operation {
					continue
				}
				if l := e.prepare(keys); l != nil {
					all = append(all, contestant{e.operation, e.name, n, l})
				}
			}
		}
	}
	return all
}

// keyNames are of the length of a provider, a model and a region.
func keyNames(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("provider-%04d/some-big-model/region-%d", i, i%7)
	}
	return keys
}

// built returns keys equal to those, but elsewhere in memory, as a caller has
// them who puts them together for a call.
func built(keys []string) []string {
	others := make([]string, len(keys))
	for i, k := range keys {
		others[i] = strings.Clone(k)
	}
	return others
}

// round is a way through keys, from one to the next and around.
type round struct {
	keys []string
	at   int
}

func roundFrom(first int, keys []string) round { return round{keys, first % len(keys)} }

func (r *round) next() string {
	k := r.keys[r.at]
	if r.at++; r.at == len(r.keys) {
		r.at = 0
	}
	return k
}

// shelf finds a peer's breakers by key, as our registry does. With one key there
// is nothing to find, and the caller holds the breaker in its hand.
type shelf[B any] struct {
	byKey sync.Map // string → B
	asked []string
	one   B
}

func newShelf[B any](keys []string, make func() B) *shelf[B] {
	s := &shelf[B]{asked: built(keys)}
	for _, k := range keys {
		s.one = make()
		s.byKey.Store(k, s.one)
	}
	return s
}

// each calls do n times, with the breaker of one key after the other.
func (s *shelf[B]) each(first, n int, do func(i int, b B)) {
	if len(s.asked) == 1 {
		for i := range n {
			do(i, s.one)
		}
		return
	}
	keys := roundFrom(first, s.asked)
	for i := range n {
		b, _ := s.byKey.Load(keys.next())
		do(i, b.(B))
	}
}
