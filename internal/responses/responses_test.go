package responses_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/leaktest"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/responses"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// eachStore runs a test in this process and on a real server.
func eachStore(t *testing.T, test func(*testing.T, cache.Cache)) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		c := cache.NewMemory(cache.MemoryConfig{})
		t.Cleanup(func() { _ = c.Close() })
		test(t, c)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, openRedis(t, redistest.Start(t), unhurried))
	})
}

// unhurried is a call's time for a busy machine.
const unhurried = time.Minute

func openRedis(t *testing.T, server *redistest.Server, timeout time.Duration) cache.Cache {
	t.Helper()
	c, err := cache.OpenValkey(server.URL(), cache.ValkeyConfig{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for deadline := time.Now().Add(2 * time.Minute); !c.Available(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server is not reached")
		}
	}
	return c
}

type store struct {
	*responses.Store
	t *testing.T
}

func setup(t *testing.T, c cache.Cache) store {
	s := store{responses.New(c), t}
	s.TakeYourTime()
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	return s
}

// keeps keeps an answer and waits for it.
func (s store) keeps(key llm.KeptKey, answer llm.Kept, ttl time.Duration) {
	s.t.Helper()
	kept := make(chan struct{})
	if answer.Asked.IsZero() {
		answer.Asked = time.Now()
	}
	s.Keep(key, answer, ttl, func() { close(kept) })
	<-kept
}

func (s store) finds(key llm.KeptKey, want ...llm.Kept) {
	s.t.Helper()
	var got []llm.Kept
	if k, ok := s.Find(s.t.Context(), key); ok {
		got = append(got, k)
	}
	for i := range got { // which is not worth the time when they are the same
		if i < len(want) && bytes.Equal(got[i].Body, want[i].Body) {
			got[i].Body = want[i].Body[:min(len(want[i].Body), 10)]
			want[i].Body = got[i].Body
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("found (-want +got):\n%s", diff)
	}
}

func (s store) clears(configuration string, want int) {
	s.t.Helper()
	got, err := s.Clear(s.t.Context(), configuration)
	if err != nil || got != want {
		s.t.Errorf("cleared %d of %q (%v), want %d", got, configuration, err, want)
	}
}

func keyOf(configuration string, n byte) llm.KeptKey {
	return llm.KeptKey{Configuration: configuration, Sum: [32]byte{n, 1: 7}}
}

func answer(body string) llm.Kept {
	return llm.Kept{
		Body: []byte(body), Target: llm.Target{Provider: "alpha", Model: "m1", Region: "r1"}, Run: uuid.MustParse("0190a000-0000-7000-8000-000000000001"),
		Usage: llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(2)}, At: time.Date(2026, 7, 1, 12, 0, 0, 5000, time.UTC),
	}
}

func TestWhatIsKeptIsFoundUntilItExpires(t *testing.T) {
	eachStore(t, func(t *testing.T, c cache.Cache) {
		s := setup(t, c)
		s.finds(keyOf("chat", 1))
		s.keeps(keyOf("chat", 1), answer("{\n}"), time.Hour)
		s.keeps(keyOf("chat", 2), answer(""), time.Hour)
		s.keeps(keyOf("", 1), answer("direct"), time.Hour)
		s.finds(keyOf("chat", 1), answer("{\n}"))
		s.finds(keyOf("chat", 2), answer(""))
		s.finds(keyOf("", 1), answer("direct"))
		s.finds(keyOf("other", 1))
		s.keeps(keyOf("chat", 1), answer("newer"), time.Hour)
		s.finds(keyOf("chat", 1), answer("newer"))

		s.keeps(keyOf("chat", 3), answer("short"), time.Millisecond)
		gone := time.After(20 * time.Millisecond)
		<-gone
		s.finds(keyOf("chat", 3))
	})
}

func TestLargeAnswersAreKeptInPieces(t *testing.T) {
	eachStore(t, func(t *testing.T, c cache.Cache) {
		s := setup(t, c)
		for i, size := range []int{256<<10 - 1, 256 << 10, 256<<10 + 1, 3 << 20} {
			body := bytes.Repeat([]byte(fmt.Sprint(i)), size)
			want := answer(string(body[:size]))
			s.keeps(keyOf("chat", byte(i)), want, time.Hour)
			s.finds(keyOf("chat", byte(i)), want)
		}
		s.clears("chat", 4)
		for i := range 4 {
			s.finds(keyOf("chat", byte(i)))
		}
	})
}

func TestClearSaysHowManyThereWere(t *testing.T) {
	eachStore(t, func(t *testing.T, c cache.Cache) {
		s := setup(t, c)
		odd := "a{b}%7B é"
		for i := range 250 {
			s.keeps(keyOf("chat", byte(i)), answer("x"), time.Hour)
		}
		s.keeps(keyOf("chat", 1), answer("again"), 10*time.Hour) // on two shelves now
		s.keeps(keyOf(odd, 1), answer("x"), 29*24*time.Hour)
		s.keeps(keyOf("", 1), answer("x"), time.Hour)
		s.clears("nothing", 0)
		s.clears("chat", 250)
		s.clears("chat", 0)
		s.finds(keyOf("chat", 1))
		s.finds(keyOf(odd, 1), answer("x"))
		s.clears(odd, 1)
		s.clears("", 1)
	})
}

// What was asked for before a clearing cannot bring back what it took away, nor
// leave pieces behind.
func TestWhatIsUnderWayIsNotKeptAfterAClear(t *testing.T) {
	eachStore(t, func(t *testing.T, c cache.Cache) {
		s := setup(t, c)
		late, other := answer(strings.Repeat("x", 600<<10)), answer("y")
		late.Asked, other.Asked = time.Now(), time.Now()
		s.clears("chat", 0)
		s.keeps(keyOf("chat", 1), late, time.Hour)
		s.finds(keyOf("chat", 1))
		s.keeps(keyOf("other", 1), other, time.Hour)
		s.finds(keyOf("other", 1), answer("y"))
		s.clears("chat", 0)

		soon := time.After(1100 * time.Millisecond)
		<-soon
		s.keeps(keyOf("chat", 1), answer("z"), time.Hour)
		s.finds(keyOf("chat", 1), answer("z"))
		s.clears("chat", 1)
		s.finds(keyOf("chat", 1))
	})
}

func TestEveryKeyExpires(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := setup(t, openRedis(t, server, unhurried))
	s.keeps(keyOf("chat", 1), answer(strings.Repeat("x", 600<<10)), time.Minute)
	s.keeps(keyOf("chat", 2), answer("x"), 2*time.Hour)
	keys := server.Keys()
	if len(keys) < 5 { // two entries, two pieces, at least one shelf
		t.Errorf("keys %q", keys)
	}
	for _, key := range keys {
		if ttl := server.TTL(key); ttl <= 0 || ttl > 5*time.Hour {
			t.Errorf("%s lives %v", key, ttl)
		}
	}
}

// Nothing is found and nothing is kept while the cache is away, at the price of
// its time-out.
func TestACacheThatIsAwayIsAMiss(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*redistest.Server){"killed": (*redistest.Server).Kill, "frozen": (*redistest.Server).Freeze} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s := setup(t, openRedis(t, server, time.Second))
			s.keeps(keyOf("chat", 1), answer("x"), time.Hour)
			away(server)
			if name == "frozen" {
				t.Cleanup(server.Thaw)
			}
			s.finds(keyOf("chat", 1))
			s.keeps(keyOf("chat", 2), answer("y"), time.Hour)
			if n, err := s.Clear(t.Context(), "chat"); err == nil || n != 0 {
				t.Errorf("cleared %d (%v), want an error", n, err)
			}
		})
	}
}

// A stopped store keeps nothing, and says so to whoever waits.
func TestStopWaitsForWhatIsBeingWritten(t *testing.T) {
	t.Parallel()
	c := cache.NewMemory(cache.MemoryConfig{})
	defer func() { _ = c.Close() }()
	s := setup(t, c)
	s.Keep(keyOf("chat", 1), answer("x"), time.Hour, func() {})
	for range 2 {
		if err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.finds(keyOf("chat", 1), answer("x"))
	s.keeps(keyOf("chat", 2), answer("y"), time.Hour)
	s.finds(keyOf("chat", 2))
}

func BenchmarkFind(b *testing.B) {
	c := cache.NewMemory(cache.MemoryConfig{})
	defer func() { _ = c.Close() }()
	s := responses.New(c)
	kept := make(chan struct{})
	s.Keep(keyOf("chat", 1), answer(strings.Repeat("x", 2<<10)), time.Hour, func() { close(kept) })
	<-kept
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := s.Find(b.Context(), keyOf("chat", 1)); !ok {
			b.Fatal("not found")
		}
	}
	_ = s.Stop(b.Context())
}
