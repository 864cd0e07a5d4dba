package pricelist

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/config"
)

// Write writes a prices file, one model a line, in the order of names, so that
// two of them can be compared.
func Write(w io.Writer, list config.PriceList) error {
	var b strings.Builder
	b.WriteString("# Prices in USD: of tokens by the million, of everything else by the piece.\n")
	b.WriteString("# A configuration reads this file with `prices: {file: …}`; a price beside the\n")
	b.WriteString("# model itself wins over the one here.\n")
	b.WriteString("providers:")
	if len(list.Providers) == 0 {
		b.WriteString(" {}")
	}
	b.WriteString("\n")
	for _, provider := range slices.Sorted(maps.Keys(list.Providers)) {
		models := list.Providers[provider]
		fmt.Fprintf(&b, "  %s:", strconv.Quote(provider))
		if len(models) == 0 {
			b.WriteString(" {}")
		}
		b.WriteString("\n")
		for _, model := range slices.Sorted(maps.Keys(models)) {
			fmt.Fprintf(&b, "    %s: {%s}\n", strconv.Quote(model), strings.Join(parts(models[model]), ", "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func parts(p config.ListedPrice) []string {
	all := tokenParts(p.TokenPrice)
	for _, other := range []struct {
		key    string
		amount *decimal.Decimal
	}{{"per_image", p.PerImage}, {"per_second", p.PerSecond}, {"per_character", p.PerCharacter}, {"per_request", p.PerRequest}} {
		all = appendPart(all, other.key, other.amount)
	}
	if len(p.Tiers) > 0 {
		var tiers []string
		for _, tier := range p.Tiers {
			one := append([]string{"above: " + strconv.Itoa(tier.Above)}, tokenParts(tier.TokenPrice)...)
			tiers = append(tiers, "{"+strings.Join(one, ", ")+"}")
		}
		all = append(all, "tiers: ["+strings.Join(tiers, ", ")+"]")
	}
	if p.Source != "" {
		all = append(all, "source: "+strconv.Quote(p.Source))
	}
	if p.AsOf != "" {
		all = append(all, "as_of: "+strconv.Quote(p.AsOf))
	}
	return all
}

func tokenParts(p config.TokenPrice) (all []string) {
	all = appendPart(all, "input", p.Input)
	all = appendPart(all, "cached_input", p.CachedInput)
	all = appendPart(all, "cache_write", p.CacheWrite)
	all = appendPart(all, "audio_input", p.AudioInput)
	all = appendPart(all, "output", p.Output)
	all = appendPart(all, "reasoning", p.Reasoning)
	return appendPart(all, "audio_output", p.AudioOutput)
}

func appendPart(all []string, key string, amount *decimal.Decimal) []string {
	if amount == nil {
		return all
	}
	return append(all, key+": "+amount.String())
}

// Describe says a price in one line, in the words of the file; "unpriced" when
// none is written.
func Describe(p config.Price) string {
	if !p.IsWritten() {
		return "unpriced"
	}
	return strings.Join(parts(config.ListedPrice{Price: p}), ", ")
}

// Same reports whether two prices say the same.
func Same(a, b config.Price) bool { return Describe(a) == Describe(b) }
