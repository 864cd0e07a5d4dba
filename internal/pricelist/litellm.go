package pricelist

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/config"
)

// sampleSpec is the entry of LiteLLM's list that explains the others.
const sampleSpec = "sample_spec"

// readLiteLLM indexes LiteLLM's list, whose entries are models of many vendors
// side by side: the vendor stands in the entry, and most often before the name.
func readLiteLLM(members fields) (*Published, error) {
	p := &Published{Format: LiteLLM, offers: map[vendorModel]offer{}}
	for _, name := range sorted(members) {
		if name == sampleSpec {
			continue
		}
		entry, err := object(members[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strconv.Quote(name), err)
		}
		vendor, err := entry.text("litellm_provider")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strconv.Quote(name), err)
		}
		if vendor == "" {
			continue // a note between the models
		}
		key := vendorModel{vendor, strings.TrimPrefix(name, vendor+"/")}
		if _, twice := p.offers[key]; twice && key.model == name {
			continue // the entry with the vendor before its name is the vendor's own
		}
		p.offers[key] = offer{at: name, fields: entry}
	}
	return p, nil
}

// liteTokens are the prices of one token, by their names here.
var liteTokens = map[string]func(*config.TokenPrice) **decimal.Decimal{
	"input_cost_per_token":            func(p *config.TokenPrice) **decimal.Decimal { return &p.Input },
	"cache_read_input_token_cost":     func(p *config.TokenPrice) **decimal.Decimal { return &p.CachedInput },
	"cache_creation_input_token_cost": func(p *config.TokenPrice) **decimal.Decimal { return &p.CacheWrite },
	"input_cost_per_audio_token":      func(p *config.TokenPrice) **decimal.Decimal { return &p.AudioInput },
	"output_cost_per_token":           func(p *config.TokenPrice) **decimal.Decimal { return &p.Output },
	"output_cost_per_reasoning_token": func(p *config.TokenPrice) **decimal.Decimal { return &p.Reasoning },
	"output_cost_per_audio_token":     func(p *config.TokenPrice) **decimal.Decimal { return &p.AudioOutput },
}

// liteOthers are the prices of everything else.
var liteOthers = map[string]func(*config.Price) **decimal.Decimal{
	"output_cost_per_image":    func(p *config.Price) **decimal.Decimal { return &p.PerImage },
	"input_cost_per_second":    func(p *config.Price) **decimal.Decimal { return &p.PerSecond },
	"output_cost_per_second":   func(p *config.Price) **decimal.Decimal { return &p.PerSecond },
	"input_cost_per_character": func(p *config.Price) **decimal.Decimal { return &p.PerCharacter },
	"input_cost_per_request":   func(p *config.Price) **decimal.Decimal { return &p.PerRequest },
}

// inTier splits a name such as input_cost_per_token_above_272k_tokens.
var inTier = regexp.MustCompile(`^(.+)_above_([1-9][0-9]{0,5})k_tokens$`)

// liteLLM reads an entry, whose amounts are USD for one token. What a tier does
// not name is as below it, as LiteLLM has it.
func (o offer) liteLLM() (Quote, error) {
	var q Quote
	tiers := map[int]*config.TokenPrice{}
	for _, name := range sorted(o.fields) {
		place, applied := q.placeOf(name, tiers)
		switch {
		case !applied && isPrice(name) && !o.fields.isZero(name):
			q.NotApplied = append(q.NotApplied, name)
		case applied:
			amount, err := o.fields.money(o.at, name)
			if err != nil {
				return Quote{}, err
			}
			place(amount, name)
		}
	}
	q.embedding(o.fields)
	tidyTokens(&q.Price.TokenPrice) // what costs the same as its whole does so in each tier, too
	for above, tier := range tiers {
		q.Price.Tiers = append(q.Price.Tiers, config.PriceTier{Above: above, TokenPrice: filled(*tier, q.Price.TokenPrice)})
	}
	return q, q.tidy(o.at)
}

// placeOf returns where an amount of that name goes, and whether it has a place.
func (q *Quote) placeOf(name string, tiers map[int]*config.TokenPrice) (put func(amount *decimal.Decimal, name string), applied bool) {
	if token, ok := liteTokens[name]; ok {
		return func(amount *decimal.Decimal, _ string) { *token(&q.Price.TokenPrice) = million(amount) }, true
	}
	if other, ok := liteOthers[name]; ok {
		return func(amount *decimal.Decimal, name string) { q.putOther(other(&q.Price), amount, name) }, true
	}
	parts := inTier.FindStringSubmatch(name)
	if parts == nil || liteTokens[parts[1]] == nil {
		return nil, false
	}
	thousands, _ := strconv.Atoi(parts[2]) // digits, by the pattern
	return func(amount *decimal.Decimal, _ string) {
		above := thousands * 1000
		if amount == nil {
			return
		}
		if tiers[above] == nil {
			tiers[above] = &config.TokenPrice{}
		}
		*liteTokens[parts[1]](tiers[above]) = million(amount)
	}, true
}

// putOther puts in the price of what is no token. Where both what goes in and
// what comes out is paid, one price cannot say it, and the second is not applied.
func (q *Quote) putOther(into **decimal.Decimal, amount *decimal.Decimal, name string) {
	switch {
	case amount == nil:
	case *into == nil || (*into).IsZero():
		*into = amount
	case !amount.IsZero():
		q.NotApplied = append(q.NotApplied, name)
	}
}

// million turns the price of one token into that of a million, exactly.
func million(amount *decimal.Decimal) *decimal.Decimal {
	if amount == nil {
		return nil
	}
	shifted := amount.Shift(6)
	return &shifted
}

// embedding gives the price 0 to the output of a model that has none, since
// the list leaves it out.
func (q *Quote) embedding(entry fields) {
	if mode, _ := entry.text("mode"); mode == "embedding" && q.Price.Input != nil && q.Price.Output == nil {
		q.Price.Output = &decimal.Decimal{}
	}
}

// filled returns a tier with what it does not say taken from below it.
func filled(tier, below config.TokenPrice) config.TokenPrice {
	for _, place := range liteTokens {
		if into := place(&tier); *into == nil {
			*into = *place(&below)
		}
	}
	return tier
}

// isPrice reports whether a member of an entry says what something costs. Others
// say what a model can do; there are many and new ones come often.
func isPrice(name string) bool {
	return strings.Contains(name, "cost") || strings.Contains(name, "pricing") || strings.Contains(name, "multiplier")
}

// isZero reports whether a member is nothing, or the number 0.
func (f fields) isZero(name string) bool {
	amount, err := f.money("", name)
	return err == nil && (amount == nil || amount.IsZero())
}
