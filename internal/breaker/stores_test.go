package breaker_test

import (
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// stores are those that a table of behaviours is held to.
type stores struct{ server *cache.Valkey }

func newStores(t *testing.T) stores {
	t.Helper()
	server, err := cache.OpenValkey(redistest.Start(t).URL(), cache.ValkeyConfig{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return stores{server}
}

// everywhere holds a behaviour to every way of keeping a circuit: here alone, or
// shared, in the store of this process and on a real server.
func everywhere(t *testing.T, on stores, s breaker.Settings, behave func(g *rig)) {
	t.Helper()
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		behave(setup(t, s))
	})
	memory := cache.NewMemory(cache.MemoryConfig{})
	t.Cleanup(func() { memory.Close() })
	for name, store := range map[string]breaker.Store{"memory": memory, "server": on.server} {
		for mode, how := range map[breaker.Mode]string{breaker.Strict: "strict", breaker.Cached: "cached"} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				s := s
				s.Store = mode
				behave(setupOn(t, s, breaker.Apart(store)))
			})
		}
	}
}
