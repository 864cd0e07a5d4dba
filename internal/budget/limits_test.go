package budget_test

import (
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

// used is what a scope had spent before, and its limits with what a call asks.
type used struct {
	requests int64 // calls, the first of which used all that follows
	tokens   int64
	cost     string
	limits   llm.Limits
	tokens2  int64  // that the call asks
	cost2    string // that the call asks
	denied   llm.LimitName
}

// TestTheFirstLimitThatIsFullRefuses is CF-G: what was used and what is asked
// against each limit, in the order of llm.LimitNames.
func TestTheFirstLimitThatIsFullRefuses(t *testing.T) {
	t.Parallel()
	rows := map[string]used{
		"CF-G2 no limits":                {requests: 3, cost: "5", cost2: "5"},
		"CF-G3 10 of 10":                 {requests: 10, limits: llm.Limits{RequestsPerDay: n(10)}, denied: llm.LimitRequestsPerDay},
		"CF-G4 9 of 10":                  {requests: 9, limits: llm.Limits{RequestsPerDay: n(10)}},
		"CF-G5 8.50 and 2.00 of 10":      {requests: 1, cost: "8.50", cost2: "2.00", limits: llm.Limits{CostPerDay: capped("10")}, denied: llm.LimitCostPerDay},
		"CF-G5 8.50 and 1.50 of 10":      {requests: 1, cost: "8.50", cost2: "1.50", limits: llm.Limits{CostPerDay: capped("10")}},
		"CF-G6 1500 tokens of 1000":      {tokens2: 1500, limits: llm.Limits{TokensPerDay: n(1000)}, denied: llm.LimitTokensPerDay},
		"CF-G7 the month when the day":   {requests: 1, cost: "99.50", cost2: "1.00", limits: llm.Limits{CostPerDay: capped("1000"), CostPerMonth: capped("100")}, denied: llm.LimitCostPerMonth},
		"CF-G8 the day before the month": {requests: 5, limits: llm.Limits{RequestsPerDay: n(5), RequestsPerMonth: n(5)}, denied: llm.LimitRequestsPerDay},
		"CF-G9 under all": {requests: 1, tokens: 5, cost: "1", tokens2: 5, cost2: "1", limits: llm.Limits{
			RequestsPerDay: n(2), RequestsPerMonth: n(2), TokensPerDay: n(10), TokensPerMonth: n(10), CostPerDay: capped("2"), CostPerMonth: capped("2"),
			RequestsPerMinute: n(2), TokensPerMinute: n(10), Concurrent: n(1)}},
		"CF-G10 20 of 20 in the month":      {requests: 20, limits: llm.Limits{RequestsPerDay: n(100), RequestsPerMonth: n(20)}, denied: llm.LimitRequestsPerMonth},
		"CF-G12 negative amounts":           {requests: 8, tokens: -5, cost: "-5", tokens2: -5, cost2: "-5", limits: llm.Limits{TokensPerDay: n(1), CostPerDay: capped("1")}},
		"CF-G12 negative amounts buy none":  {requests: 8, tokens: -5, tokens2: 2, limits: llm.Limits{TokensPerDay: n(1)}, denied: llm.LimitTokensPerDay},
		"CF-G13 .9 and .5 of 1":             {requests: 1, cost: ".9", cost2: ".5", limits: llm.Limits{CostPerDay: capped("1")}, denied: llm.LimitCostPerDay},
		"CST-06 a free call":                {requests: 1, cost: "10", cost2: "0", limits: llm.Limits{CostPerDay: capped("10"), CostPerMonth: capped("1")}},
		"0 requests":                        {limits: llm.Limits{RequestsPerMonth: n(0)}, denied: llm.LimitRequestsPerMonth},
		"0 calls at once":                   {limits: llm.Limits{Concurrent: n(0)}, denied: llm.LimitConcurrent},
		"0 dollars":                         {cost2: "0.000000001", limits: llm.Limits{CostPerDay: capped("0")}, denied: llm.LimitCostPerDay},
		"less than is counted, rounded up":  {cost2: "0.0000000001", limits: llm.Limits{CostPerDay: capped("0")}, denied: llm.LimitCostPerDay},
		"nine million dollars to the nano":  {requests: 1, cost: "8999999.999999999", cost2: "0.000000001", limits: llm.Limits{CostPerMonth: capped("9000000")}},
		"nine million dollars and one nano": {requests: 1, cost: "8999999.999999999", cost2: "0.000000002", limits: llm.Limits{CostPerMonth: capped("9000000")}, denied: llm.LimitCostPerMonth},
		"more than can be counted":          {cost2: "99999999999", limits: llm.Limits{CostPerMonth: capped("9000000")}, denied: llm.LimitCostPerMonth},
		"requests of a minute":              {requests: 2, limits: llm.Limits{RequestsPerMinute: n(2), RequestsPerDay: n(2)}, denied: llm.LimitRequestsPerMinute},
		"tokens of a minute":                {requests: 2, tokens: 6, tokens2: 5, limits: llm.Limits{TokensPerMinute: n(10), TokensPerDay: n(10)}, denied: llm.LimitTokensPerMinute},
	}
	everywhere(t, func(t *testing.T, open func() *budget.Ledger) {
		l := open()
		for name, row := range rows {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				who := []budget.Governed{{Scope: llm.Scope{Kind: llm.ScopeConfiguration, ID: name}, Limits: row.limits}}
				for i := range row.requests {
					past := amountOf(row.tokens, row.cost)
					if i > 0 {
						past = llm.Amount{}
					}
					a := l.Open(uuid.New(), time.Now(), who)
					if _, err := a.Reserve(t.Context(), llm.Amount{}); err != nil {
						t.Fatal(err)
					}
					a.Settle(past, true)
				}
				a := l.Open(uuid.New(), time.Now(), who)
				_, err := a.Reserve(t.Context(), amountOf(row.tokens2, row.cost2))
				var got llm.LimitName
				if err != nil {
					got = denial(t, err).Limit
				}
				if got != row.denied {
					t.Errorf("denied by: got %q, want %q (%v)", got, row.denied, err)
				}
				a.Settle(llm.Amount{}, false)
			})
		}
	})
}

func amountOf(tokens int64, cost string) llm.Amount {
	if cost == "" {
		cost = "0"
	}
	return amount(tokens, cost)
}

// TestOneOfTenFits is BUD-01: each call may cost 0.0006, and 0.0010 is left.
func TestOneOfTenFits(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open func() *budget.Ledger) {
		ledgers := []*budget.Ledger{open(), open()}
		limits := llm.Limits{CostPerDay: capped("0.0010")}
		var mu sync.Mutex
		var through []*budget.Account
		var calls sync.WaitGroup
		for i := range 10 {
			calls.Go(func() {
				a := ledgers[i%2].Open(uuid.New(), time.Now(), governed(limits))
				if _, err := a.Reserve(t.Context(), amount(120, "0.0006")); err != nil {
					denial(t, err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				through = append(through, a)
			})
		}
		calls.Wait()
		if len(through) != 1 {
			t.Fatalf("calls let through: got %d, want 1", len(through))
		}
		through[0].Settle(amount(120, "0.0006"), true)
		want := []budget.State{{Limit: llm.LimitCostPerDay, Allowed: usd3("0.001"), Spent: usd3("0.0006"), Reserved: usd3("0")}}
		var got []budget.State
		eventually(t, "it is settled", func() bool {
			var err error
			if got, err = ledgers[1].Standing(t.Context(), scope, limits); err != nil {
				t.Fatal(err)
			}
			return got[0].Reserved.IsZero()
		})
		want[0].Resets = got[0].Resets
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("standing (-want +got):\n%s", diff)
		}
	})
}

func usd3(text string) decimal.Decimal { return decimal.RequireFromString(text) }

// TestManyEndingsInABurst mixes calls that use their bound, a part, nothing, and
// that reach nobody, again and again: what is spent in the end is what was used,
// and no moment saw more than the limit.
func TestManyEndingsInABurst(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open func() *budget.Ledger) {
		ledgers := []*budget.Ledger{open(), open()}
		limits := llm.Limits{RequestsPerDay: n(40), TokensPerMonth: n(1000), Concurrent: n(9)}
		var requests, tokens, live, most atomic.Int64
		var calls sync.WaitGroup
		for i := range 200 {
			calls.Go(func() {
				a := ledgers[i%2].Open(uuid.New(), time.Now(), governed(limits))
				if _, err := a.Reserve(t.Context(), amount(50, "0")); err != nil {
					return
				}
				now := live.Add(1)
				for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
				}
				use, reached := int64(i%4)*16, i%5 != 0
				if reached {
					requests.Add(1)
					tokens.Add(use)
				}
				live.Add(-1)
				a.Settle(amount(use, "0"), reached)
				a.Settle(amount(50, "0"), true) // changes nothing
			})
		}
		calls.Wait()
		if most.Load() > 9 || requests.Load() > 40 || tokens.Load() > 1000 {
			t.Errorf("got %d at once, %d requests, %d tokens; want at most 9, 40, 1000", most.Load(), requests.Load(), tokens.Load())
		}
		limits.Concurrent = nil
		eventually(t, "what was used is spent", func() bool { return holds(t, ledgers[0], limits, requests.Load(), tokens.Load()) })
	})
}

// TestTheSecondScopeRefuses gives back what the first had granted.
func TestTheSecondScopeRefuses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open func() *budget.Ledger) {
		l := open()
		own, common := llm.Limits{RequestsPerDay: n(5), TokensPerMonth: n(1000)}, llm.Limits{TokensPerDay: n(100)}
		who := []budget.Governed{{Scope: scope, Limits: own}, {Scope: llm.Scope{Kind: llm.ScopeConfiguration, ID: "chat"}, Limits: common}}
		a := l.Open(uuid.New(), time.Now(), who)
		if _, err := a.Reserve(t.Context(), amount(60, "0")); err != nil {
			t.Fatal(err)
		}
		b := l.Open(uuid.New(), time.Now(), who)
		_, err := b.Reserve(t.Context(), amount(60, "0"))
		if d := denial(t, err); d.Limit != llm.LimitTokensPerDay || d.Scope.Kind != llm.ScopeConfiguration {
			t.Errorf("got %s of %s, want the configuration's tokens", d.Limit, d.Scope.Kind)
		}
		if _, err := b.Reserve(t.Context(), amount(40, "0")); err != nil {
			t.Errorf("a smaller target after a refusal: %v", err)
		}
		if _, err := b.Reserve(t.Context(), amount(41, "0")); err == nil {
			t.Error("a resize over the limit was granted")
		}
		b.Settle(amount(40, "0"), true)
		a.Settle(llm.Amount{}, false)
		eventually(t, "one call is spent", func() bool { return holds(t, l, own, 1, 40) })
	})
}

// TestAMinuteNeverHoldsMore walks a clock over the limits of a minute: what is
// told to wait is served after that wait, and not a second before.
func TestAMinuteNeverHoldsMore(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open func() *budget.Ledger) {
		l := open()
		base := time.Now().Truncate(time.Second).Add(300 * time.Millisecond)
		var passed atomic.Int64
		budget.Fix(l, func() time.Time { return base.Add(time.Duration(passed.Load())) })
		limits := llm.Limits{RequestsPerMinute: n(3), TokensPerMinute: n(1000)}
		var begun []time.Duration
		for range 12 {
			a := l.Open(uuid.New(), time.Now(), governed(limits))
			_, err := a.Reserve(t.Context(), amount(300, "0"))
			if err == nil {
				begun = append(begun, time.Duration(passed.Load()))
				a.Settle(amount(300, "0"), true)
				passed.Add(int64(7 * time.Second))
				continue
			}
			d := denial(t, err)
			wait := time.Until(d.Resets)
			if wait <= 0 || wait > 61*time.Second {
				t.Fatalf("told to wait %v", wait)
			}
			passed.Add(int64(wait - 500*time.Millisecond))
			if _, err := l.Open(uuid.New(), time.Now(), governed(limits)).Reserve(t.Context(), amount(300, "0")); err == nil {
				t.Error("served before the wait that was told")
			}
			passed.Add(int64(700 * time.Millisecond))
		}
		for i := 3; i < len(begun); i++ {
			if between := begun[i] - begun[i-3]; between <= time.Minute {
				t.Errorf("4 calls within %v, want 3 at most in a minute", between)
			}
		}
		if len(begun) < 6 {
			t.Errorf("got %d calls through, want the wait to end", len(begun))
		}
	})
}
