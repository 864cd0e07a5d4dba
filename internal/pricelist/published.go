package pricelist

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/config"
)

// Format is the form in which a list of prices was published.
type Format string

// The formats that Read knows.
const (
	LiteLLM   Format = "LiteLLM"
	ModelsDev Format = "models.dev"
)

// Published is a list of prices as somebody else publishes it.
type Published struct {
	Format Format
	vendor map[string]string // by host, where the list says it
	offers map[vendorModel]offer
}

// offer is one model of a list; its price is read when it is asked for, since a
// list holds thousands and a gateway few.
type offer struct {
	at     string // where in the list it is
	fields fields
}

// fields are the members of a JSON object, as they are written.
type fields map[string]jsontext.Value

// Quote is what a list says about one model.
type Quote struct {
	Price      config.Price
	NotApplied []string // prices of the model that have no place in ours, by the list's names
}

// ErrNotFound is returned for a model that a list does not have, or has without
// a price.
var ErrNotFound = errors.New("not in the list")

// errUnread is a price that is there and cannot be read.
type errUnread struct{ at, problem string }

func (e errUnread) Error() string { return e.at + " " + e.problem }

// Read recognises a published list by what is in it. The error says what of it is
// not as it should be.
func Read(data []byte) (*Published, error) {
	members, err := object(data)
	if err != nil {
		return nil, fmt.Errorf("the list is not JSON that can be read: %w", err)
	}
	for _, name := range sorted(members) {
		entry, err := object(members[name])
		switch {
		case err != nil:
			continue
		case entry["litellm_provider"] != nil && name != sampleSpec:
			return readLiteLLM(members)
		case entry["models"].Kind() == '{':
			return readModelsDev(members)
		}
	}
	return nil, errors.New("the list is neither LiteLLM's model_prices_and_context_window.json nor api.json of models.dev")
}

// Vendor returns the vendor in whose list the models of a base URL are; nothing
// when the list says nothing about that host.
func (p *Published) Vendor(baseURL string) string {
	if known := VendorOf(baseURL); known != "" {
		return known
	}
	if host := hostOf(baseURL); host != "" {
		return p.vendor[host]
	}
	return ""
}

// Has reports whether models of a vendor are in the list, by the vendor's name
// here or in the list.
func (p *Published) Has(vendor string) bool {
	return slices.Contains(p.Vendors(), p.nameOf(vendorNamed(vendor)))
}

// Vendors returns the vendors whose models are in the list, by their names there
// and in the order of these.
func (p *Published) Vendors() []string {
	there := map[string]bool{}
	for key := range p.offers {
		there[key.vendor] = true
	}
	return slices.Sorted(maps.Keys(there))
}

// nameOf is what the list calls a vendor.
func (p *Published) nameOf(v vendor) string {
	if p.Format == LiteLLM {
		return v.lite
	}
	return v.name
}

// Find returns what the list says of a vendor's model, by the vendor's name here
// or in the list.
func (p *Published) Find(name, model string) (Quote, error) {
	v := vendorNamed(name)
	key := vendorModel{p.nameOf(v), strings.TrimPrefix(model, v.modelsAt)}
	found, ok := p.offers[key]
	if !ok {
		return Quote{}, ErrNotFound
	}
	if p.Format == LiteLLM {
		return found.liteLLM()
	}
	return found.modelsDev()
}

// object reads a JSON object, each name once.
func object(value jsontext.Value) (fields, error) {
	if value.Kind() != '{' {
		return nil, errors.New("it is not an object")
	}
	var members fields
	if err := json.Unmarshal(value, &members); err != nil {
		return nil, err
	}
	return members, nil
}

// money reads an amount that may be missing or null. A number that is negative,
// or so odd that it is none, is an error.
func (f fields) money(at, name string) (*decimal.Decimal, error) {
	value := f[name]
	switch value.Kind() {
	case 0, 'n':
		return nil, nil
	case '0':
	default:
		return nil, errUnread{at + "." + name, "is not a number"}
	}
	amount, err := decimal.NewFromString(string(value))
	switch {
	case err != nil || amount.Exponent() < -30 || amount.Exponent() > 12:
		return nil, errUnread{at + "." + name, "is not a number that can be a price"}
	case amount.IsNegative():
		return nil, errUnread{at + "." + name, "is negative"}
	}
	return &amount, nil
}

// fit holds an amount to what a prices file can say: up to ten decimals and a
// million USD.
func fit(at string, amount *decimal.Decimal) error {
	const decimals, most = 10, 1_000_000
	if amount == nil {
		return nil
	}
	if !amount.Equal(amount.Truncate(decimals)) {
		return errUnread{at, fmt.Sprintf("is %s, which has more decimals than the %d that are kept", amount, decimals)}
	}
	if amount.GreaterThan(decimal.NewFromInt(most)) {
		return errUnread{at, fmt.Sprintf("is %s, which is more than any price", amount)}
	}
	return nil
}

// tidy drops what says the same as its absence, orders the tiers, and makes sure
// that the price can be told.
func (q *Quote) tidy(at string) error {
	slices.Sort(q.NotApplied)
	slices.SortFunc(q.Price.Tiers, func(a, b config.PriceTier) int { return a.Above - b.Above })
	tidyTokens(&q.Price.TokenPrice)
	amounts := []*decimal.Decimal{q.Price.PerImage, q.Price.PerSecond, q.Price.PerCharacter, q.Price.PerRequest}
	amounts = append(amounts, tokenAmounts(q.Price.TokenPrice)...)
	for i := range q.Price.Tiers {
		tidyTokens(&q.Price.Tiers[i].TokenPrice)
		amounts = append(amounts, tokenAmounts(q.Price.Tiers[i].TokenPrice)...)
	}
	for _, amount := range amounts {
		if err := fit(at, amount); err != nil {
			return err
		}
	}
	if !q.Price.IsWritten() {
		return ErrNotFound
	}
	if !q.Price.IsWhole() {
		return errUnread{at, "has only a part of a price"}
	}
	return nil
}

func tokenAmounts(p config.TokenPrice) []*decimal.Decimal {
	return []*decimal.Decimal{p.Input, p.CachedInput, p.CacheWrite, p.AudioInput, p.Output, p.Reasoning, p.AudioOutput}
}

func tidyTokens(p *config.TokenPrice) {
	for _, part := range []struct{ of, whole **decimal.Decimal }{
		{&p.CachedInput, &p.Input}, {&p.CacheWrite, &p.Input}, {&p.AudioInput, &p.Input},
		{&p.Reasoning, &p.Output}, {&p.AudioOutput, &p.Output},
	} {
		if *part.of != nil && *part.whole != nil && (*part.of).Equal(**part.whole) {
			*part.of = nil
		}
	}
}
