package pipeline

import (
	"context"

	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Pricer knows what tokens cost. Cost is in USD and exact; priced is false when
// the target has no price, which is not the same as a price of 0.
type Pricer interface {
	Cost(target llm.Target, usage llm.Usage) (cost decimal.Decimal, priced bool)
}

// Usage writes tokens and cost of every attempt that has or lets estimate them,
// failed and cancelled ones too: the provider bills what it generated.
type Usage struct {
	pricer Pricer
}

// NewUsage returns the middleware that prices usage with pricer.
func NewUsage(pricer Pricer) *Usage { return &Usage{pricer: pricer} }

// Name is "usage".
func (u *Usage) Name() string { return "usage" }

// Priority puts it outside the circuit breaker, whose verdict bookkeeping must
// not colour.
func (u *Usage) Priority() int { return priorityUsage }

// Wrap accounts for the attempt after next and changes neither its result nor
// its error.
func (u *Usage) Wrap(next Handler) Handler {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (result *llm.Result, err error) {
		defer func() { u.account(call, result) }()
		return next(ctx, call, emit)
	}
}

// account writes what an attempt has used. A result of nil adds nothing to what its
// earlier sends have reported.
func (u *Usage) account(call *llm.Call, result *llm.Result) {
	row := call.Signals.Attempt()
	var last llm.Usage
	if result != nil {
		last = estimated(result, call.Facts)
	}
	if len(row.Sends) == 0 {
		row.Usage = last // a report of no use is told, too
		row.Cost, row.Unpriced = u.priced(call.Target, last)
		return
	}
	row.Sends = append(row.Sends, llm.Sent{Usage: last})
	for i := range row.Sends {
		sent := &row.Sends[i]
		cost, unpriced := u.priced(call.Target, sent.Usage)
		sent.Cost = cost
		row.Usage, row.Unpriced = row.Usage.Add(sent.Usage), row.Unpriced || unpriced
		row.Cost = sumOfCosts(row.Cost, cost)
	}
}

// priced returns nil where nothing is known to have been used; unpriced is true of
// a usage without a price.
func (u *Usage) priced(target llm.Target, usage llm.Usage) (cost *decimal.Decimal, unpriced bool) {
	if !usage.Known() {
		return nil, false
	}
	cost = u.cost(target, usage)
	return cost, cost == nil
}

func sumOfCosts(a, b *decimal.Decimal) *decimal.Decimal {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	default:
		return new(a.Add(*b))
	}
}

// cost returns nil when no price is known. A pricer that panics knows none: the
// row says so, and the call goes on.
func (u *Usage) cost(target llm.Target, usage llm.Usage) (cost *decimal.Decimal) {
	defer func() {
		if recover() != nil {
			cost = nil
		}
	}()
	if amount, priced := u.pricer.Cost(target, usage); priced {
		cost = &amount
	}
	return cost
}

// estimated returns the usage that was reported and, for a stream whose content
// went up, an estimate of what was not: all of it, or what came after a report. A
// reported zero is a value, not a gap.
func estimated(result *llm.Result, facts llm.Facts) llm.Usage {
	usage := result.Usage
	if !result.Streamed || result.OutputBytes == 0 {
		return usage
	}
	if !usage.Input.Known {
		usage.Input, usage.Estimated = tokensOf(facts.TextBytes+facts.ToolBytes), true
	}
	switch {
	case !usage.Output.Known:
		usage.Output, usage.Estimated = tokensOf(result.OutputBytes), true
	case result.AfterReport > 0:
		usage.Output, usage.Estimated = usage.Output.Add(tokensOf(result.AfterReport)), true
	}
	return usage
}

// tokensOf estimates the tokens of a text at four bytes each, rounded up.
func tokensOf(textBytes int) llm.Count {
	const bytesPerToken = 4
	return llm.Tokens(int64(textBytes+bytesPerToken-1) / bytesPerToken)
}
