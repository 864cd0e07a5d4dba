package breaker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/cache"
)

// A replica that nobody has called for long, or ever, knows of the circuits that
// it keeps what the others find; one that keeps none lets a first call pass.
func TestKeptCircuitsAreKnownBeforeTheFirstCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := cache.NewMemory(cache.MemoryConfig{})
		defer memory.Close()
		replica := func(keep ...string) *breaker.Registry {
			r := breaker.New(breaker.Config{
				Settings: always(with(func(s *breaker.Settings) {
					s.FailureThreshold, s.Store, s.Cooldown, s.MaxCooldown = 1, breaker.Cached, time.Hour, time.Hour
				})),
				Store: memory,
			})
			r.Keep(keep)
			r.Start()
			t.Cleanup(func() { _ = r.Stop(context.Background()) })
			return r
		}
		busy, idle, unaware := replica(), replica("other", key), replica()
		wait(time.Hour) // longer than idle circuits are kept
		_ = busy.Do(key, func(*breaker.Permit) breaker.Outcome { return outcome('F') })
		wait(time.Second)

		if s, ok := idle.Circuit(key); !ok || s.State != breaker.Open {
			t.Errorf("the idle replica shows %v (known: %v), want open", s.State, ok)
		}
		if err := idle.Acquire(key, &breaker.Permit{}); err == nil {
			t.Error("the idle replica admits a call to what another has found sick")
		}
		if _, ok := unaware.Circuit(key); ok {
			t.Error("a replica knows a circuit that it was never told to keep")
		}

		idle.Keep([]string{key})
		wait(time.Hour)
		if _, ok := idle.Circuit("other"); ok {
			t.Error("an idle circuit that is kept no more is still there")
		}
	})
}

// wait lets the clock of a test's bubble go on.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
