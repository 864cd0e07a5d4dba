package cache_test

import (
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/cachetest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// unhurried is a call's time where a test is not about time: a loaded machine
// must not fail it.
const unhurried = 5 * time.Second

func TestMemory(t *testing.T) {
	t.Parallel()
	cachetest.Run(t, func(t testing.TB) cache.Cache { return openMemory(t, cache.MemoryConfig{}) })
}

func TestValkey(t *testing.T) {
	t.Parallel()
	cachetest.Run(t, func(t testing.TB) cache.Cache { return open(t, redistest.Start(t).URL(), unhurried) })
}

func open(t testing.TB, url string, timeout time.Duration) *cache.Valkey {
	t.Helper()
	v, err := cache.OpenValkey(url, cache.ValkeyConfig{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeCache(t, v) })
	return v
}

func openMemory(t testing.TB, cfg cache.MemoryConfig) *cache.Memory {
	t.Helper()
	m := cache.NewMemory(cfg)
	t.Cleanup(func() { closeCache(t, m) })
	return m
}

func closeCache(t testing.TB, c cache.Cache) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}
