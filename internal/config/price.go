package config

import (
	"github.com/shopspring/decimal"
)

// Price is what a model costs, in USD. A price that is not written is unknown,
// which is not 0: a model with price 0 is free.
type Price struct {
	TokenPrice

	Tiers        []PriceTier      `yaml:"tiers,omitempty" doc:"Other prices for all tokens of calls with a long prompt, in ascending order of above."`
	PerImage     *decimal.Decimal `yaml:"per_image,omitempty" check:"min=0,max=1000000" doc:"USD per picture that is made."`
	PerSecond    *decimal.Decimal `yaml:"per_second,omitempty" check:"min=0,max=1000000" doc:"USD per second of sound or film."`
	PerCharacter *decimal.Decimal `yaml:"per_character,omitempty" check:"min=0,max=1000000" doc:"USD per character that is read out."`
	PerRequest   *decimal.Decimal `yaml:"per_request,omitempty" check:"min=0,max=1000000" doc:"USD per attempt that used anything, beside what it used."`
}

// TokenPrice is what tokens cost, in USD per million. Cached, written and audio
// tokens are part of the input, reasoning and audio tokens of the output.
type TokenPrice struct {
	Input       *decimal.Decimal `yaml:"input,omitempty" check:"min=0,max=1000000" doc:"USD per million input tokens; 0 = free. A model without any price here has that of the prices file, else the built-in one, else it is unpriced."`
	CachedInput *decimal.Decimal `yaml:"cached_input,omitempty" check:"min=0,max=1000000" doc:"USD per million input tokens read from the provider's cache; absent = the input price."`
	CacheWrite  *decimal.Decimal `yaml:"cache_write,omitempty" check:"min=0,max=1000000" doc:"USD per million input tokens written to the provider's cache; absent = the input price."`
	AudioInput  *decimal.Decimal `yaml:"audio_input,omitempty" check:"min=0,max=1000000" doc:"USD per million input tokens of sound; absent = the input price."`
	Output      *decimal.Decimal `yaml:"output,omitempty" check:"min=0,max=1000000" doc:"USD per million output tokens; 0 = free. Only one of input and output leaves a model unpriced."`
	Reasoning   *decimal.Decimal `yaml:"reasoning,omitempty" check:"min=0,max=1000000" doc:"USD per million output tokens of reasoning; absent = the output price."`
	AudioOutput *decimal.Decimal `yaml:"audio_output,omitempty" check:"min=0,max=1000000" doc:"USD per million output tokens of sound; absent = the output price."`
}

// PriceTier is what all tokens of a call cost when its prompt is over a bound.
type PriceTier struct {
	Above int `yaml:"above" check:"over=0" doc:"Input tokens, cached ones included; a call with exactly so many is not in the tier."`
	TokenPrice
}

// IsWritten reports whether any part of a price is given, so that no other
// list's price takes its place.
func (p Price) IsWritten() bool {
	return p.TokenPrice != TokenPrice{} || p.Tiers != nil || p.others() != [4]*decimal.Decimal{}
}

// IsWhole reports whether a cost can be told: both prices of tokens are given,
// or none of them and another price. Half a cost would be taken for a whole one.
func (p Price) IsWhole() bool {
	if p.TokenPrice == (TokenPrice{}) && p.Tiers == nil {
		return p.others() != [4]*decimal.Decimal{}
	}
	return p.Input != nil && p.Output != nil
}

func (p Price) others() [4]*decimal.Decimal {
	return [4]*decimal.Decimal{p.PerImage, p.PerSecond, p.PerCharacter, p.PerRequest}
}

// check looks at what the rules beside the keys cannot see.
func (p Price) check(r *report, at path) {
	tiers := at.key("tiers")
	if p.Tiers == nil || !r.sound(tiers) {
		return
	}
	if len(p.Tiers) == 0 {
		r.fault(tiers, "is empty", "list the tiers, or remove it")
	}
	if p.Input == nil || p.Output == nil {
		r.fault(tiers, "stands without the prices below it", "write input and output beside it")
	}
	for i, tier := range p.Tiers {
		one := tiers.index(i)
		if !r.sound(one, one.key("above")) {
			continue
		}
		if tier.Input == nil || tier.Output == nil {
			r.fault(one, "lacks a price", "write both input and output; nothing is taken from below the tier")
		}
		if i > 0 && r.sound(tiers.index(i-1).key("above")) && tier.Above <= p.Tiers[i-1].Above {
			r.fault(one.key("above"), "is not more than that of the tier before", "order the tiers by above, each once")
		}
	}
}
