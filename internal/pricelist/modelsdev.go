package pricelist

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/config"
)

// readModelsDev indexes api.json of models.dev: models by provider.
func readModelsDev(members fields) (*Published, error) {
	p := &Published{Format: ModelsDev, vendor: map[string]string{}, offers: map[vendorModel]offer{}}
	for _, vendor := range sorted(members) {
		entry, err := object(members[vendor])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strconv.Quote(vendor), err)
		}
		models, err := object(entry["models"])
		if err != nil {
			return nil, fmt.Errorf("models of %s: %w", strconv.Quote(vendor), err)
		}
		api, err := entry.text("api")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strconv.Quote(vendor), err)
		}
		if host := hostOf(api); host != "" {
			p.share(host, vendor)
		}
		for _, model := range sorted(models) {
			fields, err := object(models[model])
			if err != nil {
				return nil, fmt.Errorf("%s of %s: %w", strconv.Quote(model), strconv.Quote(vendor), err)
			}
			p.offers[vendorModel{vendor, model}] = offer{at: vendor + "/" + model, fields: fields}
		}
	}
	return p, nil
}

// share notes whose host it is. One that several providers name, as that of a
// plan beside the plain API, is nobody's: the price would be a guess.
func (p *Published) share(host, vendor string) {
	if _, taken := p.vendor[host]; taken {
		vendor = ""
	}
	p.vendor[host] = vendor
}

// devTokens are the prices of a million tokens, by their names here.
var devTokens = map[string]func(*config.TokenPrice) **decimal.Decimal{
	"input":        func(p *config.TokenPrice) **decimal.Decimal { return &p.Input },
	"cache_read":   func(p *config.TokenPrice) **decimal.Decimal { return &p.CachedInput },
	"cache_write":  func(p *config.TokenPrice) **decimal.Decimal { return &p.CacheWrite },
	"input_audio":  func(p *config.TokenPrice) **decimal.Decimal { return &p.AudioInput },
	"output":       func(p *config.TokenPrice) **decimal.Decimal { return &p.Output },
	"reasoning":    func(p *config.TokenPrice) **decimal.Decimal { return &p.Reasoning },
	"output_audio": func(p *config.TokenPrice) **decimal.Decimal { return &p.AudioOutput },
}

// over200k is how the list wrote a tier before it had others.
const over200k, over200kBound = "context_over_200k", 200_000

// modelsDev reads the cost of an entry, whose amounts are USD for a million
// tokens already.
func (o offer) modelsDev() (Quote, error) {
	if kind := o.fields["cost"].Kind(); kind == 0 || kind == 'n' {
		return Quote{}, ErrNotFound
	}
	cost, err := object(o.fields["cost"])
	if err != nil {
		return Quote{}, errUnread{o.at + ".cost", "is not an object"}
	}
	var q Quote
	if q.Price.TokenPrice, err = q.takeDev(o.at+".cost", cost, "tiers", over200k); err != nil {
		return Quote{}, err
	}
	if err := q.tiersDev(o.at+".cost", cost); err != nil {
		return Quote{}, err
	}
	return q, q.tidy(o.at)
}

// takeDev reads the prices of tokens and notes what else there is, beside what
// the caller reads.
func (q *Quote) takeDev(at string, cost fields, besides ...string) (tokens config.TokenPrice, err error) {
	for _, name := range sorted(cost) {
		place, known := devTokens[name]
		switch {
		case slices.Contains(besides, name):
			continue
		case !known:
			q.NotApplied = append(q.NotApplied, name)
			continue
		}
		if *place(&tokens), err = cost.money(at, name); err != nil {
			return tokens, err
		}
	}
	return tokens, nil
}

func (q *Quote) tiersDev(at string, cost fields) error {
	var tiers []jsontext.Value
	if kind := cost["tiers"].Kind(); kind != 0 && kind != 'n' {
		if err := json.Unmarshal(cost["tiers"], &tiers); err != nil {
			return errUnread{at + ".tiers", "is not a list"}
		}
	}
	for i, value := range tiers {
		one := fmt.Sprintf("%s.tiers[%d]", at, i)
		tier, err := object(value)
		if err != nil {
			return errUnread{one, "is not an object"}
		}
		above, err := boundOf(tier)
		if err != nil {
			return errUnread{one, err.Error()}
		}
		if err := q.addTier(one, above, tier, "tier"); err != nil {
			return err
		}
	}
	if kind := cost[over200k].Kind(); len(tiers) > 0 || kind == 0 || kind == 'n' {
		return nil
	}
	tier, err := object(cost[over200k])
	if err != nil {
		return errUnread{at + "." + over200k, "is not an object"}
	}
	return q.addTier(at+"."+over200k, over200kBound, tier)
}

// addTier adds one tier. What it does not say of cached and audio tokens costs
// as its own input or output.
func (q *Quote) addTier(at string, above int, tier fields, besides ...string) error {
	tokens, err := q.takeDev(at, tier, besides...)
	switch {
	case err != nil:
		return err
	case tokens.Input == nil || tokens.Output == nil:
		return errUnread{at, "lacks input or output"}
	case slices.ContainsFunc(q.Price.Tiers, func(t config.PriceTier) bool { return t.Above == above }):
		return errUnread{at, "is a tier that is there twice"}
	}
	q.Price.Tiers = append(q.Price.Tiers, config.PriceTier{Above: above, TokenPrice: tokens})
	return nil
}

// boundOf returns how much input is below a tier.
func boundOf(tier fields) (int, error) {
	bound, err := object(tier["tier"])
	if err != nil {
		return 0, errors.New("does not say from where it is valid")
	}
	if kind, _ := bound.text("type"); kind != "" && kind != "context" {
		return 0, fmt.Errorf("is a tier by %s, not by context", strconv.Quote(kind))
	}
	var size int
	if err := json.Unmarshal(bound["size"], &size); err != nil || size <= 0 || size > 1_000_000_000 {
		return 0, errors.New("has a bound that is no number of tokens")
	}
	return size, nil
}

// text reads a text that may be missing.
func (f fields) text(name string) (string, error) {
	if kind := f[name].Kind(); kind == 0 || kind == 'n' {
		return "", nil
	}
	var text string
	if err := json.Unmarshal(f[name], &text); err != nil {
		return "", fmt.Errorf("%s is not text", name)
	}
	return text, nil
}

func sorted(f fields) []string { return slices.Sorted(maps.Keys(f)) }
