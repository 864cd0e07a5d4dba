package pipeline_test

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// ledger is a naive Ledger of one scope: requests of a day, its tokens and its
// cost. It keeps what it was told, for a test to look at.
type ledger struct {
	mu       sync.Mutex
	opened   [][]pipeline.Governed
	requests struct{ spent, reserved int64 }
	cost     struct{ spent, reserved decimal.Decimal }
	reserves []llm.Amount
	settled  []llm.Amount
	reached  []bool

	standings []llm.Standing
	denial    *llm.Denial // refuses everything
	err       error       // what Reserve ends with
}

func (l *ledger) Open(_ uuid.UUID, _ time.Time, governed []pipeline.Governed) pipeline.Account {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened = append(l.opened, governed)
	return &heldAccount{ledger: l, limits: governed[0]}
}

// heldAccount is one call's account.
type heldAccount struct {
	ledger *ledger
	limits pipeline.Governed
	held   llm.Amount
	counts bool
}

func (a *heldAccount) Reserve(ctx context.Context, amount llm.Amount) ([]llm.Standing, error) {
	l := a.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reserves = append(l.reserves, amount)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if l.err != nil {
		return l.standings, l.err
	}
	if l.denial != nil {
		return l.standings, denied(*l.denial)
	}
	asked := int64(1)
	if a.counts {
		asked = 0
	}
	if most := a.limits.Limits.RequestsPerDay; most != nil && l.requests.spent+l.requests.reserved+asked > *most {
		return l.standings, denied(llm.Denial{Scope: a.limits.Scope, Limit: llm.LimitRequestsPerDay})
	}
	more := amount.Cost.Sub(a.held.Cost)
	if most := a.limits.Limits.CostPerDay; most != nil && more.IsPositive() && l.cost.spent.Add(l.cost.reserved).Add(more).GreaterThan(*most) {
		return l.standings, denied(llm.Denial{Scope: a.limits.Scope, Limit: llm.LimitCostPerDay})
	}
	l.requests.reserved += asked
	l.cost.reserved = l.cost.reserved.Add(more)
	a.held, a.counts = amount, true
	return l.standings, nil
}

func (a *heldAccount) Settle(amount llm.Amount, reached bool) {
	l := a.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled, l.reached = append(l.settled, amount), append(l.reached, reached)
	if a.counts {
		l.requests.reserved--
	}
	l.cost.reserved = l.cost.reserved.Sub(a.held.Cost)
	if reached {
		l.requests.spent++
		l.cost.spent = l.cost.spent.Add(amount.Cost)
	}
}

func denied(d llm.Denial) *llm.Failure {
	return &llm.Failure{Class: llm.ClassBudgetDenied, Denial: &d}
}

// bounds is a Bounds by target; one that is absent has no price.
type bounds map[llm.Target]llm.Bound

func (b bounds) Of(target llm.Target, _ *llm.Call) llm.Bound { return b[target] }

// bound is what an attempt at the price of the tests can use: 100 tokens each way.
func bound(cost string) llm.Bound {
	return llm.Bound{Input: 100, Output: 100, Cost: decimal.RequireFromString(cost), Priced: true, OutputLimit: 100}
}

// denials counts by scope.
type denials struct {
	mu sync.Mutex
	n  map[llm.ScopeKind]int
}

func (d *denials) Denied(scope llm.ScopeKind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.n == nil {
		d.n = map[llm.ScopeKind]int{}
	}
	d.n[scope]++
}
