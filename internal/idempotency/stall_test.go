package idempotency_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/idempotency"
)

// stalling is a cache that does not answer until a moment.
type stalling struct {
	cache.Cache
	until time.Time
}

func (s *stalling) Run(ctx context.Context, script *cache.Script, keys []string, args ...string) ([]string, error) {
	if time.Now().Before(s.until) {
		return nil, cache.ErrUnavailable
	}
	return s.Cache.Run(ctx, script, keys, args...)
}

func TestAServerThatStallsIsWaitedForAndOneThatIsAwayIsNot(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stall, idle time.Duration // how long it stalls, and until the claim that is measured
		gets        bool
		most        time.Duration
	}{
		"a moment":             {stall: 180 * time.Millisecond, gets: true, most: 190 * time.Millisecond},
		"longer than patience": {stall: time.Hour, most: 270 * time.Millisecond},
		"away":                 {stall: time.Hour, idle: 2 * time.Second, most: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				memory := cache.NewMemory(cache.MemoryConfig{})
				defer memory.Close()
				store := idempotency.New(idempotency.Config{}, &stalling{Cache: memory, until: time.Now().Add(tt.stall)})
				asker := idempotency.Asker{Name: "n", Print: "p", Token: "t"}
				if tt.idle > 0 {
					_, _ = store.Claim(t.Context(), asker, "", false)
					time.Sleep(tt.idle)
				}
				began := time.Now()
				claim, err := store.Claim(t.Context(), asker, "", false)
				if took := time.Since(began); took > tt.most {
					t.Errorf("a claim took %s, want at most %s", took, tt.most)
				}
				if got := err == nil && claim.State == idempotency.Owned; got != tt.gets || err != nil && !errors.Is(err, cache.ErrUnavailable) {
					t.Errorf("claim %q, error %v; want the key: %v", claim.State, err, tt.gets)
				}
			})
		})
	}
}
