package cache_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

// ticker is a clock that stands still between the steps of a test.
type ticker struct {
	mu  sync.Mutex
	now time.Time
}

func (c *ticker) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *ticker) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func held(t *testing.T, m *cache.Memory, key string) bool {
	t.Helper()
	_, err := m.Get(t.Context(), key)
	if err != nil && !errors.Is(err, cache.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

func TestMemoryForgetsToTheMillisecond(t *testing.T) {
	t.Parallel()
	clock := &ticker{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	m := openMemory(t, cache.MemoryConfig{Now: clock.Now})
	for key, ttl := range map[string]time.Duration{"whole": time.Second, "fraction": 999*time.Millisecond + 1} {
		if err := m.Set(t.Context(), key, nil, ttl); err != nil {
			t.Fatal(err)
		}
		clock.pass(0)
	}

	clock.pass(time.Second - 1)
	for _, key := range []string{"whole", "fraction"} {
		if !held(t, m, key) {
			t.Errorf("%s is gone a nanosecond early", key)
		}
	}
	clock.pass(1)
	for _, key := range []string{"whole", "fraction"} {
		if held(t, m, key) {
			t.Errorf("%s is still there at the end of its time", key)
		}
	}
}

func TestMemoryHashKeepsTheLongestLife(t *testing.T) {
	t.Parallel()
	clock := &ticker{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	m := openMemory(t, cache.MemoryConfig{Now: clock.Now})
	write := func(ttl time.Duration) {
		t.Helper()
		program := []string{"hash_set", "1", "f", "v", strconv.FormatInt(ttl.Milliseconds(), 10)}
		if _, err := m.Run(t.Context(), machine, []string{"h"}, program...); err != nil {
			t.Fatal(err)
		}
	}
	wantTTL := func(want time.Duration) {
		t.Helper()
		if got := m.TTL("h"); got != want {
			t.Errorf("time to live: got %v, want %v", got, want)
		}
	}

	write(time.Minute)
	write(time.Second)
	wantTTL(time.Minute)
	write(time.Hour)
	wantTTL(time.Hour)
	clock.pass(time.Hour)
	wantTTL(0)
	write(time.Second)
	wantTTL(time.Second)
}

func TestMemoryFollowsTheClockOfABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := openMemory(t, cache.MemoryConfig{})
		if err := m.Set(t.Context(), "k", nil, 24*time.Hour); err != nil {
			t.Fatal(err)
		}
		<-time.After(24*time.Hour - 1)
		before := held(t, m, "k")
		<-time.After(1)
		if after := held(t, m, "k"); !before || after {
			t.Errorf("held a nanosecond before the end: %v, at the end: %v", before, after)
		}
	})
}

func TestMemoryStaysWithinItsBound(t *testing.T) {
	t.Parallel()
	const bound = 1 << 20
	m := openMemory(t, cache.MemoryConfig{MaxBytes: bound})
	for i := range 4000 {
		key := fmt.Sprint("bytes ", i)
		if err := m.Set(t.Context(), key, make([]byte, 1000), time.Hour); err != nil {
			t.Fatal(err)
		}
		program := []string{"hash_set", "1", fmt.Sprint("field ", i), strings.Repeat("v", 1000), "3600000"}
		if _, err := m.Run(t.Context(), machine, []string{fmt.Sprint("hash ", i%100)}, program...); err != nil {
			t.Fatal(err)
		}
	}
	if got := m.Weight(); got > bound || got < bound/2 {
		t.Errorf("weight after 8 MB of writes: got %d, want up to %d and not much less", got, bound)
	}
}

func TestMemoryLetsGoOfWhatExpired(t *testing.T) {
	t.Parallel()
	clock := &ticker{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	m := openMemory(t, cache.MemoryConfig{Now: clock.Now})
	for i := range 100 {
		if err := m.Set(t.Context(), fmt.Sprint(i), make([]byte, 1000), time.Second); err != nil {
			t.Fatal(err)
		}
	}
	full := m.Weight()
	clock.pass(time.Hour)
	if got := m.Weight(); full < 100_000 || got != 0 {
		t.Errorf("weight: got %d with a hundred entries and %d after the end of their time, want 0", full, got)
	}
}

func TestMemoryRefusesWhatAServerWould(t *testing.T) {
	t.Parallel()
	for name, misuse := range map[string]func(cache.Tx){
		"an undeclared key":  func(tx cache.Tx) { tx.Get("{k}other") },
		"an undeclared hash": func(tx cache.Tx) { tx.HashAll("{k}other") },
		"a write elsewhere":  func(tx cache.Tx) { tx.Set("{k}other", "", time.Second) },
		"a delete elsewhere": func(tx cache.Tx) { tx.Delete("{k}other") },
		"no end":             func(tx cache.Tx) { tx.Set("{k}", "", 0) },
		"a hash without end": func(tx cache.Tx) { tx.HashSet("{k}", "f", "", -time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := openMemory(t, cache.MemoryConfig{})
			s := &cache.Script{Name: "misuse", Go: func(tx cache.Tx, _, _ []string) ([]string, error) {
				misuse(tx)
				return []string{"done"}, nil
			}}
			if got, err := m.Run(t.Context(), s, []string{"{k}"}); err == nil || got != nil {
				t.Errorf("got %q, %v, want an error", got, err)
			}
		})
	}
}

func TestMemoryScriptWithoutGoIsRefused(t *testing.T) {
	t.Parallel()
	m := openMemory(t, cache.MemoryConfig{})
	if _, err := m.Run(t.Context(), &cache.Script{Name: "lua only", Lua: "return {}"}, []string{"k"}); err == nil {
		t.Error("got no error")
	}
}

// A script that panics must not leave its keys locked.
func TestMemoryPanicOfAScriptPassesOn(t *testing.T) {
	t.Parallel()
	m := openMemory(t, cache.MemoryConfig{})
	broken := &cache.Script{Name: "broken", Go: func(cache.Tx, []string, []string) ([]string, error) { panic("broken") }}
	func() {
		defer func() {
			if got := recover(); got != "broken" {
				t.Errorf("recovered %v, want the script's panic", got)
			}
		}()
		_, _ = m.Run(t.Context(), broken, []string{"k"})
	}()
	if err := m.Set(t.Context(), "k", nil, time.Second); err != nil {
		t.Error(err)
	}
}
