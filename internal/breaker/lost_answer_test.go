package breaker_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/cache"
)

// hardOfHearing is a store whose next answers are lost, though it has done what was asked.
type hardOfHearing struct {
	breaker.Store
	losing bool
}

func (d *hardOfHearing) RunAll(ctx context.Context, runs []cache.Run) []cache.Result {
	results := d.Store.RunAll(ctx, runs)
	for i := range results {
		if d.losing {
			results[i] = cache.Result{Err: cache.ErrUnavailable}
		}
	}
	return results
}

func setupHardOfHearing(t *testing.T, store *hardOfHearing, change func(*breaker.Settings)) *rig {
	t.Helper()
	s := with(change)
	s.Store = breaker.Cached
	return setupOn(t, s, store)
}

func newHardOfHearing(t *testing.T) *hardOfHearing {
	t.Helper()
	memory := cache.NewMemory(cache.MemoryConfig{})
	t.Cleanup(func() { memory.Close() })
	return &hardOfHearing{Store: memory}
}

// A transition that the store has made, and said so in vain, is told all the
// same, once.
func TestTransitionWhoseAnswerIsLostIsTold(t *testing.T) {
	t.Parallel()
	store := newHardOfHearing(t)
	g := setupHardOfHearing(t, store, threshold(1))
	var told []string
	g.remake(func(c *breaker.Config) {
		c.OnEvent = func(e breaker.Event) { told = append(told, e.From.String()+" "+e.To.String()+" "+e.Reason) }
	})
	g.play("F open +30s a1 half_open +1s")
	store.losing = true
	if err := g.step("S1"); err != nil {
		t.Fatal(err)
	}
	store.losing = false
	breaker.Flush(g.Registry)
	g.play("closed S n=1 F open")
	g.Start()
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"closed open consecutive", "open half_open half_open", "half_open closed probe_success", "closed open consecutive"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}

// A lease that was given in an answer that is lost does not keep others from
// probing until it is over.
func TestLeaseWhoseAnswerIsLostIsGivenBack(t *testing.T) {
	t.Parallel()
	store := newHardOfHearing(t)
	first := setupHardOfHearing(t, store, threshold(1))
	second := setupHardOfHearing(t, store, threshold(1))
	first.play("F open +30s a1 half_open")
	second.advance(first.elapsed())
	second.play("S x half_open") // once it has met the store, it sees that the one place is taken
	first.play("E1")             // and is free again
	second.advance(quiet)
	store.losing = true
	if err := second.step("x"); err != nil {
		t.Fatal(err)
	}
	store.losing = false
	breaker.Flush(second.Registry)
	first.play("a2 S2 closed")
}

// A store that comes back with an older record, as one that was restored or a
// replica that lagged behind, is believed: the circuit is what it says.
func TestStoreThatHasForgottenIsBelieved(t *testing.T) {
	t.Parallel()
	memory := cache.NewMemory(cache.MemoryConfig{})
	t.Cleanup(func() { memory.Close() })
	s := with(threshold(3))
	s.Store = breaker.Cached
	g := setupOn(t, s, memory)
	g.play("S F n=2")
	older, err := memory.Get(t.Context(), breaker.RecordKey(key))
	if err != nil {
		t.Fatal(err)
	}
	g.play("+1s F F open +1s x")
	if err := memory.Set(t.Context(), breaker.RecordKey(key), older, time.Hour); err != nil {
		t.Fatal(err)
	}
	g.play("+1s !close closed F F open +1s x") // it remembers one failure
	if err := memory.Set(t.Context(), breaker.RecordKey(key), older, time.Hour); err != nil {
		t.Fatal(err)
	}
	breaker.Ask(g.Registry)
	g.play("+1s closed S closed")
}

// What a person has set stays when the circuit is shared from then on.
func TestOperatorStateIsSharedWhenItsCircuitIs(t *testing.T) {
	t.Parallel()
	memory := cache.NewMemory(cache.MemoryConfig{})
	t.Cleanup(func() { memory.Close() })
	shared := with(nil)
	shared.Store = breaker.Cached
	other := setupOn(t, shared, memory)
	other.play("S closed") // there is a record
	g := setupOn(t, with(nil), memory)
	g.play("S !open forced_open")
	g.Reconfigure(always(shared))
	g.play("x forced_open")
	breaker.Ask(other.Registry)
	other.play("x forced_open")
}

// A word that the store was told too late to answer holds, whatever was said
// before.
func TestLastWordHoldsWhenItsAnswerIsLost(t *testing.T) {
	t.Parallel()
	store := newHardOfHearing(t)
	g := setupHardOfHearing(t, store, nil)
	g.play("S !open x forced_open")
	store.losing = true
	if err := g.step("!close"); err != nil {
		t.Fatal(err)
	}
	store.losing = false
	g.play("closed S closed")
	other := setupHardOfHearing(t, store, nil)
	other.play("S closed")
}
