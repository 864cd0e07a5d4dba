package main

import (
	"context"
	"runtime"

	"github.com/sony/gobreaker/v2"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// holding is what idle breakers keep.
type holding struct {
	name       string
	perKey     float64 // bytes
	fixed      float64 // bytes, however many keys there are
	goroutines int     // in all
}

// weigh makes breakers for so many keys, each used once, and tells what they
// hold. The names of the keys are the caller's and not counted.
func weigh(n int) []holding {
	keys := keyNames(n)
	return []holding{
		holdOurs("Breakwater", keys, settings()),
		holdOurs("Breakwater, watched for slowness", keys, watched()),
		holdPeers("gobreaker, rolling window", keys, useGo, func() *goBreaker {
			return gobreaker.NewCircuitBreaker[struct{}](rollingWindow(nil))
		}),
		holdPeers("gobreaker, default", keys, useGo, func() *goBreaker {
			return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{})
		}),
		holdPeers("failsafe-go", keys, func(b fsBreaker) { b.TryAcquirePermit(); b.RecordSuccess() }, newFSBreaker),
	}
}

func useGo(b *goBreaker) { _, _ = b.Execute(goWell) }

func holdOurs(name string, keys []string, s breaker.Settings) holding {
	h := holding{name: name}
	before, goroutines := heap(), runtime.NumGoroutine()
	r := newRegistry(s)
	r.Start()
	empty := heap()
	for _, k := range keys {
		var p breaker.Permit
		if err := r.Acquire(k, &p); err != nil {
			panic(err)
		}
		p.Done(breaker.Outcome{Kind: breaker.Success})
	}
	h.fixed, h.perKey = empty-before, (heap()-empty)/float64(len(keys))
	h.goroutines = runtime.NumGoroutine() - goroutines
	if err := r.Stop(context.Background()); err != nil {
		panic(err)
	}
	return h
}

func holdPeers[B any](name string, keys []string, use func(B), make func() B) holding {
	before, goroutines := heap(), runtime.NumGoroutine()
	s := newShelf(keys, make)
	s.each(0, len(keys), func(_ int, b B) { use(b) })
	s.asked = nil // a caller's
	h := holding{name: name, perKey: (heap() - before) / float64(len(keys)), goroutines: runtime.NumGoroutine() - goroutines}
	runtime.KeepAlive(s)
	return h
}

// heap is how many bytes are in use once what is not has been collected.
func heap() float64 {
	runtime.GC()
	runtime.GC() // what the first has left in pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
