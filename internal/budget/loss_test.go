package budget_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// book is a database: what was written to it is spent.
type book struct {
	mu    sync.Mutex
	spent map[uuid.UUID]budget.Spent
	away  bool
	asked int
}

func newBook() *book { return &book{spent: map[uuid.UUID]budget.Spent{}} }

var errAway = errors.New("the database is away")

func (b *book) Spent(_ context.Context, _ llm.Scope, _ budget.DayRange, runs []uuid.UUID) (day, month budget.Spent, written map[uuid.UUID]bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	if b.away {
		return day, month, nil, errAway
	}
	for _, s := range b.spent {
		day.Requests, day.Tokens, day.Cost = day.Requests+s.Requests, day.Tokens+s.Tokens, day.Cost.Add(s.Cost)
	}
	written = map[uuid.UUID]bool{}
	for _, run := range runs {
		if _, ok := b.spent[run]; ok {
			written[run] = true
		}
	}
	return day, day, written, nil
}

// write is what the recorder does, some time after a call.
func (b *book) write(run uuid.UUID, a llm.Amount) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent[run] = budget.Spent{Requests: 1, Tokens: a.Tokens, Cost: a.Cost}
}

func (b *book) leave(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

// hurts are the ways to lose all counters.
var hurts = map[string]func(*redistest.Server){
	"emptied":   (*redistest.Server).FlushAll,
	"restarted": (*redistest.Server).Restart,
}

// TestLostCountersAreRebuiltBeforeTheyAnswer loses the counters while calls are
// under way, settled but not written, and written, on two gateways; and again
// while many calls come; or the store itself, as calls go on. As many as were left are let through, no more, no less.
func TestLostCountersAreRebuiltBeforeTheyAnswer(t *testing.T) {
	t.Parallel()
	for how, hurt := range hurts {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			server, books := redistest.Start(t), newBook()
			ledgers := []*budget.Ledger{
				opened(t, shared(t, server), budget.LedgerConfig{}, books),
				opened(t, shared(t, server), budget.LedgerConfig{}, books),
			}
			limits := llm.Limits{RequestsPerDay: n(20), TokensPerMonth: n(20_000)}
			const used = 7
			begin := func(l *budget.Ledger) (uuid.UUID, *budget.Account) {
				run := uuid.New()
				a := l.Open(run, time.Now(), governed(limits))
				if _, err := a.Reserve(t.Context(), amount(100, "0")); err != nil {
					t.Fatal(err)
				}
				return run, a
			}
			var live []*budget.Account
			for _, l := range ledgers {
				_, a := begin(l)
				live = append(live, a)
				_, a = begin(l)
				a.Settle(amount(used, "0"), true) // nobody has written it
				run, a := begin(l)
				a.Settle(amount(used, "0"), true)
				books.write(run, amount(used, "0"))
				l.Written([]uuid.UUID{run})
				run, a = begin(l)
				a.Settle(amount(used, "0"), true)
				books.write(run, amount(used, "0")) // the ledger has not heard of it
			}
			waitUp(t, server, ledgers)
			for _, l := range ledgers {
				budget.Beat(l)
			}
			hurt(server)
			if how == "emptied" {
				waitUp(t, server, ledgers)
			}

			var reached atomic.Int64
			var calls sync.WaitGroup
			for i := range 100 {
				calls.Go(func() {
					a := ledgers[i%2].Open(uuid.New(), time.Now(), governed(limits))
					if _, err := a.Reserve(t.Context(), amount(100, "0")); err == nil {
						reached.Add(1)
						a.Settle(amount(used, "0"), true)
					}
				})
				if i == 50 && how == "emptied" {
					hurt(server)
				}
			}
			calls.Wait()
			// While the store is away each keeps to its share, and what one leaves of it
			// the other does not get.
			got, want := reached.Load(), int64(20-8)
			if got > want || got < want && how == "emptied" {
				t.Errorf("calls let through: got %d, want %d", got, want)
			}
			for _, a := range live {
				a.Settle(amount(used, "0"), true)
			}
			eventually(t, "everything is settled, once", func() bool {
				return holds(t, ledgers[0], limits, 8+got, (8+got)*used)
			})
		})
	}
}

// holds reports whether so much is spent and nothing reserved.
func holds(t *testing.T, l *budget.Ledger, limits llm.Limits, requests, tokens int64) bool {
	t.Helper()
	states, err := l.Standing(t.Context(), scope, limits)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range states {
		want := map[llm.LimitName]int64{llm.LimitRequestsPerDay: requests, llm.LimitTokensPerMonth: tokens}[s.Limit]
		if !s.Reserved.IsZero() || !s.Spent.Equal(decimal.NewFromInt(want)) {
			return false
		}
	}
	return true
}

// waitUp waits until all ledgers use the server.
func waitUp(t *testing.T, _ *redistest.Server, ledgers []*budget.Ledger) {
	t.Helper()
	eventually(t, "the store is back", func() bool {
		for _, l := range ledgers {
			if l.Degraded() || !budget.Listening(l) {
				return false
			}
		}
		return true
	})
}

func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !so(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}
