package idempotency_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/idempotency"
)

// answerSizes are a small answer and one of half a chunk.
var answerSizes = []int{1 << 10, 128 << 10}

// benchEach runs a benchmark in this process and on a real server, with how many
// bytes each takes.
func benchEach(b *testing.B, bench func(b *testing.B, c cache.Cache, size int, used func() int64)) {
	for _, size := range answerSizes {
		b.Run(fmt.Sprintf("memory/%dKiB", size>>10), func(b *testing.B) {
			c := cache.NewMemory(cache.MemoryConfig{})
			b.Cleanup(func() { _ = c.Close() })
			bench(b, c, size, func() int64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				return int64(m.HeapAlloc)
			})
		})
		b.Run(fmt.Sprintf("redis/%dKiB", size>>10), func(b *testing.B) {
			server := redistest.Start(b)
			bench(b, openRedis(b, server), size, func() int64 {
				text, err := server.Do("INFO", "memory")
				if err != nil {
					b.Fatal(err)
				}
				_, rest, _ := strings.Cut(text.(string), "used_memory:")
				line, _, _ := strings.Cut(rest, "\r\n")
				n, err := strconv.ParseInt(line, 10, 64)
				if err != nil {
					b.Fatal(err)
				}
				return n
			})
		})
	}
}

// keep stores an answer under a name.
func keep(b *testing.B, s *idempotency.Store, name string, answer []byte) {
	a := idempotency.Asker{Name: name, Print: "x", Token: "t"}
	if _, err := s.Claim(b.Context(), a, "", false); err != nil {
		b.Fatal(err)
	}
	if kept, err := s.Keep(b.Context(), a, answer, time.Hour); !kept || err != nil {
		b.Fatalf("kept %t, %v", kept, err)
	}
}

// BenchmarkKept keeps answers of a thousand keys an operation, and reports what
// they take.
func BenchmarkKept(b *testing.B) {
	benchEach(b, func(b *testing.B, c cache.Cache, size int, used func() int64) {
		const keys = 1000
		s := idempotency.New(idempotency.Config{}, c)
		keep(b, s, "first", []byte("x"))
		before := used()
		for n := 0; b.Loop(); n++ {
			for i := range keys {
				keep(b, s, fmt.Sprintf("k-%d-%d", n%2, i), bytes.Repeat([]byte{'x'}, size))
			}
			if n == 0 {
				b.StopTimer()
				b.ReportMetric(float64(used()-before)/(1<<20), "MiB/1000")
				b.StartTimer()
			}
		}
	})
}

// BenchmarkReplay finds a kept answer.
func BenchmarkReplay(b *testing.B) {
	benchEach(b, func(b *testing.B, c cache.Cache, size int, _ func() int64) {
		s := idempotency.New(idempotency.Config{}, c)
		keep(b, s, "k", bytes.Repeat([]byte{'x'}, size))
		for b.Loop() {
			got, err := s.Claim(b.Context(), caller("other"), "", false)
			if err != nil || got.State != idempotency.Done || len(got.Payload) != size {
				b.Fatalf("got %s with %d bytes, %v", got.State, len(got.Payload), err)
			}
		}
	})
}
