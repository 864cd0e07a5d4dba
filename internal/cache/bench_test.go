package cache_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// each runs a benchmark on both implementations.
func each(b *testing.B, bench func(*testing.B, cache.Cache)) {
	b.Run("memory", func(b *testing.B) { bench(b, openMemory(b, cache.MemoryConfig{})) })
	b.Run("server", func(b *testing.B) { bench(b, openOn(b, redistest.Start(b))) })
}

func BenchmarkRun(b *testing.B) {
	each(b, func(b *testing.B, c cache.Cache) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Run(b.Context(), count, []string{"n"}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkRunParallel(b *testing.B) {
	each(b, func(b *testing.B, c cache.Cache) {
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := c.Run(b.Context(), count, []string{"n"}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

// BenchmarkRunAll64 is one round trip with 64 scripts on as many keys.
func BenchmarkRunAll64(b *testing.B) {
	var runs []cache.Run
	for i := range 64 {
		runs = append(runs, cache.Run{Script: count, Keys: []string{fmt.Sprint("n", i)}})
	}
	each(b, func(b *testing.B, c cache.Cache) {
		b.ReportAllocs()
		for b.Loop() {
			for _, r := range c.RunAll(b.Context(), runs) {
				if r.Err != nil {
					b.Fatal(r.Err)
				}
			}
		}
	})
}

func BenchmarkGet(b *testing.B) {
	each(b, func(b *testing.B, c cache.Cache) {
		if err := c.Set(b.Context(), "k", make([]byte, 1024), time.Hour); err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Get(b.Context(), "k"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkGetAway is what a call costs while the server is away.
func BenchmarkGetAway(b *testing.B) {
	server := redistest.Start(b)
	v := open(b, server.URL(), cache.ValkeyConfig{})
	server.Kill()
	eventually(b, "the loss is noticed", func() bool { return !v.Available() })
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Get(b.Context(), "k"); err == nil {
			b.Fatal("a killed server answered")
		}
	}
}
