package pricelist

import (
	"cmp"
	"errors"
	"maps"

	"github.com/breakwater-llm/breakwater/internal/config"
)

// Change is what an import does to one declared model.
type Change struct {
	Now    Choice
	Vendor string // in whose list it was looked for; empty: nobody knows
	Next   config.ListedPrice
	Quote  Quote
	Err    error // ErrNotFound, or why the list's price cannot be taken
}

// Found reports whether the list has a price that can be taken.
func (c Change) Found() bool { return c.Err == nil }

// ErrNoVendor is returned for a provider whose host no list knows.
var ErrNoVendor = errors.New("no vendor is known by the provider's host")

// Preview looks up every declared model in a published list. vendors names the
// vendor of a provider that is not called at a vendor's own host. A price that is
// found says the source and the day.
func Preview(cfg *config.Config, published *Published, vendors map[string]string, source, asOf string) []Change {
	var all []Change
	for _, now := range Choose(cfg) {
		change := Change{Now: now, Err: ErrNoVendor}
		change.Vendor = cmp.Or(vendors[now.Target.Provider], published.Vendor(cfg.Providers[now.Target.Provider].BaseURL))
		if change.Vendor != "" {
			change.Quote, change.Err = published.Find(change.Vendor, now.Target.Model)
		}
		if change.Found() {
			change.Next = config.ListedPrice{Price: change.Quote.Price, Source: source, AsOf: asOf}
		}
		all = append(all, change)
	}
	return all
}

// Merge returns a prices file with what was found, beside what it said about
// other models.
func Merge(into config.PriceList, changes []Change) config.PriceList {
	merged := config.PriceList{Providers: map[string]map[string]config.ListedPrice{}}
	for provider, models := range into.Providers {
		merged.Providers[provider] = maps.Clone(models)
	}
	for _, c := range changes {
		if !c.Found() {
			continue
		}
		models := merged.Providers[c.Now.Target.Provider]
		if models == nil {
			models = map[string]config.ListedPrice{}
			merged.Providers[c.Now.Target.Provider] = models
		}
		models[c.Now.Target.Model] = c.Next
	}
	return merged
}
