package budget_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// slowCourier is a store to which settlements take their time, but where they go
// together with a reservation.
type slowCourier struct{ cache.Cache }

func (s slowCourier) Run(ctx context.Context, script *cache.Script, keys []string, args ...string) ([]string, error) {
	if args[0] == "settle" {
		time.Sleep(50 * time.Millisecond)
	}
	return s.Cache.Run(ctx, script, keys, args...)
}

func (s slowCourier) RunAll(ctx context.Context, runs []cache.Run) []cache.Result {
	if runs[len(runs)-1].Args[0] == "settle" {
		time.Sleep(50 * time.Millisecond)
	}
	return s.Cache.RunAll(ctx, runs)
}

// TestACallFindsWhatWasSettledBeforeIt makes calls one after the other, each as
// soon as the one before is settled here, while the store hears of it later.
func TestACallFindsWhatWasSettledBeforeIt(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		limits     llm.Limits
		first, own llm.Amount // used by the call before, and what it had reserved
		second     llm.Amount
		denied     llm.LimitName
	}{
		"the place of a call":               {limits: llm.Limits{Concurrent: n(1)}},
		"what was reserved and not used":    {limits: llm.Limits{TokensPerDay: n(100)}, own: amount(100, "0"), first: amount(1, "0"), second: amount(99, "0")},
		"no more than what was used less":   {limits: llm.Limits{TokensPerDay: n(100)}, own: amount(100, "0"), first: amount(1, "0"), second: amount(100, "0"), denied: llm.LimitTokensPerDay},
		"what was used and not reserved":    {limits: llm.Limits{CostPerDay: capped("1")}, first: amount(0, "0.9"), second: amount(0, "0.5"), denied: llm.LimitCostPerDay},
		"tokens that were not reserved":     {limits: llm.Limits{TokensPerMonth: n(9)}, own: amount(1, "0"), first: amount(9, "0"), second: amount(1, "0"), denied: llm.LimitTokensPerMonth},
		"a call that reached nobody":        {limits: llm.Limits{RequestsPerDay: n(1)}, first: amount(-1, "0")},
		"what was used, where some is free": {limits: llm.Limits{CostPerDay: capped("1")}, own: amount(0, "0.5"), first: amount(0, "0.5"), second: amount(0, "0.5")},
	}
	stores := map[string]func() cache.Cache{
		"memory": func() cache.Cache {
			memory := cache.NewMemory(cache.MemoryConfig{})
			t.Cleanup(func() { _ = memory.Close() })
			return memory
		},
	}
	server := shared(t, redistest.Start(t))
	stores["server"] = func() cache.Cache { return server }
	for at, store := range stores {
		l := opened(t, slowCourier{store()}, budget.LedgerConfig{}, nil)
		for name, row := range rows {
			t.Run(at+"/"+name, func(t *testing.T) {
				t.Parallel()
				who := []budget.Governed{{Scope: llm.Scope{Kind: llm.ScopeKey, ID: name}, Limits: row.limits}}
				call := func(reserved llm.Amount) (*budget.Account, error) {
					a := l.Open(uuid.New(), time.Now(), who)
					_, err := a.Reserve(t.Context(), reserved)
					return a, err
				}
				before, err := call(row.own)
				if err != nil {
					t.Fatal(err)
				}
				before.Settle(row.first, row.first.Tokens >= 0)
				time.Sleep(5 * time.Millisecond) // until the courier has it

				_, err = call(row.second)
				var got llm.LimitName
				if err != nil {
					got = denial(t, err).Limit
				}
				if got != row.denied {
					t.Errorf("denied by %q, want %q (%v)", got, row.denied, err)
				}
			})
		}
	}
}
