// Package cachetest is the suite that every implementation of cache.Cache
// passes. It knows none of them.
package cachetest

import (
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/google/go-cmp/cmp"
)

// lifetime is longer than any test: what is written with it stays.
const lifetime = 10 * time.Minute

// Open returns an empty cache that ends with the test.
type Open func(t testing.TB) cache.Cache

// Run runs the whole suite.
func Run(t *testing.T, open Open) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, cache.Cache){
		"values come back byte by byte":              values,
		"values belong to whoever holds them":        ownership,
		"an absent key is not found":                 absent,
		"add writes only what is absent":             add,
		"compare and swap writes over the equal":     compareAndSwap,
		"keys expire":                                expiry,
		"a key without an end is refused":            noTTL,
		"an ended context ends a call":               endedContext,
		"a closed cache is unavailable":              closed,
		"one of many adds wins":                      addRace,
		"no swap is lost":                            swapRace,
		"scripts are atomic":                         scriptRace,
		"scripts do what Lua does":                   scripts,
		"scripts carry any bytes":                    binaryScripts,
		"a script's error is the script's":           scriptErrors,
		"bytes and hashes are kept apart":            kinds,
		"keys of one call share a slot":              slots,
		"one failed run holds no other back":         runAll,
		"runs keep their order":                      runAllOrder,
		"watches hear what scripts publish":          watch,
		"a watch that hears slowly holds nobody up":  slowWatch,
		"a watch ends with its context or its cache": watchEnds,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func mustSet(t *testing.T, c cache.Cache, key, value string, ttl time.Duration) {
	t.Helper()
	if err := c.Set(t.Context(), key, []byte(value), ttl); err != nil {
		t.Fatalf("set %q: %v", key, err)
	}
}

func mustRun(t *testing.T, c cache.Cache, s *cache.Script, keys []string, args ...string) []string {
	t.Helper()
	values, err := c.Run(t.Context(), s, keys, args...)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func wantValue(t *testing.T, c cache.Cache, key, want string) {
	t.Helper()
	got, err := c.Get(t.Context(), key)
	if err != nil || string(got) != want {
		t.Errorf("value of %q: got %q, %v, want %q", key, got, err, want)
	}
}

func wantReply(t *testing.T, got []string, want ...string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reply (-want +got):\n%s", diff)
	}
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}
