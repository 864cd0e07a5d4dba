package budget_test

import (
	"math"
	"testing"

	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

var target = llm.Target{Provider: "alpha", Model: "m1", Region: "r1"}

func usd(s string) decimal.Decimal { return decimal.RequireFromString(s) }

func optional(s string) *decimal.Decimal {
	d := usd(s)
	return &d
}

func usage(input, cached, cacheWrite, output int64) llm.Usage {
	return llm.Usage{
		Input: llm.Tokens(input), Cached: llm.Tokens(cached),
		CacheWrite: llm.Tokens(cacheWrite), Output: llm.Tokens(output),
	}
}

// tokens is the price of a model that is paid by tokens alone.
func tokens(price budget.TokenPrice) budget.Price { return budget.Price{TokenPrice: price} }

func TestEachTokenIsBilledInOneBucket(t *testing.T) {
	t.Parallel()
	full := tokens(budget.TokenPrice{Input: usd("3"), CachedInput: optional("0.3"), CacheWrite: optional("3.75"), Output: usd("15")})
	plain := tokens(budget.TokenPrice{Input: usd("2.50"), Output: usd("10.00")})

	tests := []struct {
		name  string
		price budget.Price
		usage llm.Usage
		want  string
	}{
		{"CST-01 cached tokens are part of the input",
			tokens(budget.TokenPrice{Input: usd("1"), CachedInput: optional("0.1"), Output: usd("5")}), usage(1000, 800, 0, 100), "0.00078"},
		{"CST-03 cache writes have one rate", full, usage(2000, 500, 300, 0), "0.004875"},
		{"CF-U10 input and output", plain, usage(1000, 0, 0, 500), "0.0075"},
		{"CF-U13 a measured zero of output", plain, usage(120, 0, 0, 0), "0.0003"},
		{"cached without its own price is input", plain, usage(1000, 800, 0, 0), "0.0025"},
		{"cache write without its own price is input", plain, usage(1000, 0, 400, 0), "0.0025"},
		{"cached declared free", tokens(budget.TokenPrice{Input: usd("1"), CachedInput: optional("0")}), usage(1000, 800, 0, 0), "0.0002"},
		{"a price of zero is free, not unpriced", budget.Price{}, usage(1000, 0, 0, 1000), "0"},
		{"reasoning is part of the output", plain,
			llm.Usage{Output: llm.Tokens(500), Reasoning: llm.Tokens(400)}, "0.005"},
		{"unknown counts cost nothing", plain, llm.Usage{}, "0"},
		{"more cached than input leaves no negative rest", full, usage(100, 150, 0, 0), "0.000045"},
		{"negative counts give no credit", full, usage(-100, -5, -5, -7), "0"},
		{"a cost beyond all measure is the largest", plain, usage(math.MaxInt64, 0, 0, math.MaxInt64), "9999999999"},
		{"the largest cached counts are no input", tokens(budget.TokenPrice{Input: usd("1"), CachedInput: optional("0"), CacheWrite: optional("0")}),
			usage(0, math.MaxInt64, math.MaxInt64, 0), "0"},
		{"rounded to ten decimals", tokens(budget.TokenPrice{Input: usd("0.00015")}), usage(1, 0, 0, 0), "0.0000000002"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, priced := budget.NewPrices(map[llm.Target]budget.Price{target: tt.price}).Cost(target, tt.usage)
			if !priced {
				t.Fatal("a target with a price is reported as unpriced")
			}
			if want := usd(tt.want); !got.Equal(want) {
				t.Errorf("cost = %s, want %s", got, want)
			}
		})
	}
}

func TestUnpricedIsNotFree(t *testing.T) {
	t.Parallel()
	prices := budget.NewPrices(map[llm.Target]budget.Price{target: {}})
	other := llm.Target{Provider: "alpha", Model: "m1", Region: "r2"}

	if _, priced := prices.Cost(other, usage(10, 0, 0, 2)); priced {
		t.Error("CF-U11: a target without a price is reported as priced")
	}
	if _, priced := prices.Cost(target, usage(10, 0, 0, 2)); !priced {
		t.Error("a price of zero is reported as unpriced")
	}
}

func TestOtherCountsArePaidBesideTokens(t *testing.T) {
	t.Parallel()
	price := budget.Price{
		TokenPrice:   budget.TokenPrice{Input: usd("1"), AudioInput: optional("10"), Output: usd("2"), Reasoning: optional("3"), AudioOutput: optional("20")},
		PerImage:     usd("0.04"),
		PerSecond:    usd("0.0001"),
		PerCharacter: usd("0.000015"),
		PerRequest:   usd("0.005"),
	}
	tests := []struct {
		name  string
		usage llm.Usage
		want  string
	}{
		{"a request alone", llm.Usage{}, "0.005"},
		{"three images", llm.Usage{Images: llm.Tokens(3)}, "0.125"},
		{"a second and a half", llm.Usage{Milliseconds: llm.Tokens(1500)}, "0.00515"},
		{"a hundred characters", llm.Usage{Characters: llm.Tokens(100)}, "0.0065"},
		{"audio is part of the input", llm.Usage{Input: llm.Tokens(1000), AudioInput: llm.Tokens(200)}, "0.0078"},
		{"audio that was cached is cached", llm.Usage{Input: llm.Tokens(1000), Cached: llm.Tokens(900), AudioInput: llm.Tokens(200)}, "0.0069"},
		{"reasoning and audio are part of the output",
			llm.Usage{Output: llm.Tokens(1000), Reasoning: llm.Tokens(600), AudioOutput: llm.Tokens(300)}, "0.013"},
		{"parts beyond the output are none of it",
			llm.Usage{Output: llm.Tokens(1000), Reasoning: llm.Tokens(900), AudioOutput: llm.Tokens(300)}, "0.0097"},
		{"negative counts give no credit",
			llm.Usage{Images: llm.Tokens(-1), Milliseconds: llm.Tokens(-1), Characters: llm.Tokens(-1), AudioInput: llm.Tokens(-1), Reasoning: llm.Tokens(-1), AudioOutput: llm.Tokens(-1)}, "0.005"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, _ := budget.NewPrices(map[llm.Target]budget.Price{target: price}).Cost(target, tt.usage)
			if want := usd(tt.want); !got.Equal(want) {
				t.Errorf("cost = %s, want %s", got, want)
			}
		})
	}
}

func TestATierIsChosenByTheWholeInput(t *testing.T) {
	t.Parallel()
	price := tokens(budget.TokenPrice{Input: usd("5"), CachedInput: optional("0.5"), Output: usd("30")})
	price.Tiers = []budget.Tier{
		{Above: 200_000, TokenPrice: budget.TokenPrice{Input: usd("10"), CachedInput: optional("1"), Output: usd("45")}},
		{Above: 500_000, TokenPrice: budget.TokenPrice{Input: usd("20"), Output: usd("60")}},
	}
	tests := []struct {
		name  string
		usage llm.Usage
		want  string
	}{
		{"at the bound is not over it", usage(200_000, 0, 0, 1000), "1.03"},
		{"over it, all tokens cost more", usage(200_001, 0, 0, 1000), "2.04501"},
		{"cached tokens count towards it", usage(200_001, 200_000, 0, 0), "0.20001"},
		{"written tokens count towards it", usage(200_001, 0, 200_000, 0), "2.00001"},
		{"output does not", usage(1, 0, 0, 300_000), "9.000005"},
		{"the highest that is passed", usage(500_001, 0, 0, 0), "10.00002"},
		{"what it does not say is its own input price", usage(500_001, 500_000, 0, 0), "10.00002"},
		{"parts beyond the input", usage(0, 200_001, 0, 0), "0.200001"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, _ := budget.NewPrices(map[llm.Target]budget.Price{target: price}).Cost(target, tt.usage)
			if want := usd(tt.want); !got.Equal(want) {
				t.Errorf("cost = %s, want %s", got, want)
			}
		})
	}
}

func TestABoundIsOfTheDearestTierAndBucket(t *testing.T) {
	t.Parallel()
	price := tokens(budget.TokenPrice{Input: usd("1"), CacheWrite: optional("1.25"), Output: usd("8"), Reasoning: optional("9")})
	price.Tiers = []budget.Tier{{Above: 1000, TokenPrice: budget.TokenPrice{Input: usd("2"), AudioInput: optional("4"), Output: usd("6")}}}
	price.PerRequest = usd("0.001")
	prices := budget.NewPrices(map[llm.Target]budget.Price{target: price})

	if most, priced := prices.Bound(target, usage(10, 0, 0, 5)); !priced || !most.Equal(usd("0.001085")) {
		t.Errorf("bound = %s, %t, want 0.001085, true", most, priced)
	}
	other := llm.Target{Provider: "other"}
	if _, priced := prices.Bound(other, llm.Usage{}); priced {
		t.Error("a target without a price has a bound")
	}
}

func TestAPriceThatIsNoneIsNamed(t *testing.T) {
	t.Parallel()
	tier := func(above int64) budget.Tier { return budget.Tier{Above: above} }
	tests := []struct {
		name  string
		price budget.Price
		sound bool
	}{
		{"free", budget.Price{}, true},
		{"ascending tiers", budget.Price{Tiers: []budget.Tier{tier(1), tier(2)}}, true},
		{"descending tiers", budget.Price{Tiers: []budget.Tier{tier(2), tier(1)}}, false},
		{"the same tier twice", budget.Price{Tiers: []budget.Tier{tier(2), tier(2)}}, false},
		{"a tier above nothing", budget.Price{Tiers: []budget.Tier{tier(0)}}, false},
		{"a negative price", tokens(budget.TokenPrice{Reasoning: optional("-1")}), false},
		{"a negative price in a tier", budget.Price{Tiers: []budget.Tier{{Above: 1, TokenPrice: budget.TokenPrice{Output: usd("-1")}}}}, false},
		{"a negative price of an image", budget.Price{PerImage: usd("-0.01")}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if err := tt.price.Validate(); (err == nil) != tt.sound {
				t.Errorf("validate = %v, want sound %t", err, tt.sound)
			}
		})
	}
}

func BenchmarkCost(b *testing.B) {
	prices := budget.NewPrices(map[llm.Target]budget.Price{
		target: tokens(budget.TokenPrice{Input: usd("0.40"), CachedInput: optional("0.10"), Output: usd("1.60")}),
	})
	u := usage(1200, 800, 0, 350)
	b.ReportAllocs()
	for b.Loop() {
		prices.Cost(target, u)
	}
}
