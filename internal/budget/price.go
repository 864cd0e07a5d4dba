package budget

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/shopspring/decimal"
)

// Price is what one model costs, in USD. A model may be paid by tokens, by other
// counts, or by both; zero is free.
type Price struct {
	TokenPrice

	// Tiers replace the whole TokenPrice for calls with a long prompt. They
	// stand in ascending order.
	Tiers []Tier

	PerImage     decimal.Decimal // for a picture
	PerSecond    decimal.Decimal // of sound or film
	PerCharacter decimal.Decimal // of text that is read out
	PerRequest   decimal.Decimal // for an attempt that used anything
}

// TokenPrice is what tokens cost, in USD per 1,000,000 of them.
type TokenPrice struct {
	Input       decimal.Decimal
	CachedInput *decimal.Decimal // nil: the input price
	CacheWrite  *decimal.Decimal // nil: the input price
	AudioInput  *decimal.Decimal // nil: the input price

	Output      decimal.Decimal
	Reasoning   *decimal.Decimal // nil: the output price
	AudioOutput *decimal.Decimal // nil: the output price
}

// Tier is what all tokens of a call cost when its input is over a bound.
type Tier struct {
	Above int64 // input tokens; a call with exactly so many is not in the tier
	TokenPrice
}

// Validate says what keeps a price from being one.
func (p Price) Validate() error {
	if !slices.IsSortedFunc(p.Tiers, func(a, b Tier) int { return cmp.Compare(a.Above, b.Above) }) {
		return errors.New("tiers are not in ascending order")
	}
	for i, t := range p.Tiers {
		if t.Above <= 0 || i > 0 && t.Above == p.Tiers[i-1].Above {
			return fmt.Errorf("a tier above %d input tokens has no calls of its own", t.Above)
		}
	}
	for _, amount := range p.amounts() {
		if amount.IsNegative() {
			return fmt.Errorf("%s is negative", amount)
		}
	}
	return nil
}

// amounts lists every sum of money in a price.
func (p Price) amounts() []decimal.Decimal {
	all := append(p.TokenPrice.amounts(), p.PerImage, p.PerSecond, p.PerCharacter, p.PerRequest)
	for _, t := range p.Tiers {
		all = append(all, t.amounts()...)
	}
	return all
}

func (t TokenPrice) amounts() []decimal.Decimal {
	all := []decimal.Decimal{t.Input, t.Output}
	for _, optional := range []*decimal.Decimal{t.CachedInput, t.CacheWrite, t.AudioInput, t.Reasoning, t.AudioOutput} {
		if optional != nil {
			all = append(all, *optional)
		}
	}
	return all
}
