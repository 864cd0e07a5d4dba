package budget_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

var scope = llm.Scope{Kind: llm.ScopeKey, ID: "k1"}

func n(v int64) *int64 { return &v }

func capped(text string) *decimal.Decimal { d := decimal.RequireFromString(text); return &d }

func amount(tokens int64, cost string) llm.Amount {
	return llm.Amount{Tokens: tokens, Cost: decimal.RequireFromString(cost)}
}

// TestTenUsedOfTenIsRefused is CF-G3 and CF-G4 on the life of calls.
func TestTenUsedOfTenIsRefused(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open func() *budget.Ledger) {
		l := open()
		limits := llm.Limits{RequestsPerDay: n(10)}
		for i := range 10 {
			a := l.Open(uuid.New(), time.Now(), governed(limits))
			if _, err := a.Reserve(t.Context(), amount(1, "0")); err != nil {
				t.Fatalf("call %d of 10: %v", i+1, err)
			}
			a.Settle(amount(1, "0"), true)
		}
		_, err := l.Open(uuid.New(), time.Now(), governed(limits)).Reserve(t.Context(), amount(1, "0"))
		d := denial(t, err)
		got := []string{string(d.Limit), d.Allowed.String(), d.Spent.String(), d.Reserved.String(), d.Asked.String()}
		if diff := cmp.Diff([]string{"requests_per_day", "10", "10", "0", "1"}, got); diff != "" {
			t.Errorf("denial (-want +got):\n%s", diff)
		}
	})
}

// TestABurstDoesNotOvershoot lets many calls at once at few requests left.
func TestABurstDoesNotOvershoot(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open func() *budget.Ledger) {
		ledgers := []*budget.Ledger{open(), open()}
		limits := llm.Limits{RequestsPerDay: n(7)}
		var reached atomic.Int64
		var calls sync.WaitGroup
		for i := range 200 {
			calls.Go(func() {
				a := ledgers[i%2].Open(uuid.New(), time.Now(), governed(limits))
				_, err := a.Reserve(t.Context(), amount(10, "0.001"))
				if err == nil {
					reached.Add(1)
					a.Settle(amount(int64(i%3), "0"), true)
				}
			})
		}
		calls.Wait()
		if got, want := reached.Load(), int64(7); got != want {
			t.Errorf("calls let through: got %d, want %d", got, want)
		}
	})
}

func governed(limits llm.Limits) []budget.Governed {
	return []budget.Governed{{Scope: scope, Limits: limits}}
}

func denial(t testing.TB, err error) *llm.Denial {
	t.Helper()
	var f *llm.Failure
	if !errors.As(err, &f) || f.Class != llm.ClassBudgetDenied || f.Denial == nil {
		t.Fatalf("got %v, want a budget denial", err)
	}
	return f.Denial
}

func stop(l *budget.Ledger) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	l.Stop(ctx)
}
