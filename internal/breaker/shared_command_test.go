package breaker_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/cache"
)

// tripping is a store that does not answer the next so many round trips.
type tripping struct {
	breaker.Store
	misses atomic.Int64
}

func (s *tripping) RunAll(ctx context.Context, runs []cache.Run) []cache.Result {
	if s.misses.Add(-1) >= 0 {
		return answering(nil, errors.New("it does not answer"))(ctx, runs)
	}
	return s.Store.RunAll(ctx, runs)
}

// A person's word that the store could not be told at once is told to it later,
// and to everybody once, whether the store failed once or was away.
func TestWordThatTheStoreMissedIsNotLost(t *testing.T) {
	t.Parallel()
	for name, misses := range map[string]int64{"one miss": 1, "away": 1 << 40} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &tripping{}
			var told atomic.Pointer[[]string]
			told.Store(new([]string))
			c := gather(t, 2, sharedWith(nil), func(cfg *breaker.Config) {
				if s.Store == nil { // the first replica
					s.Store = cfg.Store
					cfg.Store = s
					cfg.OnEvent = func(e breaker.Event) {
						told.Store(new(append(slices.Clone(*told.Load()), e.From.String()+" "+e.To.String()+" "+e.Actor)))
					}
				}
			})
			a, b := c.nodes[0], c.nodes[1]
			b.play("S")
			c.ask() // there is a record, which says closed
			s.misses.Store(misses)
			if misses > 1 {
				for range 3 {
					breaker.Beat(a.Registry)
				}
			}
			if err := a.step("!open(10m)"); err != nil {
				t.Fatal(err)
			}
			if err := a.step("forced_open"); err != nil {
				t.Fatal(err)
			}
			a.advance(2 * time.Second)
			s.misses.Store(0)
			c.beat()
			c.same(key)
			c.all("forced_open x")
			left := time.Until(b.snapshot().Until).Round(time.Second)
			if want := 10*time.Minute - 2*time.Second; left < want-time.Second || left > want+time.Second {
				t.Errorf("it lasts %v more, want %v", left, want)
			}
			a.Start()
			if err := a.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"closed forced_open ann"}, *told.Load()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}
