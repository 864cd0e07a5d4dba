package budget_test

import (
	"slices"
	"testing"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

func drawMoney(t *rapid.T, label string) decimal.Decimal {
	return decimal.New(rapid.Int64Range(0, 100_000_000).Draw(t, label), -6)
}

func drawOptional(t *rapid.T, label string) *decimal.Decimal {
	if !rapid.Bool().Draw(t, label+" given") {
		return nil
	}
	amount := drawMoney(t, label)
	return &amount
}

func drawTokens(t *rapid.T) budget.TokenPrice {
	return budget.TokenPrice{
		Input: drawMoney(t, "input"), CachedInput: drawOptional(t, "cached"), CacheWrite: drawOptional(t, "write"), AudioInput: drawOptional(t, "audio in"),
		Output: drawMoney(t, "output"), Reasoning: drawOptional(t, "reasoning"), AudioOutput: drawOptional(t, "audio out"),
	}
}

func drawPrice(t *rapid.T) budget.Price {
	p := budget.Price{
		TokenPrice: drawTokens(t),
		PerImage:   drawMoney(t, "image"), PerSecond: drawMoney(t, "second"), PerCharacter: drawMoney(t, "character"), PerRequest: drawMoney(t, "request"),
	}
	bounds := rapid.SliceOfNDistinct(rapid.Int64Range(1, 2000), 0, 3, rapid.ID[int64]).Draw(t, "tiers")
	slices.Sort(bounds)
	for _, above := range bounds {
		p.Tiers = append(p.Tiers, budget.Tier{Above: above, TokenPrice: drawTokens(t)})
	}
	return p
}

// drawUsage draws a report, most often one whose parts fit into their whole.
func drawUsage(t *rapid.T) llm.Usage {
	count := func(label string) llm.Count {
		return llm.Count{N: rapid.Int64Range(-10, 3000).Draw(t, label), Known: rapid.Bool().Draw(t, label+" known")}
	}
	return llm.Usage{
		Input: count("in"), Cached: count("cached in"), CacheWrite: count("written"), AudioInput: count("heard"),
		Output: count("out"), Reasoning: count("reasoned"), AudioOutput: count("spoken"),
		Images: count("images"), Milliseconds: count("milliseconds"), Characters: count("characters"),
	}
}

// Whatever a provider reports, a cost is not negative, not over its bound, and
// not less when there is more of something that is paid beside the input.
func TestACostIsNeverNegativeNorOverItsBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		prices := budget.NewPrices(map[llm.Target]budget.Price{target: drawPrice(t)})
		u := drawUsage(t)
		cost, _ := prices.Cost(target, u)
		if cost.IsNegative() {
			t.Fatalf("cost of %+v is %s", u, cost)
		}
		if most, _ := prices.Bound(target, u); cost.GreaterThan(most) {
			t.Fatalf("cost of %+v is %s, over its bound %s", u, cost, most)
		}
		for name, count := range map[string]*llm.Count{"output": &u.Output, "images": &u.Images, "milliseconds": &u.Milliseconds, "characters": &u.Characters} {
			less := *count
			count.N++
			if more, _ := prices.Cost(target, u); more.LessThan(cost) {
				t.Fatalf("one more of %s makes %s into %s", name, cost, more)
			}
			*count = less
		}
	})
}

// A bound that is made before a call holds for every usage within it.
func TestABoundHoldsForWhateverIsWithinIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		prices := budget.NewPrices(map[llm.Target]budget.Price{target: drawPrice(t)})
		part := func(label string, room int64) llm.Count { return llm.Tokens(rapid.Int64Range(0, room).Draw(t, label)) }
		in, out := rapid.Int64Range(0, 3000).Draw(t, "in"), rapid.Int64Range(0, 3000).Draw(t, "out")
		most, _ := prices.Bound(target, llm.Usage{Input: llm.Tokens(in), Output: llm.Tokens(out)})

		u := llm.Usage{Input: part("input", in), Output: part("output", out)}
		u.Cached = part("cached", u.Input.N)
		u.CacheWrite = part("written", u.Input.N-u.Cached.N)
		u.AudioInput, u.Reasoning, u.AudioOutput = part("heard", in), part("reasoned", out), part("spoken", out)
		if cost, _ := prices.Cost(target, u); cost.GreaterThan(most) {
			t.Fatalf("cost of %+v is %s, over the bound %s of %d and %d tokens", u, cost, most, in, out)
		}
	})
}

// Where every bucket costs the same, it does not matter how a report divides its
// tokens: each is paid once.
func TestEachTokenIsPaidOnceHoweverItIsReported(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in, out := drawMoney(t, "in price"), drawMoney(t, "out price")
		prices := budget.NewPrices(map[llm.Target]budget.Price{target: tokens(budget.TokenPrice{Input: in, Output: out})})
		u := drawUsage(t)
		u.Input, u.Output = llm.Tokens(max(u.Input.N, 0)), llm.Tokens(max(u.Output.N, 0))
		whole := max(u.Input.N, max(u.Cached.N, 0)+max(u.CacheWrite.N, 0))

		got, _ := prices.Cost(target, u)
		want := in.Mul(decimal.NewFromInt(whole)).Add(out.Mul(decimal.NewFromInt(u.Output.N))).Shift(-6).Round(10)
		if !got.Equal(want) {
			t.Fatalf("cost of %+v is %s, want %s", u, got, want)
		}
	})
}

// More input is not cheaper where no tier is cheaper than the one below it.
func TestMoreInputIsNotCheaper(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		price := tokens(budget.TokenPrice{Input: usd("1"), CachedInput: optional("0.1"), CacheWrite: optional("1.25"), AudioInput: optional("0.5"), Output: usd("5")})
		price.Tiers = []budget.Tier{
			{Above: 1000, TokenPrice: budget.TokenPrice{Input: usd("2"), CachedInput: optional("0.2"), CacheWrite: optional("2.5"), Output: usd("7")}},
			{Above: 2000, TokenPrice: budget.TokenPrice{Input: usd("3"), Output: usd("9")}},
		}
		prices := budget.NewPrices(map[llm.Target]budget.Price{target: price})
		u := drawUsage(t)
		cost, _ := prices.Cost(target, u)
		u.Input.N += rapid.Int64Range(1, 1500).Draw(t, "more")
		if more, _ := prices.Cost(target, u); more.LessThan(cost) {
			t.Fatalf("more input makes %s into %s: %+v", cost, more, u)
		}
	})
}
