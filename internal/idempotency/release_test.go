package idempotency_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/idempotency"
)

// late is a cache that does not answer until a moment, and carries out then, or
// later still, what it was asked first.
type late struct {
	cache.Cache
	until time.Time
	after time.Duration

	mu    sync.Mutex
	held  bool
	asked int
}

func (l *late) Run(ctx context.Context, script *cache.Script, keys []string, args ...string) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if !time.Now().Before(l.until) {
		return l.Cache.Run(ctx, script, keys, args...)
	}
	if !l.held {
		l.held = true
		time.AfterFunc(time.Until(l.until)+l.after, func() { _, _ = l.Cache.Run(context.Background(), script, keys, args...) })
	}
	return nil, cache.ErrUnavailable
}

// A claim of which nobody heard is carried out late. It is let go, and no other.
func TestAClaimThatIsCarriedOutLateIsLetGo(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stall, after time.Duration // until the store answers, and until it carries out the claim
		between      bool          // another owner has come before that
		free         time.Duration // when the key is another call's to have
	}{
		"as the store answers":       {stall: 5 * time.Second, free: 5*time.Second + 200*time.Millisecond},
		"a little later":             {stall: 5 * time.Second, after: 500 * time.Millisecond, free: 6*time.Second + 200*time.Millisecond},
		"after another one's":        {stall: 5 * time.Second, after: 500 * time.Millisecond, between: true, free: time.Minute},
		"when the lease is over":     {stall: 29 * time.Second, free: 29*time.Second + 200*time.Millisecond},
		"too late to be waited for":  {stall: 40 * time.Second, free: 71 * time.Second},
		"while the store is stopped": {stall: 5 * time.Second, free: 36 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				memory := cache.NewMemory(cache.MemoryConfig{})
				defer memory.Close()
				began := time.Now()
				store := idempotency.New(idempotency.Config{}, &late{Cache: memory, until: began.Add(tt.stall), after: tt.after})
				store.Start()
				defer store.Stop(context.Background())
				claim, err := store.Claim(t.Context(), caller("lost"), "", false)
				if err == nil || !claim.Unsure {
					t.Fatalf("the claim is %+v, %v; want unsure, and an error", claim, err)
				}
				store.LetGo(caller("lost"))
				if name == "while the store is stopped" {
					_ = store.Stop(context.Background())
				}

				there := idempotency.New(idempotency.Config{}, memory)
				if tt.between {
					_, _ = there.Claim(t.Context(), caller("between"), "", false)
					time.Sleep(10 * time.Second)
					if claim, err := there.Claim(t.Context(), caller("x"), "", false); err != nil || claim.State != idempotency.Running || claim.Token != "between" {
						t.Errorf("the key of another call stands at %+v, %v", claim, err)
					}
					return
				}
				time.Sleep(time.Until(began.Add(tt.stall + tt.after + time.Millisecond)))
				for {
					claim, err := there.Claim(t.Context(), caller("next"), "", false)
					if err != nil {
						t.Fatal(err)
					}
					if claim.State == idempotency.Owned || claim.State == idempotency.Taken {
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
				if took := time.Since(began); took > tt.free {
					t.Errorf("the key was free after %v, want %v", took, tt.free)
				}
			})
		})
	}
}

// A store that is away is asked for one key at a time, however many wait to be let
// go, and of those there are not too many.
func TestManyClaimsAreLetGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := cache.NewMemory(cache.MemoryConfig{})
		defer memory.Close()
		away := &late{Cache: memory, until: time.Now().Add(10 * time.Second)}
		store := idempotency.New(idempotency.Config{}, away)
		store.Start()
		defer store.Stop(context.Background())
		for i := range 5000 {
			name := fmt.Sprint(i)
			store.LetGo(idempotency.Asker{Name: name, Print: "x", Token: name})
		}
		time.Sleep(10*time.Second - time.Millisecond)
		away.mu.Lock()
		if away.asked > 100 {
			t.Errorf("a store that is away was asked %d times in 10 s, want 100", away.asked)
		}
		away.asked = 0
		away.mu.Unlock()
		time.Sleep(time.Minute)
		away.mu.Lock()
		defer away.mu.Unlock()
		if most := 2 * 1024; away.asked < 1024 || away.asked > most {
			t.Errorf("asked %d times of 5000 keys, want 1024 of them twice at most", away.asked)
		}
	})
}
