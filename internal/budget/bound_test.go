package budget_test

import (
	"math"
	"testing"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

var (
	bounded   = llm.Target{Provider: "alpha", Model: "m1", Region: "r1"}
	elsewhere = llm.Target{Provider: "beta", Model: "m1", Region: "r1"}
)

// atOneDollar are prices of 1 USD per million tokens of input and 5 of output.
func atOneDollar() *budget.Prices {
	return budget.NewPrices(map[llm.Target]budget.Price{bounded: {
		TokenPrice: budget.TokenPrice{Input: decimal.NewFromInt(1), Output: decimal.NewFromInt(5)},
	}})
}

func TestBounds(t *testing.T) {
	t.Parallel()
	const defaultOutput = 4096
	tests := map[string]struct {
		model          budget.Capacity
		body, inserted int // bytes
		facts          llm.Facts
		input, output  int64
		limit          int
	}{
		"a token is a byte":                     {body: 100, input: 100, output: defaultOutput, limit: defaultOutput},
		"what is inserted counts":               {body: 100, inserted: 40, input: 140, output: defaultOutput, limit: defaultOutput},
		"the caller's limit":                    {body: 100, facts: llm.Facts{MostOutput: 7}, input: 100, output: 7, limit: 7},
		"of several answers":                    {body: 100, facts: llm.Facts{MostOutput: 7, Choices: 3}, input: 100, output: 21, limit: 7},
		"the model's limit":                     {model: budget.Capacity{MaxOutput: 50}, body: 100, input: 100, output: 50, limit: 50},
		"the caller's, over the model's":        {model: budget.Capacity{MaxOutput: 50}, body: 100, facts: llm.Facts{MostOutput: 70}, input: 100, output: 70, limit: 70},
		"the window":                            {model: budget.Capacity{ContextWindow: 60}, body: 100, input: 60, output: 60, limit: 60},
		"an image at a model that says nothing": {body: 500, facts: llm.Facts{Media: 1, MediaBytes: 400}, input: 100 + 131072, output: defaultOutput, limit: defaultOutput},
		"images by the model's own word":        {model: budget.Capacity{Media: 1500}, body: 500, facts: llm.Facts{Media: 2, MediaBytes: 400}, input: 100 + 3000, output: defaultOutput, limit: defaultOutput},
		"an image in a window":                  {model: budget.Capacity{ContextWindow: 9000}, body: 500, facts: llm.Facts{Media: 1, MediaBytes: 400}, input: 9000, output: defaultOutput, limit: defaultOutput},
		"a file is no image":                    {model: budget.Capacity{Media: 1500}, body: 500, facts: llm.Facts{Files: 1, MediaBytes: 400}, input: 100 + 131072, output: defaultOutput, limit: defaultOutput},
		"out of all proportion": {
			body: 100, facts: llm.Facts{MostOutput: math.MaxInt32, Choices: math.MaxInt32},
			input: 100, output: math.MaxInt32 * math.MaxInt32, limit: math.MaxInt32,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bounds := budget.NewBounds(map[llm.Target]budget.Capacity{bounded: tt.model, elsewhere: tt.model}, atOneDollar(), defaultOutput)
			call := &llm.Call{Body: make([]byte, tt.body), Insert: llm.Insertion{Text: make([]byte, tt.inserted)}, Facts: tt.facts}
			got := bounds.Of(bounded, call)
			if got.Input != tt.input || got.Output != tt.output || got.OutputLimit != tt.limit || !got.Priced {
				t.Errorf("bound %+v, want %d tokens in, %d out, answers of %d", got, tt.input, tt.output, tt.limit)
			}
			want := decimal.NewFromInt(tt.input).Add(decimal.NewFromInt(tt.output).Mul(decimal.NewFromInt(5))).Shift(-6)
			if want = decimal.Min(want, decimal.NewFromInt(9_999_999_999)); !got.Cost.Equal(want) {
				t.Errorf("bound of %s USD, want %s", got.Cost, want)
			}
			if other := bounds.Of(elsewhere, call); other.Priced || !other.Cost.IsZero() || other.Input != got.Input {
				t.Errorf("bound %+v of a target without a price, want the same tokens and no cost", other)
			}
		})
	}
}

// BUD-01's worst case.
func TestBounds_WorstCaseOfACall(t *testing.T) {
	t.Parallel()
	prices := budget.NewPrices(map[llm.Target]budget.Price{bounded: {TokenPrice: budget.TokenPrice{Output: decimal.NewFromInt(5)}}})
	got := budget.NewBounds(nil, prices, 4096).Of(bounded, &llm.Call{Body: make([]byte, 60), Facts: llm.Facts{MostOutput: 120}})
	if want := decimal.RequireFromString("0.0006"); !got.Cost.Equal(want) {
		t.Errorf("bound of %s USD, want %s", got.Cost, want)
	}
}

// Whatever a provider reports within a bound costs no more than the bound, in any
// tier, however its tokens fall into buckets.
func TestBounds_HoldEveryUsageWithin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		money := func(name string) decimal.Decimal { return decimal.New(rapid.Int64Range(0, 1e9).Draw(t, name), -7) }
		maybe := func(name string) *decimal.Decimal {
			if rapid.Bool().Draw(t, name+" is set") {
				return new(money(name))
			}
			return nil
		}
		tokenPrice := func(name string) budget.TokenPrice {
			return budget.TokenPrice{
				Input: money(name + " input"), CachedInput: maybe(name + " cached"), CacheWrite: maybe(name + " written"),
				Output: money(name + " output"), Reasoning: maybe(name + " reasoning"),
			}
		}
		price := budget.Price{TokenPrice: tokenPrice("base"), PerRequest: money("request")}
		if rapid.Bool().Draw(t, "tiers") {
			price.Tiers = []budget.Tier{{Above: rapid.Int64Range(1, 5000).Draw(t, "above"), TokenPrice: tokenPrice("tier")}}
		}
		prices := budget.NewPrices(map[llm.Target]budget.Price{bounded: price})
		model := budget.Capacity{
			ContextWindow: rapid.IntRange(0, 10_000).Draw(t, "window"), MaxOutput: rapid.IntRange(0, 5000).Draw(t, "max output"), Media: rapid.IntRange(0, 2000).Draw(t, "media"),
		}
		call := &llm.Call{
			Body: make([]byte, rapid.IntRange(0, 10_000).Draw(t, "bytes")),
			Facts: llm.Facts{
				MostOutput: rapid.IntRange(0, math.MaxInt32).Draw(t, "limit"), Choices: rapid.IntRange(0, 20).Draw(t, "choices"),
				Media: rapid.IntRange(0, 3).Draw(t, "images"), Files: rapid.IntRange(0, 2).Draw(t, "files"), MediaBytes: rapid.IntRange(0, 20_000).Draw(t, "media bytes"),
			},
		}
		bound := budget.NewBounds(map[llm.Target]budget.Capacity{bounded: model}, prices, 4096).Of(bounded, call)
		if bound.Input < 0 || bound.Output < 0 || bound.OutputLimit <= 0 || bound.Cost.IsNegative() {
			t.Fatalf("bound %+v", bound)
		}

		input := rapid.Int64Range(0, bound.Input).Draw(t, "used input")
		cached := rapid.Int64Range(0, input).Draw(t, "cached")
		output := rapid.Int64Range(0, bound.Output).Draw(t, "used output")
		usage := llm.Usage{
			Input: llm.Tokens(input), Cached: llm.Tokens(cached), CacheWrite: llm.Tokens(rapid.Int64Range(0, input-cached).Draw(t, "written")),
			Output: llm.Tokens(output), Reasoning: llm.Tokens(rapid.Int64Range(0, output).Draw(t, "reasoning")),
		}
		if cost, _ := prices.Cost(bounded, usage); cost.GreaterThan(bound.Cost) {
			t.Fatalf("%+v costs %s, over its bound %+v", usage, cost, bound)
		}
	})
}
