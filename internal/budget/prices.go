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

// Prices is the price table of one configuration. It does not change once it
// is made, so any number of calls may ask it at once.
type Prices struct {
	rates map[llm.Target]rates
}

// NewPrices makes the table of prices that are valid. A target that is not in it
// has no price, which is not the same as a price of zero.
func NewPrices(table map[llm.Target]Price) *Prices {
	p := &Prices{rates: make(map[llm.Target]rates, len(table))}
	for target, price := range table {
		p.rates[target] = ratesOf(price)
	}
	return p
}

// Cost returns what a usage costs in USD, rounded to 10 decimals, and whether
// the target has a price at all. The tier is that of the whole input. Each token
// falls into one bucket: cached and cache-write tokens are part of the input, and
// so is audio that is neither; reasoning and audio are part of the output. A
// count that is unknown costs nothing, and no report, however inconsistent,
// makes a cost negative or larger than can be stored.
func (p *Prices) Cost(t llm.Target, u llm.Usage) (cost decimal.Decimal, priced bool) {
	r, priced := p.rates[t]
	if !priced {
		return decimal.Zero, false
	}
	b := bucketsOf(u)
	tier := r.tier(b.total)

	cost = charge(r.request, b.input, tier.input)
	cost = charge(cost, b.cached, tier.cached)
	cost = charge(cost, b.cacheWrite, tier.cacheWrite)
	cost = charge(cost, b.audio, tier.audio)
	cost = charge(cost, b.output, tier.output)
	cost = charge(cost, b.reasoning, tier.reasoning)
	cost = charge(cost, b.audioOutput, tier.audioOutput)
	cost = r.others(cost, b)
	return decimal.Min(cost.Round(costDecimals), maxCost), true
}

// Bound returns the most in USD that a call can cost whose counts are at most
// those of u, however its tokens fall into tiers and buckets, rounded up to 10
// decimals; and whether the target has a price. Cost of a usage within u is
// never more.
func (p *Prices) Bound(t llm.Target, u llm.Usage) (most decimal.Decimal, priced bool) {
	r, priced := p.rates[t]
	if !priced {
		return decimal.Zero, false
	}
	b := bucketsOf(u)
	most = charge(r.request, b.total, r.dear.input)
	most = charge(most, atLeastZero(u.Output.N), r.dear.output)
	most = r.others(most, b)
	return decimal.Min(most.RoundCeil(costDecimals), maxCost), true
}

// others adds what is no token.
func (r rates) others(sum decimal.Decimal, b buckets) decimal.Decimal {
	sum = charge(sum, b.images, r.image)
	sum = charge(sum, b.milliseconds, r.millisecond)
	return charge(sum, b.characters, r.character)
}

// charge adds a count at a rate to a sum. An empty bucket costs no arithmetic,
// since most calls fill only two of them.
func charge(sum decimal.Decimal, count int64, rate decimal.Decimal) decimal.Decimal {
	if count == 0 {
		return sum
	}
	return sum.Add(rate.Mul(decimal.NewFromInt(count)))
}
