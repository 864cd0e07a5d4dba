package cache_test

import (
	"sync"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/cachetest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/leaktest"
	"go.uber.org/goleak"
)

// A cluster's client looks again for nodes up to a second after it lost one;
// that look cannot be called off, and finds the client closed.
func TestMain(m *testing.M) {
	leaktest.Main(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

// unhurried is a call's time where a test is not about time: a loaded machine
// must not fail it.
const unhurried = time.Minute

func TestMemory(t *testing.T) {
	t.Parallel()
	cachetest.Run(t, func(t testing.TB) cache.Cache { return openMemory(t, cache.MemoryConfig{}) })
}

func TestValkey(t *testing.T) {
	t.Parallel()
	cachetest.Run(t, inTurn(redistest.Start(t)))
}

// Without HELLO the client falls back to the old protocol, which needs a
// connection of its own for watches.
func TestValkeyWithoutRESP3(t *testing.T) {
	t.Parallel()
	cachetest.Run(t, inTurn(redistest.Start(t, "--rename-command", "HELLO", "")))
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cachetest.Run(t, inTurn(startCluster(t, 1)[0]))
}

// inTurn lends one server to one test after the other, empty.
func inTurn(s *redistest.Server) cachetest.Open {
	var turn sync.Mutex
	return func(t testing.TB) cache.Cache {
		turn.Lock()
		t.Cleanup(turn.Unlock)
		s.FlushAll()
		return openOn(t, s)
	}
}

// openOn opens the server's cache, and checks in the end that every key that
// was left on it expires.
func openOn(t testing.TB, s *redistest.Server) *cache.Valkey {
	t.Helper()
	v := reach(t, s.URL(), cache.ValkeyConfig{Timeout: unhurried})
	t.Cleanup(func() {
		for _, key := range s.Keys() {
			// A key may expire between the two questions.
			if ttl := s.TTL(key); ttl == -time.Millisecond {
				t.Errorf("key %q stays for ever", key)
			}
		}
	})
	return v
}

func open(t testing.TB, url string, cfg cache.ValkeyConfig) *cache.Valkey {
	t.Helper()
	v, err := cache.OpenValkey(url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeCache(t, v) })
	return v
}

// reach is open for a server that is there, which a busy machine may find later
// than an opening waits.
func reach(t testing.TB, url string, cfg cache.ValkeyConfig) *cache.Valkey {
	t.Helper()
	v := open(t, url, cfg)
	eventually(t, "the server is reached", v.Available)
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
