// Package pricelist finds the price of each declared model: beside the model
// itself, in the prices file, or in the built-in table; and it reads the lists
// that others publish. It must not know what a price is used for, and it asks
// nobody: what is not in these three places has no price.
package pricelist

import (
	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Origin is where the price of a model was found.
type Origin string

// The origins, in the order in which they are asked.
const (
	FromConfiguration Origin = "configuration"
	FromFile          Origin = "prices file"
	FromTable         Origin = "built-in table"
	FromNowhere       Origin = "" // the model is unpriced
)

// Choice is the price that governs one target. Nothing of it is valid but the
// target where the origin is FromNowhere; Half then says that there is a price of
// which only a part is written.
type Choice struct {
	Target llm.Target
	Origin Origin
	Price  config.Price
	Source string // who said so, for a price of the file or the table
	AsOf   string // the day on which it was so
	Half   bool
}

// Choose returns the choice for every declared target, in their order.
func Choose(cfg *config.Config) []Choice {
	builtIn := BuiltIn()
	var all []Choice
	for _, target := range cfg.AllTargets() {
		p := cfg.Providers[target.Provider]
		choice := Choice{Target: target}
		if own := p.Models[target.Model].Price; own.IsWritten() {
			choice.Price, choice.Origin = own, FromConfiguration
		} else if listed, found := cfg.PriceList().Find(target.Provider, target.Model); found {
			choice.take(listed, FromFile)
		} else if listed, found := builtIn.find(VendorOf(p.BaseURL), target.Model); found {
			choice.take(listed, FromTable)
		}
		if choice.Origin != FromNowhere && !choice.Price.IsWhole() {
			choice = Choice{Target: target, Half: true}
		}
		all = append(all, choice)
	}
	return all
}

func (c *Choice) take(listed config.ListedPrice, origin Origin) {
	c.Price, c.Source, c.AsOf, c.Origin = listed.Price, listed.Source, listed.AsOf, origin
}

// Prices returns the prices of the targets that have one.
func Prices(choices []Choice) *budget.Prices {
	table := map[llm.Target]budget.Price{}
	for _, c := range choices {
		if c.Origin != FromNowhere {
			table[c.Target] = exact(c.Price)
		}
	}
	return budget.NewPrices(table)
}

// exact returns a whole price as sums are made with.
func exact(p config.Price) budget.Price {
	price := budget.Price{
		TokenPrice:   exactTokens(p.TokenPrice),
		PerImage:     orZero(p.PerImage),
		PerSecond:    orZero(p.PerSecond),
		PerCharacter: orZero(p.PerCharacter),
		PerRequest:   orZero(p.PerRequest),
	}
	for _, t := range p.Tiers {
		price.Tiers = append(price.Tiers, budget.Tier{Above: int64(t.Above), TokenPrice: exactTokens(t.TokenPrice)})
	}
	return price
}

func exactTokens(p config.TokenPrice) budget.TokenPrice {
	return budget.TokenPrice{
		Input: orZero(p.Input), CachedInput: p.CachedInput, CacheWrite: p.CacheWrite, AudioInput: p.AudioInput,
		Output: orZero(p.Output), Reasoning: p.Reasoning, AudioOutput: p.AudioOutput,
	}
}
