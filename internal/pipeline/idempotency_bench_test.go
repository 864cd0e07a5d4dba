package pipeline_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/idempotency"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// BenchmarkIdempotency is what a key costs a call that takes no time, beside the
// same call without one: a new key, and one whose answer is given again.
func BenchmarkIdempotency(b *testing.B) {
	for name, open := range map[string]func(*testing.B) cache.Cache{
		"memory": func(*testing.B) cache.Cache { return cache.NewMemory(cache.MemoryConfig{}) },
		"redis": func(b *testing.B) cache.Cache {
			c, err := cache.OpenValkey(redistest.Start(b).URL(), cache.ValkeyConfig{})
			if err != nil {
				b.Fatal(err)
			}
			return c
		},
	} {
		b.Run(name, func(b *testing.B) {
			c := open(b)
			defer func() { _ = c.Close() }()
			handle := keyedHandle(b, c, bytes.Repeat([]byte("x"), 1000))
			body := bytes.Repeat([]byte("y"), 4000)
			run := func(key func(i int) string) func(b *testing.B) {
				return func(b *testing.B) {
					b.ReportAllocs()
					for i := 0; b.Loop(); i++ {
						call := newCall(alpha)
						call.RunID, call.Body, call.IdempotencyKey = uuid.New(), body, key(i)
						if _, err := handle(context.Background(), call, nil); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
			b.Run("without a key", run(func(int) string { return "" }))
			b.Run("a new key", run(func(i int) string { return fmt.Sprint(b.N, "-", i, "-", uuid.NewString()) }))
			b.Run("a replay", run(func(int) string { return "k" }))
		})
	}
}

// BenchmarkStoredAnswers is how much memory 1,000 answers of 1,000 bytes take in
// this process, keys and records with them.
func BenchmarkStoredAnswers(b *testing.B) {
	for b.Loop() {
		c := cache.NewMemory(cache.MemoryConfig{})
		handle := keyedHandle(b, c, bytes.Repeat([]byte("x"), 1000))
		before := heap()
		for i := range 1000 {
			call := newCall(alpha)
			call.RunID, call.IdempotencyKey = uuid.New(), fmt.Sprint(i)
			if _, err := handle(context.Background(), call, nil); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(heap()-before)/1000, "heap-B/answer")
		_ = c.Close()
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func keyedHandle(b *testing.B, c cache.Cache, answer []byte) pipeline.Handler {
	b.Helper()
	store := &keyStore{Store: idempotency.New(idempotency.Config{}, c)}
	keyed := pipeline.NewIdempotency(keyDefaults, store, new(pipeline.Flights), func(string) {})
	return keyed.Wrap(func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) {
		return &llm.Result{Target: alpha, Status: 200, Body: answer}, nil
	})
}
