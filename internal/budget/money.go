package budget

import (
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// nanoDecimals is how many decimals of a dollar the counters keep.
const nanoDecimals = 9

var mostNano = decimal.New(top, 0)

// bound is an amount in the counters' units, rounded up. Negative amounts are 0.
func bound(a llm.Amount) sums {
	return sums{requests: 1, tokens: counts(a.Tokens), nano: nano(a.Cost, up)}
}

// truth is what was used in the counters' units, rounded to the nearest.
func truth(a llm.Amount, reached bool) sums {
	if !reached {
		return sums{}
	}
	return sums{requests: 1, tokens: counts(a.Tokens), nano: nano(a.Cost, nearest)}
}

func (s Spent) sums() sums {
	return sums{requests: counts(s.Requests), tokens: counts(s.Tokens), nano: nano(s.Cost, nearest)}
}

func counts(n int64) int64 { return min(max(n, 0), top) }

// rounding is where a part of a nano-dollar goes.
type rounding int

const (
	down rounding = iota
	nearest
	up
)

// nano is dollars in nano-dollars, from 0 to top.
func nano(d decimal.Decimal, to rounding) int64 {
	shift, digits := int(d.Exponent())+nanoDecimals, d.NumDigits()
	switch {
	case d.Sign() <= 0:
		return 0
	case digits > 18 || digits+shift > 18 || shift < -17:
		return longNano(d, to)
	}
	n := d.CoefficientInt64()
	for range shift {
		n *= 10
	}
	parts := int64(1)
	for range -shift {
		parts *= 10
	}
	whole, rest := n/parts, n%parts
	if to == up && rest > 0 || to == nearest && rest >= parts-rest {
		whole++
	}
	return min(whole, top)
}

// longNano is nano of what is not a number of 18 digits.
func longNano(d decimal.Decimal, to rounding) int64 {
	d = d.Shift(nanoDecimals)
	switch to {
	case up:
		d = d.Ceil()
	case nearest:
		d = d.Round(0)
	default:
		d = d.Floor()
	}
	if d.GreaterThan(mostNano) {
		return top
	}
	return d.IntPart()
}

// dollars is the reverse of nano.
func dollars(n int64) decimal.Decimal { return decimal.New(n, -nanoDecimals) }

// inUnit is a number of the counters in the unit of a limit.
func inUnit(limit int, n int64) decimal.Decimal {
	if limit == atCostPerDay || limit == atCostPerMonth {
		return dollars(n)
	}
	return decimal.NewFromInt(n)
}

// caps are limits in the counters' units, in the order of llm.LimitNames.
type caps [limitCount]int64

func capsOf(l llm.Limits) caps {
	return caps{
		atConcurrent: count(l.Concurrent), atRequestsPerMinute: count(l.RequestsPerMinute), atTokensPerMinute: count(l.TokensPerMinute),
		atRequestsPerDay: count(l.RequestsPerDay), atTokensPerDay: count(l.TokensPerDay), atCostPerDay: cost(l.CostPerDay),
		atRequestsPerMonth: count(l.RequestsPerMonth), atTokensPerMonth: count(l.TokensPerMonth), atCostPerMonth: cost(l.CostPerMonth),
	}
}

func count(limit *int64) int64 {
	if limit == nil {
		return none
	}
	return counts(*limit)
}

// cost is a limit rounded down, so that no bound is let through by rounding.
func cost(limit *decimal.Decimal) int64 {
	if limit == nil {
		return none
	}
	return nano(*limit, down)
}

// pack is the limits as reserve takes them.
func (c *caps) pack() string { return pack(c[:]...) }

func readCaps(text string) (c caps, ok bool) {
	in := packed{rest: text}
	for i := range c {
		f := in.any()
		if f == none {
			c[i] = none
			continue
		}
		n, whole := exact(f)
		if !whole {
			return caps{}, false
		}
		c[i] = n
	}
	return c, in.done()
}

// budgeted reports whether anything is limited whose spending is kept in the
// database.
func (c caps) budgeted() bool { return c.firstBudget() != none }

func (c caps) firstBudget() int {
	for i := atRequestsPerDay; i < limitCount; i++ {
		if c[i] != none {
			return i
		}
	}
	return none
}

// unlimited are no limits.
func unlimited() caps {
	return caps{none, none, none, none, none, none, none, none, none}
}
