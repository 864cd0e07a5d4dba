package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCircuitsAreSharedWhereThereIsACache(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ url, store, want string }{
		{"", "", StoreLocal},
		{"redis://localhost", "", StoreCached},
		{"redis://localhost", StoreLocal, StoreLocal},
		{"redis://localhost", StoreStrict, StoreStrict},
	} {
		c := Config{Cache: Cache{URL: NewSecret(row.url)}}
		if got := c.CircuitStore(CircuitBreaker{Store: row.store}); got != row.want {
			t.Errorf("url %q and store %q: got %s, want %s", row.url, row.store, got, row.want)
		}
	}
}

func TestCacheURLIsHeldToWhatCanBeRead(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{
		"redis://host":                              true,
		"rediss://:pass@host:6380/0":                true,
		"valkey://user:p%40ss@10.0.0.1:7000/15":     true,
		"valkeys://[::1]:6379/":                     true,
		"redis://a:1?addr=b:2&addr=c":               true,
		"host:6379":                                 false,
		"redis://":                                  false,
		"redis://user@:6379":                        false,
		"redis://host:0":                            false,
		"redis://host:70000":                        false,
		"redis://host/cache":                        false,
		"redis://host/-1":                           false,
		"redis://host?db=1":                         false,
		"redis://host?addr=":                        false,
		"redis://host?addr=other:0":                 false,
		"redis://user:pa/ss@host":                   false,
		"redis://user:1/2@host":                     false,
		"redis://user:1#2@host":                     false,
		"redis://a?addr=user:pass@b:1":              false,
		"unix:///run/redis.sock":                    false,
		"postgres://user:password@host:5432/breaks": false,
	} {
		if got := isCacheURL(url); got != want {
			t.Errorf("%s: got %v, want %v", url, got, want)
		}
	}
}

// A cache that is named while the process runs is there after a restart, and
// until then no circuit may be told to live in it.
func TestAdoptKeepsCircuitsLocalUntilTheCacheIsThere(t *testing.T) {
	t.Parallel()
	running := written(t, `
database: {private: true}
circuit_breaker: {store: local}
breaker_profiles: {dear: {cooldown: 2s}}`)
	next := written(t, `
database: {private: true}
cache: {url: "redis://host", timeout: 5ms, max_memory: 1MiB}
circuit_breaker: {store: strict, failure_threshold: 9}
breaker_profiles: {dear: {cooldown: 3s, store: cached}}
breakers: [{match: alpha/m1/default, store: strict, cooldown: 4s}]`)

	adopted, waiting := running.Adopt(next)

	want := []string{"cache.url", "cache.timeout", "cache.max_memory", "circuit_breaker.store", "breaker_profiles.dear.store", "breakers[0].store"}
	if diff := cmp.Diff(want, waiting); diff != "" {
		t.Errorf("keys that need a restart (-want +got):\n%s", diff)
	}
	mixed := written(t, `
database: {private: true}
circuit_breaker: {store: local, failure_threshold: 9}
breaker_profiles: {dear: {cooldown: 3s}}
breakers: [{match: alpha/m1/default, cooldown: 4s}]`)
	if !adopted.Equal(mixed) {
		t.Errorf("adopted %+v\nwant %+v", adopted, mixed)
	}
	if err := adopted.Validate(); err != nil {
		t.Errorf("what was adopted is not valid: %v", err)
	}
	if *next.BreakerProfiles["dear"].Store != "cached" || *next.Breakers[0].Store != "strict" {
		t.Error("Adopt changed what was read")
	}
}

// Where the cache is there, a reload moves circuits as it is told.
func TestAdoptTakesStoresOverWhileTheCacheStays(t *testing.T) {
	t.Parallel()
	running := written(t, "database: {private: true}\ncache: {url: \"redis://host\"}")
	next := written(t, "database: {private: true}\ncache: {url: \"redis://host\"}\ncircuit_breaker: {store: strict}")
	if adopted, waiting := running.Adopt(next); waiting != nil || !adopted.Equal(next) {
		t.Errorf("%v wait for a restart, adopted %+v", waiting, adopted)
	}
}
