package main

import (
	"sync"
	"sync/atomic"
	"time"
)

// floors are what everything else is made of.
func floors() []entry {
	return []entry{
		{floor, "time.Now", once(func([]string) loop {
			return func(_, n int) {
				for range n {
					if time.Now().IsZero() {
						panic("there is no clock")
					}
				}
			}
		})},
		{floor, "atomic load and add", once(func([]string) loop {
			var word, count atomic.Uint64
			return func(_, n int) {
				for range n {
					if word.Load() == 0 {
						count.Add(1)
					}
				}
			}
		})},
		{floor, "sync.Map look-up", func(keys []string) loop {
			var m sync.Map
			for _, k := range keys {
				m.Store(k, new(int))
			}
			asked := built(keys)
			return func(first, n int) {
				at := roundFrom(first, asked)
				for range n {
					if _, ok := m.Load(at.next()); !ok {
						panic("a stored key is not found")
					}
				}
			}
		}},
	}
}

// once leaves out a floor that does not depend on the number of keys.
func once(prepare func([]string) loop) func([]string) loop {
	return func(keys []string) loop {
		if len(keys) > 1 {
			return nil
		}
		return prepare(keys)
	}
}
