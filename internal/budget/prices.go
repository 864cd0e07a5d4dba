// Package budget turns usage into money with exact decimals. It knows targets
// and token counts only: neither who pays, nor where a price was declared, nor
// how a cost is stored.
package budget

import (
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// costDecimals is the precision of a cost, that of the cost_usd columns.
const costDecimals = 10

// maxCost is the largest cost that is told, in USD; more does not fit into the
// cost_usd columns. Nobody pays it: it is the product of a slip in a price and a
// report that is no better.
var maxCost = decimal.New(9_999_999_999, 0)

// Price is what one model costs, in USD per 1,000,000 tokens. Zero is free.
type Price struct {
	Input       decimal.Decimal
	CachedInput *decimal.Decimal // nil: the input price
	CacheWrite  *decimal.Decimal // nil: the input price
	Output      decimal.Decimal
}

// Prices is the price table of one configuration. It does not change once it
// is made, so any number of calls may ask it at once.
type Prices struct {
	perToken map[llm.Target]rates
}

// rates are the prices of one token in each bucket, in USD.
type rates struct {
	input, cached, cacheWrite, output decimal.Decimal
}

// NewPrices makes the table. A target that is not in it has no price, which is
// not the same as a price of zero.
func NewPrices(table map[llm.Target]Price) *Prices {
	p := &Prices{perToken: make(map[llm.Target]rates, len(table))}
	for target, price := range table {
		p.perToken[target] = rates{
			input:      perToken(price.Input),
			cached:     perToken(or(price.CachedInput, price.Input)),
			cacheWrite: perToken(or(price.CacheWrite, price.Input)),
			output:     perToken(price.Output),
		}
	}
	return p
}

// Cost returns what a usage costs in USD, rounded to 10 decimals, and whether
// the target has a price at all. Each token falls into one bucket: cached and
// cache-write tokens are part of the input, reasoning tokens of the output. A
// count that is unknown costs nothing, and no report, however inconsistent,
// makes a cost negative or larger than can be stored.
func (p *Prices) Cost(t llm.Target, u llm.Usage) (cost decimal.Decimal, priced bool) {
	r, priced := p.perToken[t]
	if !priced {
		return decimal.Zero, false
	}
	cached, written := atLeastZero(u.Cached.N), atLeastZero(u.CacheWrite.N)
	uncached := atLeastZero(atLeastZero(atLeastZero(u.Input.N)-cached) - written) // none of them overflows

	cost = charge(decimal.Zero, uncached, r.input)
	cost = charge(cost, cached, r.cached)
	cost = charge(cost, written, r.cacheWrite)
	cost = charge(cost, atLeastZero(u.Output.N), r.output)
	return decimal.Min(cost.Round(costDecimals), maxCost), true
}

// charge adds tokens at a rate to a sum. An empty bucket costs no arithmetic,
// since most calls fill only two of the four.
func charge(sum decimal.Decimal, tokens int64, rate decimal.Decimal) decimal.Decimal {
	if tokens == 0 {
		return sum
	}
	return sum.Add(rate.Mul(decimal.NewFromInt(tokens)))
}

func perToken(perMillion decimal.Decimal) decimal.Decimal { return perMillion.Shift(-6) }

func or(price *decimal.Decimal, otherwise decimal.Decimal) decimal.Decimal {
	if price != nil {
		return *price
	}
	return otherwise
}

func atLeastZero(n int64) int64 { return max(n, 0) }
