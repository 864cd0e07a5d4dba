package breaker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/cache"
)

// How a store may fail a replica.
const (
	well    int32 = iota
	deaf          // it is not reached
	mumbles       // it does as it is told, and the answer is lost
)

// frail is a store that fails when it is told to.
type frail struct {
	breaker.Store
	now atomic.Int32
}

func (f *frail) RunAll(ctx context.Context, runs []cache.Run) []cache.Result {
	how := f.now.Load()
	var results []cache.Result
	if how != deaf {
		results = f.Store.RunAll(ctx, runs)
	}
	if how == well {
		return results
	}
	lost := make([]cache.Result, len(runs))
	for i := range lost {
		lost[i].Err = errors.New("the answer is lost")
	}
	return lost
}

// A person's word is told once and ends up at every replica, also when the store
// was not reached or its answer was lost, for a moment or for long. What a
// store that was away remembers does not undo it.
func TestAWordThatTheStoreDoesNotAnswerHolds(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]int32{"deaf": deaf, "mumbles": mumbles} {
		for long, away := range map[string]time.Duration{"for a moment": 0, "for long": 10 * time.Second} {
			t.Run(name+" "+long, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { unansweredWord(t, how, away) })
			})
		}
	}
}

func unansweredWord(t *testing.T, how int32, away time.Duration) {
	memory := cache.NewMemory(cache.MemoryConfig{})
	defer memory.Close()
	store := &frail{Store: memory}
	var told []string
	replica := func(s breaker.Store, hook func(breaker.Event)) *breaker.Registry {
		r := breaker.New(breaker.Config{
			Settings: always(with(func(s *breaker.Settings) { s.Store = breaker.Cached })),
			Store:    s, OnEvent: hook,
		})
		r.Keep([]string{key})
		r.Start()
		t.Cleanup(func() { _ = r.Stop(context.Background()) })
		return r
	}
	one := replica(store, func(e breaker.Event) { told = append(told, e.From.String()+" "+e.To.String()) })
	two := replica(memory, nil)
	state := func(r *breaker.Registry) string {
		s, _ := r.Circuit(key)
		return s.State.String()
	}
	say := func(a breaker.Action, want string) {
		t.Helper()
		store.now.Store(how)
		wait(away)
		if s, err := one.Command(context.Background(), key, breaker.Command{Action: a, Note: "why"}); err != nil || s.State.String() != want {
			t.Errorf("%s: %v %v", a, s.State, err)
		}
		wait(away)
		if got := state(one); got != want {
			t.Errorf("%s, while the store does not answer: %s here", a, got)
		}
		store.now.Store(well)
		wait(5 * time.Second)
		if diff := cmp.Diff([]string{want, want}, []string{state(one), state(two)}); diff != "" {
			t.Errorf("%s, when it answers again, here and there (-want +got):\n%s", a, diff)
		}
	}

	say(breaker.ActionOpen, "forced_open")
	say(breaker.ActionReset, "closed")
	say(breaker.ActionShadow, "shadow")
	say(breaker.ActionClose, "closed")
	want := []string{"closed forced_open", "forced_open closed", "closed shadow", "shadow closed"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
