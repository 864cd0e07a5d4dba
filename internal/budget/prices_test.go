package budget_test

import (
	"math"
	"testing"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

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

func TestEachTokenIsBilledInOneBucket(t *testing.T) {
	t.Parallel()
	full := budget.Price{Input: usd("3"), CachedInput: optional("0.3"), CacheWrite: optional("3.75"), Output: usd("15")}
	plain := budget.Price{Input: usd("2.50"), Output: usd("10.00")}

	tests := []struct {
		name  string
		price budget.Price
		usage llm.Usage
		want  string
	}{
		{"CST-01 cached tokens are part of the input",
			budget.Price{Input: usd("1"), CachedInput: optional("0.1"), Output: usd("5")}, usage(1000, 800, 0, 100), "0.00078"},
		{"CST-03 cache writes have one rate", full, usage(2000, 500, 300, 0), "0.004875"},
		{"CF-U10 input and output", plain, usage(1000, 0, 0, 500), "0.0075"},
		{"CF-U13 a measured zero of output", plain, usage(120, 0, 0, 0), "0.0003"},
		{"cached without its own price is input", plain, usage(1000, 800, 0, 0), "0.0025"},
		{"cache write without its own price is input", plain, usage(1000, 0, 400, 0), "0.0025"},
		{"cached declared free", budget.Price{Input: usd("1"), CachedInput: optional("0")}, usage(1000, 800, 0, 0), "0.0002"},
		{"a price of zero is free, not unpriced", budget.Price{}, usage(1000, 0, 0, 1000), "0"},
		{"reasoning is part of the output", plain,
			llm.Usage{Output: llm.Tokens(500), Reasoning: llm.Tokens(400)}, "0.005"},
		{"unknown counts cost nothing", plain, llm.Usage{}, "0"},
		{"more cached than input leaves no negative rest", full, usage(100, 150, 0, 0), "0.000045"},
		{"negative counts give no credit", full, usage(-100, -5, -5, -7), "0"},
		{"a cost beyond all measure is the largest", plain, usage(math.MaxInt64, 0, 0, math.MaxInt64), "9999999999"},
		{"the largest cached counts are no input", budget.Price{Input: usd("1"), CachedInput: optional("0"), CacheWrite: optional("0")},
			usage(0, math.MaxInt64, math.MaxInt64, 0), "0"},
		{"rounded to ten decimals", budget.Price{Input: usd("0.00015")}, usage(1, 0, 0, 0), "0.0000000002"},
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

// Whatever a provider reports, a cost is not negative and more output is not
// cheaper.
func TestCostIsNeverNegativeAndGrowsWithOutput(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.Int64Range(-1000, 10_000_000)
		micro := rapid.Int64Range(0, 100_000_000)
		money := func(label string) decimal.Decimal { return decimal.New(micro.Draw(t, label), -6) }
		cached, write := money("cached"), money("cacheWrite")
		prices := budget.NewPrices(map[llm.Target]budget.Price{
			target: {Input: money("input"), CachedInput: &cached, CacheWrite: &write, Output: money("output")},
		})
		u := usage(count.Draw(t, "in"), count.Draw(t, "cachedIn"), count.Draw(t, "written"), count.Draw(t, "out"))

		cost, _ := prices.Cost(target, u)
		if cost.IsNegative() {
			t.Fatalf("cost of %+v is %s", u, cost)
		}
		u.Output.N++
		if dearer, _ := prices.Cost(target, u); dearer.LessThan(cost) {
			t.Fatalf("one output token more makes %s into %s", cost, dearer)
		}
	})
}

func BenchmarkCost(b *testing.B) {
	prices := budget.NewPrices(map[llm.Target]budget.Price{
		target: {Input: usd("0.40"), CachedInput: optional("0.10"), Output: usd("1.60")},
	})
	u := usage(1200, 800, 0, 350)
	b.ReportAllocs()
	for b.Loop() {
		prices.Cost(target, u)
	}
}
