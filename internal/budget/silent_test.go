package budget_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// words are what a ledger logs, also while they are read.
type words struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *words) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(line)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// hesitant is a store that answers nothing about one scope for a while, and what
// it does not answer it holds until it has answered somebody else.
type hesitant struct {
	cache.Cache
	scope  string
	misses atomic.Int64
	other  chan struct{} // nil: it does not hold it
	err    error
}

func (h *hesitant) Run(ctx context.Context, s *cache.Script, keys []string, args ...string) ([]string, error) {
	switch {
	case !strings.Contains(keys[0], h.scope):
		defer func() {
			select {
			case h.other <- struct{}{}:
			default:
			}
		}()
	case args[0] == "reserve" && h.misses.Add(-1) >= 0:
		if h.other != nil {
			<-h.other
		}
		return nil, h.err
	}
	return h.Cache.Run(ctx, s, keys, args...)
}

// RunAll has the store's silence for whatever is told or asked together.
func (h *hesitant) RunAll(ctx context.Context, runs []cache.Run) []cache.Result {
	results := make([]cache.Result, len(runs))
	for i, r := range runs {
		if strings.Contains(r.Keys[0], h.scope) && h.misses.Load() > 0 {
			results[i].Err = h.err
			continue
		}
		results[i].Values, results[i].Err = h.Cache.Run(ctx, r.Script, r.Keys, r.Args...)
	}
	return results
}

// A store that answers others is slow, or silent about one scope: nobody goes on
// with a share of limits that are there to be asked for.
func TestAStoreThatAnswersOthersIsNotAway(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		misses int64
		err    error
		alone  bool
		nobody bool // else is answered, or held for
	}{
		"slow for a moment":    {misses: 4, err: cache.ErrUnavailable},
		"silent about a scope": {misses: 1 << 40, err: cache.ErrUnavailable, alone: true},
		"fails at once":        {misses: 1 << 40, err: cache.ErrUnavailable, alone: true, nobody: true},
		"cannot count a scope": {misses: 1 << 40, err: errors.New("WRONGTYPE"), alone: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory := cache.NewMemory(cache.MemoryConfig{})
			t.Cleanup(func() { _ = memory.Close() })
			store := &hesitant{Cache: memory, scope: "unlucky", err: tt.err}
			if !tt.nobody {
				store.other = make(chan struct{})
			}
			store.misses.Store(tt.misses)
			var said words
			l := budget.NewLedger(budget.LedgerConfig{}, store, nil, slog.New(slog.NewTextHandler(&said, nil)))
			l.Start()
			t.Cleanup(func() { stop(l) })
			unlucky := llm.Scope{Kind: llm.ScopeKey, ID: "unlucky"}
			call := func(scope llm.Scope) error {
				a := l.Open(uuid.New(), time.Now(), []budget.Governed{{Scope: scope, Limits: llm.Limits{RequestsPerDay: n(10)}}})
				defer a.Settle(amount(1, "0"), true)
				_, err := a.Reserve(t.Context(), amount(1, "0"))
				return err
			}
			over := make(chan struct{})
			var others sync.WaitGroup
			others.Go(func() {
				for !tt.nobody {
					select {
					case <-over:
						return
					case <-time.After(time.Millisecond):
						_ = call(llm.Scope{Kind: llm.ScopeKey, ID: "lucky"})
					}
				}
			})
			if err := call(unlucky); err != nil {
				t.Error(err)
			}
			close(over)
			others.Wait()
			if got := strings.Contains(said.String(), "the limits of a scope are kept by this gateway alone"); got != tt.alone {
				t.Errorf("the scope is counted alone: got %t, want %t; log: %s", got, tt.alone, &said)
			}
			if strings.Contains(said.String(), "the cache is away") {
				t.Errorf("all scopes went on without a store that answers: %s", &said)
			}
		})
	}
}

// TestAShareIsTakenOnce lets a store stay silent about a scope, which is asked
// again and again: the share is not taken anew of what is left of it.
func TestAShareIsTakenOnce(t *testing.T) {
	t.Parallel()
	memory := cache.NewMemory(cache.MemoryConfig{})
	t.Cleanup(func() { _ = memory.Close() })
	store := &hesitant{Cache: memory, scope: scope.ID, err: cache.ErrUnavailable}
	l, second := opened(t, store, budget.LedgerConfig{}, nil), opened(t, memory, budget.LedgerConfig{}, nil)
	eventually(t, "both know of each other", func() bool { return budget.Listening(l) && budget.Listening(second) })
	budget.Beat(second)
	budget.Beat(l)
	limits := llm.Limits{RequestsPerDay: n(12)}
	call := func() error {
		a := l.Open(uuid.New(), time.Now(), governed(limits))
		_, err := a.Reserve(t.Context(), amount(1, "0"))
		if err == nil {
			a.Settle(amount(1, "0"), true)
		}
		return err
	}
	for range 2 {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	store.misses.Store(1 << 40)
	through := 0
	for range 20 {
		if call() == nil {
			through++
		}
		budget.AskAgain(l, scope)
	}
	if through != 5 {
		t.Errorf("got %d calls through, want half of the 10 that were left", through)
	}
	store.misses.Store(0)
	eventually(t, "the store is asked again", func() bool { return call() == nil })
	eventually(t, "all is told", func() bool { return holds(t, second, limits, 8, 8) })
}
