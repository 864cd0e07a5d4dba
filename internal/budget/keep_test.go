package budget_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// watched notes the keys of every script.
type watched struct {
	cache.Cache
	mu   sync.Mutex
	keys [][]string
	runs int
}

func (w *watched) Run(ctx context.Context, s *cache.Script, keys []string, args ...string) ([]string, error) {
	w.note(keys)
	return w.Cache.Run(ctx, s, keys, args...)
}

func (w *watched) RunAll(ctx context.Context, runs []cache.Run) []cache.Result {
	for _, r := range runs {
		w.note(r.Keys)
	}
	return w.Cache.RunAll(ctx, runs)
}

func (w *watched) note(keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs++
	w.keys = append(w.keys, keys)
}

// TestEveryKeyEndsAndEveryScriptHasOneSlot is RED-03 and RED-06, in the whole life
// of scopes with odd names, also while their counters are being rebuilt.
func TestEveryKeyEndsAndEveryScriptHasOneSlot(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := &watched{Cache: shared(t, server)}
	l := opened(t, store, budget.LedgerConfig{Replica: "a node é"}, newBook())
	for _, id := range []string{"k1", "", "with space", "{}", "a}b{c", "é\x00", strings.Repeat("x", 300), "0x41"} {
		who := []budget.Governed{
			{Scope: llm.Scope{Kind: llm.ScopeKey, ID: id}, Limits: llm.Limits{RequestsPerMinute: n(9), CostPerMonth: capped("1")}},
			{Scope: llm.Scope{Kind: llm.ScopeConfiguration, ID: id}, Limits: llm.Limits{Concurrent: n(9)}},
		}
		a := l.Open(uuid.New(), time.Now(), who)
		if _, err := a.Reserve(t.Context(), amount(1, "0.1")); err != nil {
			t.Fatalf("%q: %v", id, err)
		}
		if id != "k1" {
			a.Settle(amount(1, "0.1"), true)
		}
	}
	if keys := server.Keys(); len(keys) != 8*2+1 {
		t.Errorf("got keys %q, want one per scope and the fleet's", keys)
	}
	for _, key := range server.Keys() {
		if ttl := server.TTL(key); ttl <= 0 || ttl > 48*time.Hour {
			t.Errorf("%q lives for %v", key, ttl)
		}
	}
	store.mu.Lock()
	defer store.mu.Unlock()
	for _, keys := range store.keys {
		for _, key := range keys {
			if cache.Slot(key) != cache.Slot(keys[0]) {
				t.Errorf("keys of one script in different slots: %q", keys)
			}
		}
	}
}

// TestOneRoundTripPerScope counts what a call asks the store while it waits.
func TestOneRoundTripPerScope(t *testing.T) {
	t.Parallel()
	store := &watched{Cache: shared(t, redistest.Start(t))}
	l := budget.NewLedger(budget.LedgerConfig{}, store, newBook(), nil)
	t.Cleanup(func() { stop(l) })
	who := []budget.Governed{
		{Scope: scope, Limits: llm.Limits{RequestsPerDay: n(9)}},
		{Scope: llm.Scope{Kind: llm.ScopeConfiguration, ID: "chat"}, Limits: llm.Limits{TokensPerDay: n(900)}},
	}
	var asked []int
	for range 2 {
		before := store.runs
		a := l.Open(uuid.New(), time.Now(), who)
		if _, err := a.Reserve(t.Context(), amount(1, "0")); err != nil {
			t.Fatal(err)
		}
		asked = append(asked, store.runs-before)
		before = store.runs
		a.Settle(amount(1, "0"), true)
		if store.runs != before {
			t.Error("a settlement went to the store in the call's own time")
		}
	}
	if got, want := asked[1], 2+2; got != want { // with the settlements of the call before, in the same round trips
		t.Errorf("scripts of a reservation in two scopes: got %d, want %d", got, want)
	}
}

// TestADayBeginsWithNothing rolls over to the next day and month on living
// counters, which ask nobody; a call of the day before still counts on that.
func TestADayBeginsWithNothing(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open func() *budget.Ledger) {
		l := open()
		limits := llm.Limits{RequestsPerDay: n(1)}
		now := time.Now()
		for name, at := range map[string]time.Time{"today": now, "tomorrow": now.Add(24 * time.Hour), "in 40 days": now.Add(40 * 24 * time.Hour)} {
			a := l.Open(uuid.New(), at, governed(limits))
			if _, err := a.Reserve(t.Context(), amount(1, "0")); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			a.Settle(amount(1, "0"), true)
			_, err := l.Open(uuid.New(), at, governed(limits)).Reserve(t.Context(), amount(1, "0"))
			d := denial(t, err)
			if want := budget.PeriodAt(at, time.UTC).DayEnds; !d.Resets.Equal(want) {
				t.Errorf("%s resets: got %v, want %v", name, d.Resets, want)
			}
		}
	})
}
