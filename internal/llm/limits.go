package llm

import (
	"fmt"
	"math"
	"time"

	"github.com/shopspring/decimal"
)

// Limits is what a caller, or a configuration, may use. A nil field is no limit,
// which is not 0: that allows nothing. Days and months are those of
// budget.time_zone.
type Limits struct {
	RequestsPerDay    *int64           `json:"requests_per_day,omitempty"`
	RequestsPerMonth  *int64           `json:"requests_per_month,omitempty"`
	TokensPerDay      *int64           `json:"tokens_per_day,omitempty"`
	TokensPerMonth    *int64           `json:"tokens_per_month,omitempty"`
	CostPerDay        *decimal.Decimal `json:"cost_per_day,omitempty"`   // USD
	CostPerMonth      *decimal.Decimal `json:"cost_per_month,omitempty"` // USD
	RequestsPerMinute *int64           `json:"requests_per_minute,omitempty"`
	TokensPerMinute   *int64           `json:"tokens_per_minute,omitempty"`
	Concurrent        *int64           `json:"concurrent,omitempty"` // calls at once
}

// IsZero reports whether nothing is limited.
func (l Limits) IsZero() bool { return l == Limits{} }

// LimitName is what a limit is called in configurations, on the command line, in
// answers and in metrics.
type LimitName string

// The limits, in the order in which they are checked: of several that refuse a
// call, the first is told.
const (
	LimitConcurrent        LimitName = "concurrent"
	LimitRequestsPerMinute LimitName = "requests_per_minute"
	LimitTokensPerMinute   LimitName = "tokens_per_minute"
	LimitRequestsPerDay    LimitName = "requests_per_day"
	LimitTokensPerDay      LimitName = "tokens_per_day"
	LimitCostPerDay        LimitName = "cost_per_day"
	LimitRequestsPerMonth  LimitName = "requests_per_month"
	LimitTokensPerMonth    LimitName = "tokens_per_month"
	LimitCostPerMonth      LimitName = "cost_per_month"
)

// LimitNames lists them all, in that order.
func LimitNames() []LimitName {
	return []LimitName{
		LimitConcurrent, LimitRequestsPerMinute, LimitTokensPerMinute,
		LimitRequestsPerDay, LimitTokensPerDay, LimitCostPerDay,
		LimitRequestsPerMonth, LimitTokensPerMonth, LimitCostPerMonth,
	}
}

// Rate reports whether the limit is one of speed, which a wait of seconds gets
// under, and not one of what may be spent.
func (n LimitName) Rate() bool {
	switch n {
	case LimitConcurrent, LimitRequestsPerMinute, LimitTokensPerMinute:
		return true
	default:
		return false
	}
}

// Cost reports whether the limit is one of money, in USD.
func (n LimitName) Cost() bool { return n == LimitCostPerDay || n == LimitCostPerMonth }

// Tokens reports whether the limit is one of tokens.
func (n LimitName) Tokens() bool {
	switch n {
	case LimitTokensPerMinute, LimitTokensPerDay, LimitTokensPerMonth:
		return true
	default:
		return false
	}
}

// The largest limits. Shared counters are exact up to there, costs to a billionth
// of a dollar.
const (
	MaxLimit     = 9_000_000_000_000_000
	MaxCostLimit = 9_000_000 // USD
	CostDecimals = 9
)

// Fault says why a number cannot be this limit, and what to do; empty when it can.
func (n LimitName) Fault(allowed decimal.Decimal) (problem, remedy string) {
	most, unit := int64(MaxLimit), ""
	if n.Cost() {
		most, unit = MaxCostLimit, " USD"
	}
	switch {
	case allowed.IsNegative():
		return "is less than 0, which allows nothing already", "write 0 or more, or leave it out for no limit"
	case !n.Cost() && !allowed.IsInteger():
		return "is not a whole number", "write digits only"
	case n.Cost() && !allowed.Equal(allowed.Truncate(CostDecimals)):
		return fmt.Sprintf("has more than %d decimal places", CostDecimals), "write fewer, such as 0.000000001"
	case allowed.GreaterThan(decimal.NewFromInt(most)):
		return "is too large", fmt.Sprintf("give it at most %d%s, or leave it out for no limit", most, unit)
	default:
		return "", ""
	}
}

// Of returns what a limit allows; false = there is no such limit.
func (l Limits) Of(name LimitName) (allowed decimal.Decimal, limited bool) {
	if name.Cost() {
		if cost := l.cost(name); *cost != nil {
			return **cost, true
		}
		return decimal.Decimal{}, false
	}
	if count := l.count(name); count != nil && *count != nil {
		return decimal.NewFromInt(**count), true
	}
	return decimal.Decimal{}, false
}

// Set gives a limit a number that has no Fault.
func (l *Limits) Set(name LimitName, allowed decimal.Decimal) {
	if name.Cost() {
		*l.cost(name) = &allowed
		return
	}
	if count := l.count(name); count != nil {
		n := allowed.IntPart()
		*count = &n
	}
}

func (l *Limits) cost(name LimitName) **decimal.Decimal {
	if name == LimitCostPerDay {
		return &l.CostPerDay
	}
	return &l.CostPerMonth
}

// count is where a limit that is no cost is kept; nil: there is no such limit.
func (l *Limits) count(name LimitName) **int64 {
	switch name {
	case LimitConcurrent:
		return &l.Concurrent
	case LimitRequestsPerMinute:
		return &l.RequestsPerMinute
	case LimitTokensPerMinute:
		return &l.TokensPerMinute
	case LimitRequestsPerDay:
		return &l.RequestsPerDay
	case LimitTokensPerDay:
		return &l.TokensPerDay
	case LimitRequestsPerMonth:
		return &l.RequestsPerMonth
	case LimitTokensPerMonth:
		return &l.TokensPerMonth
	default:
		return nil
	}
}

// Scope is whom limits hold for.
type Scope struct {
	Kind ScopeKind
	ID   string // of the API key, or the configuration's name
}

// ScopeKind is a closed set, the label `scope` of metrics.
type ScopeKind string

const (
	ScopeKey           ScopeKind = "key"
	ScopeConfiguration ScopeKind = "configuration"
)

// Amount is what a call uses, or may use at most.
type Amount struct {
	Tokens int64           // input and output together
	Cost   decimal.Decimal // USD
}

// Plus returns the sum. Tokens beyond all counting are the most that there can be.
func (a Amount) Plus(b Amount) Amount {
	return Amount{Tokens: PlusTokens(a.Tokens, b.Tokens), Cost: a.Cost.Add(b.Cost)}
}

// PlusTokens adds two counts, of which a negative one is 0; what is too much is
// the most that there can be.
func PlusTokens(a, b int64) int64 {
	a, b = max(a, 0), max(b, 0)
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Bound is the most that one attempt on a target can use.
type Bound struct {
	Input, Output int64           // tokens
	Cost          decimal.Decimal // USD; 0 where there is no price
	Priced        bool
	// OutputLimit is how long one answer may be so that Output holds, in tokens.
	OutputLimit int
}

// Amount returns what has to be there for the attempt.
func (b Bound) Amount() Amount {
	return Amount{Tokens: PlusTokens(b.Input, b.Output), Cost: b.Cost}
}

// Denial is the limit that refused a call, and how it stands. The amounts are in
// the limit's own unit: requests, tokens, or USD.
type Denial struct {
	Scope    Scope
	Limit    LimitName
	Allowed  decimal.Decimal
	Whole    decimal.Decimal // the limit, where Allowed is only this gateway's share of it; else 0
	Spent    decimal.Decimal // what is paid or done
	Reserved decimal.Decimal // what calls under way may still use
	Asked    decimal.Decimal // what this call may use
	// Resets is when the limit begins anew: the next day or month, or the moment
	// from which this call would fit a rate limit. Zero when only other calls' ends
	// decide.
	Resets time.Time
}

// Caller is who calls, as the api has found out.
type Caller struct {
	KeyID  string // empty while auth is open
	Name   string // of the key; empty while auth is open
	Limits Limits
}

// Standing is how the limits on a call stood when it was admitted, for the
// headers of its answer.
type Standing struct {
	Limit     LimitName // a rate limit
	Allowed   int64
	Remaining int64
	Resets    time.Duration // until all of it is there again
}
