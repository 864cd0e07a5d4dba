package breaker_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/cache"
)

// everywhere holds a behaviour to every way of keeping a circuit: here alone, or
// shared, in the store of this process and on a real server.
func everywhere(t *testing.T, s breaker.Settings, behave func(g *rig)) {
	t.Helper()
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		behave(setup(t, s))
	})
	for name, store := range map[string]func(*testing.T) breaker.Store{"memory": memory} {
		for mode, name := range map[breaker.Mode]string{breaker.Strict: name + " strict", breaker.Cached: name + " cached"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := s
				s.Store = mode
				behave(setupOn(t, s, store(t)))
			})
		}
	}
}

func memory(t *testing.T) breaker.Store {
	t.Helper()
	m := cache.NewMemory(cache.MemoryConfig{})
	t.Cleanup(func() { m.Close() })
	return m
}

// apart keeps the circuits of one test apart from those of others on one store.
type apart struct {
	breaker.Store
	name string
}

var aparts atomic.Int64

func (a apart) RunAll(ctx context.Context, runs []cache.Run) []cache.Result {
	for i, run := range runs {
		keys := make([]string, len(run.Keys))
		for k, key := range run.Keys {
			tag, rest, _ := strings.Cut(key, "}:")
			keys[k] = tag + "}:" + a.name + ":" + rest
		}
		runs[i].Keys = keys
	}
	return a.Store.RunAll(ctx, runs)
}
