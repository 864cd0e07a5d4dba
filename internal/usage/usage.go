// Package usage reads what calls used: sums of requests, tokens and cost by day,
// key, configuration, provider and model, for people who ask what it costs and
// for budgets whose counters are lost. It only reads; telemetry writes the sums
// with the rows of calls. It must not know HTTP.
package usage

import (
	"cmp"
	"encoding/json"
	"errors"
	"time"

	"github.com/shopspring/decimal"
)

// ErrTooLong says that a report would have more than MaxRows rows.
var ErrTooLong = errors.New("the report is too long")

// MaxRows is the longest report.
const MaxRows = 50_000

// Dimension is what usage can be told apart by.
type Dimension string

// The dimensions, in the order in which they sort a report.
const (
	ByDay           Dimension = "day"
	ByKey           Dimension = "key"
	ByConfiguration Dimension = "configuration"
	ByProvider      Dimension = "provider"
	ByModel         Dimension = "model"
)

// Dimensions lists them all.
func Dimensions() []Dimension {
	return []Dimension{ByDay, ByKey, ByConfiguration, ByProvider, ByModel}
}

// Query says which usage is asked for: that of the days from From to To, both
// inclusive, told apart by By. A day is that of a call's receipt in the time zone
// of budgets, as midnight UTC of its date.
type Query struct {
	From, To time.Time
	By       []Dimension // in the order of Dimensions, each once
}

// Report is what was asked for, in the order of the dimensions.
type Report struct {
	Query
	Sums  []Sum
	Total Amounts
}

// Sum is what was used by what the dimensions name; those not asked for are
// empty.
type Sum struct {
	Day           time.Time
	KeyID         string // empty for calls without a key
	KeyName       string // empty where the key is not known by a name
	Configuration string // empty for direct targets
	Provider      string
	Model         string
	Amounts
}

// Amounts are what was used. Each sum is exact.
type Amounts struct {
	Requests         int64 // calls, at the target that was asked last
	Attempts         int64 // that reached their target
	Failures         int64 // of those
	InputTokens      int64
	CachedTokens     int64 // part of the input
	CacheWriteTokens int64 // part of the input
	OutputTokens     int64
	ReasoningTokens  int64           // part of the output
	CostUSD          decimal.Decimal // of the attempts that have a price
	Unpriced         int64           // attempts with tokens that have none
	Estimated        int64           // attempts whose tokens are an estimate

	// What limits have counted beyond the above, since no provider reported it: the
	// most that was possible. No bill need have it.
	UnreportedTokens int64
	UnreportedUSD    decimal.Decimal
}

// Plus returns both together.
func (a Amounts) Plus(b Amounts) Amounts {
	return Amounts{
		Requests:         a.Requests + b.Requests,
		Attempts:         a.Attempts + b.Attempts,
		Failures:         a.Failures + b.Failures,
		InputTokens:      a.InputTokens + b.InputTokens,
		CachedTokens:     a.CachedTokens + b.CachedTokens,
		CacheWriteTokens: a.CacheWriteTokens + b.CacheWriteTokens,
		OutputTokens:     a.OutputTokens + b.OutputTokens,
		ReasoningTokens:  a.ReasoningTokens + b.ReasoningTokens,
		CostUSD:          a.CostUSD.Add(b.CostUSD),
		Unpriced:         a.Unpriced + b.Unpriced,
		Estimated:        a.Estimated + b.Estimated,
		UnreportedTokens: a.UnreportedTokens + b.UnreportedTokens,
		UnreportedUSD:    a.UnreportedUSD.Add(b.UnreportedUSD),
	}
}

// Name is what a dimension of the sum is, in one word for people: of a key its
// name, else its id; a dash where there is none.
func (s Sum) Name(d Dimension) string {
	name := ""
	switch d {
	case ByDay:
		name = s.Day.Format(time.DateOnly)
	case ByKey:
		name = cmp.Or(s.KeyName, s.KeyID)
	case ByConfiguration:
		name = s.Configuration
	case ByProvider:
		name = s.Provider
	case ByModel:
		name = s.Model
	}
	return cmp.Or(name, "-")
}

// MarshalJSON writes the days, the dimensions, the sums and their total.
func (r Report) MarshalJSON() ([]byte, error) {
	sums := make([]map[string]any, len(r.Sums))
	for i, s := range r.Sums {
		sums[i] = s.Amounts.fields()
		for _, d := range r.By {
			s.name(sums[i], d)
		}
	}
	by := r.By
	if by == nil {
		by = []Dimension{}
	}
	return json.Marshal(map[string]any{
		"from": r.From.Format(time.DateOnly), "to": r.To.Format(time.DateOnly),
		"by": by, "usage": sums, "total": r.Total.fields(),
	})
}

// name writes what a dimension of the sum is; null is no key, and no
// configuration.
func (s Sum) name(fields map[string]any, d Dimension) {
	switch d {
	case ByDay:
		fields["day"] = s.Day.Format(time.DateOnly)
	case ByKey:
		fields["key"], fields["key_name"] = orNull(s.KeyID), orNull(s.KeyName)
	case ByConfiguration:
		fields["configuration"] = orNull(s.Configuration)
	case ByProvider:
		fields["provider"] = s.Provider
	case ByModel:
		fields["model"] = s.Model
	}
}

// fields are the amounts by the names of their columns; the cost is a number
// with all its digits.
func (a Amounts) fields() map[string]any {
	return map[string]any{
		"requests": a.Requests, "attempts": a.Attempts, "failures": a.Failures,
		"input_tokens": a.InputTokens, "cached_tokens": a.CachedTokens, "cache_write_tokens": a.CacheWriteTokens,
		"output_tokens": a.OutputTokens, "reasoning_tokens": a.ReasoningTokens,
		"cost_usd": json.Number(a.CostUSD.String()), "unpriced": a.Unpriced, "estimated": a.Estimated,
		"unreported_tokens": a.UnreportedTokens, "unreported_usd": json.Number(a.UnreportedUSD.String()),
	}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
