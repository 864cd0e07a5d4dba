package breaker_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/cache"
)

// full is a store that answers who asks and writes nothing for anybody.
type full struct {
	breaker.Store
	room atomic.Bool
}

func (f *full) RunAll(ctx context.Context, runs []cache.Run) []cache.Result {
	results := make([]cache.Result, len(runs))
	for i, run := range runs {
		asks := len(run.Args) == 0 || run.Args[0] == "sync" && len(run.Args[7]) == 0
		if f.room.Load() || asks {
			results[i] = f.Store.RunAll(ctx, runs[i:i+1])[0]
			continue
		}
		results[i].Err = fmt.Errorf("script %s: %w: OOM", run.Script.Name, cache.ErrRefused)
	}
	return results
}

// A store that refuses to write is as good as away, from its first refusal to
// the first time that it obeys; it is said once.
func TestAStoreThatRefusesLeavesTheReplicaAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := cache.NewMemory(cache.MemoryConfig{})
		defer memory.Close()
		store := &full{Store: memory}
		var told, said []string
		r := breaker.New(breaker.Config{
			Settings: always(with(func(s *breaker.Settings) {
				s.FailureThreshold, s.Store, s.Cooldown, s.MaxCooldown = 1, breaker.Cached, time.Hour, time.Hour
			})),
			Store: store, OnEvent: func(e breaker.Event) { told = append(told, e.To.String()) },
			OnStoreRefuses: func(error) { said = append(said, "refuses") },
			OnStoreBack:    func() { said = append(said, "back") },
		})
		r.Start()
		t.Cleanup(func() { _ = r.Stop(context.Background()) })
		state := func(want breaker.State, degraded bool) {
			t.Helper()
			s, _ := r.Circuit(key)
			if shared, _ := r.Shared(); s.State != want || shared.Degraded != degraded {
				t.Errorf("the circuit is %v and the store away: %v, want %v and %v", s.State, shared.Degraded, want, degraded)
			}
		}

		wait(time.Second)
		state2, _ := r.Shared()
		if state2.Degraded {
			t.Error("a store that was not told anything yet is away")
		}
		_ = r.Do(key, func(*breaker.Permit) breaker.Outcome { return outcome('F') })
		wait(10 * time.Second)
		state(breaker.Open, true)
		if diff := cmp.Diff([]string{"open"}, told); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}

		store.room.Store(true)
		wait(3 * time.Second)
		if shared, _ := r.Shared(); shared.Degraded {
			t.Error("a store that obeys again is away")
		}
		_ = r.Do(key, func(*breaker.Permit) breaker.Outcome { return outcome('F') })
		wait(time.Second)
		state(breaker.Open, false)
		if diff := cmp.Diff([]string{"refuses", "back"}, said); diff != "" {
			t.Errorf("what was said of the store (-want +got):\n%s", diff)
		}
	})
}
