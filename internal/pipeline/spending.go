package pipeline

import (
	"context"

	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// spending is what one call under limits has used and may use still. It belongs
// to the goroutine that runs the call.
type spending struct {
	budget  *Budget
	call    *llm.Call
	account Account

	tokens bool          // a limit of tokens holds
	cost   llm.ScopeKind // for whom a limit of cost holds; empty = for none

	asked bool // the account was asked for something
	bound []bounded
}

// bounded is what was reserved for one of the call's attempts.
type bounded struct {
	attempt int // its place among them
	bound   llm.Bound
}

func newSpending(b *Budget, call *llm.Call, governed []Governed) *spending {
	s := &spending{budget: b, call: call, account: b.ledger.Open(call.RunID, call.ReceivedAt, governed)}
	for _, g := range governed {
		s.tokens = s.tokens || limitsTokens(g.Limits)
		if s.cost == "" && limitsCost(g.Limits) {
			s.cost = g.Scope.Kind
		}
	}
	return s
}

func limitsTokens(l llm.Limits) bool {
	return l.TokensPerMinute != nil || l.TokensPerDay != nil || l.TokensPerMonth != nil
}

func limitsCost(l llm.Limits) bool { return l.CostPerDay != nil || l.CostPerMonth != nil }

// admit asks whether there is room for an attempt on a target beside what the
// call has used already. A target whose price nobody knows is never cheap enough.
func (s *spending) admit(ctx context.Context, target llm.Target) (llm.Admission, error) {
	bound := s.budget.bounds.Of(target, s.call)
	if s.cost != "" && !bound.Priced {
		s.budget.denials.Denied(s.cost)
		return llm.Admission{}, &llm.Failure{Class: llm.ClassBudgetDenied, Reason: llm.ReasonUnpricedModel, Target: target}
	}
	amount := s.used().Plus(bound.Amount())
	s.asked = true
	standings, err := s.account.Reserve(ctx, amount)
	if standings == nil {
		standings = standingOf(err)
	}
	if standings != nil {
		s.call.Signals.Standings = standings
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return llm.Admission{}, llm.Cancelled(ctx, target)
	default:
		return llm.Admission{}, s.budget.refused(target, err)
	}
	s.bound = append(s.bound, bounded{len(s.call.Signals.Attempts) - 1, bound})
	if s.tokens || s.cost != "" && bound.Cost.IsPositive() {
		return llm.Admission{OutputLimit: bound.OutputLimit}, nil
	}
	return llm.Admission{}, nil
}

// settle tells the ledger the truth, and each attempt what of it no report says.
func (s *spending) settle() {
	if !s.asked {
		return
	}
	reached := false
	for _, b := range s.bound {
		a := &s.call.Signals.Attempts[b.attempt]
		reached = reached || a.Reached
		a.Unreported = beyond(truth(a, b.bound, s.call.Facts), a)
	}
	s.account.Settle(s.used(), reached)
}

// beyond is what an amount counts that the report of the attempt does not.
func beyond(amount llm.Amount, a *llm.Attempt) llm.Amount {
	more := llm.Amount{Tokens: amount.Tokens - llm.PlusTokens(a.Usage.Input.N, a.Usage.Output.N), Cost: amount.Cost}
	if a.Cost != nil {
		more.Cost = more.Cost.Sub(*a.Cost)
	}
	return llm.Amount{Tokens: max(more.Tokens, 0), Cost: decimal.Max(more.Cost, decimal.Zero)}
}

// used is what the attempts so far have used.
func (s *spending) used() llm.Amount {
	var sum llm.Amount
	for _, b := range s.bound {
		sum = sum.Plus(truth(&s.call.Signals.Attempts[b.attempt], b.bound, s.call.Facts))
	}
	return sum
}

// truth is what an attempt has used: what was reported, or estimated of what the
// client has seen. Where nobody knows, it is the most that was possible: what is
// missing never gives credit. Each send is told by itself, since what one reports
// says nothing about another; of those before the last, which were all refused,
// the ones without a report were not billed.
func truth(a *llm.Attempt, bound llm.Bound, facts llm.Facts) llm.Amount {
	if !a.Reached {
		return llm.Amount{}
	}
	var earlier llm.Amount
	last := llm.Sent{Usage: a.Usage, Cost: a.Cost}
	if n := len(a.Sends); n > 0 {
		last = a.Sends[n-1]
		for _, sent := range a.Sends[:n-1] {
			if sent.Usage.Known() {
				earlier = earlier.Plus(reported(sent, bound, facts))
			}
		}
	}
	switch {
	case last.Usage.Known():
		return earlier.Plus(reported(last, bound, facts))
	case charged(a):
		return earlier.Plus(bound.Amount())
	default:
		return earlier
	}
}

// reported is what a report says; a half of it that is missing is at its bound.
// So is an estimate of a prompt with images and the like, which it leaves out.
func reported(sent llm.Sent, bound llm.Bound, facts llm.Facts) llm.Amount {
	input, output, cost := sent.Usage.Input, sent.Usage.Output, decimal.Zero
	if sent.Usage.Estimated && facts.Media+facts.Files > 0 {
		input = llm.Count{}
	}
	if sent.Cost != nil {
		cost = *sent.Cost
	}
	whole := input.Known && output.Known
	if !whole || sent.Cost == nil {
		cost = decimal.Max(cost, bound.Cost)
	}
	if !input.Known {
		input.N = bound.Input
	}
	if !output.Known {
		output.N = bound.Output
	}
	return llm.Amount{Tokens: llm.PlusTokens(input.N, output.N), Cost: decimal.Max(cost, decimal.Zero)}
}

// charged reports whether a provider may ask money for an attempt of which it
// reported nothing: not when it was never sent, and not when the provider itself
// refused it.
func charged(a *llm.Attempt) bool {
	const firstRefusal = 300 // the lowest status that is no answer
	if a.UpstreamStatus >= firstRefusal {
		return false
	}
	switch a.FailureReason {
	case llm.ReasonConnectTimeout, llm.ReasonDNS, llm.ReasonTLS, llm.ReasonRefused: // never sent
		return false
	case llm.ReasonOverloaded, llm.ReasonRateLimited, llm.ReasonQuotaExhausted: // refused inside a 200
		return false
	default:
		return a.Outcome != llm.OutcomeRefused
	}
}
