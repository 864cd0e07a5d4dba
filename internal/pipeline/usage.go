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
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		result, err := next(ctx, call, emit)
		if result != nil {
			u.account(call, result)
		}
		return result, err
	}
}

func (u *Usage) account(call *llm.Call, result *llm.Result) {
	usage := estimated(result, call.Facts)
	row := call.Signals.Attempt()
	row.Usage = usage // a report of no use is told, too
	if !usage.Known() {
		return
	}
	row.Cost = u.cost(call.Target, usage)
	row.Unpriced = row.Cost == nil
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
// went up, an estimate of what was not. A reported zero is a value, not a gap.
func estimated(result *llm.Result, facts llm.Facts) llm.Usage {
	usage := result.Usage
	if !result.Streamed || result.OutputBytes == 0 {
		return usage
	}
	if !usage.Input.Known {
		usage.Input, usage.Estimated = tokensOf(facts.TextBytes), true
	}
	if !usage.Output.Known {
		usage.Output, usage.Estimated = tokensOf(result.OutputBytes), true
	}
	return usage
}

// tokensOf estimates the tokens of a text at four bytes each, rounded up.
func tokensOf(textBytes int) llm.Count {
	const bytesPerToken = 4
	return llm.Tokens(int64(textBytes+bytesPerToken-1) / bytesPerToken)
}
