package config

import (
	"fmt"
	"time"

	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Limits is what all calls of a configuration together may use. What is absent is
// not limited, and 0 allows nothing.
type Limits struct {
	RequestsPerDay    *int             `yaml:"requests_per_day,omitempty" check:"min=0" doc:"Calls that reach an upstream, in a day of budget.time_zone. Absent = no limit, 0 = none."`
	RequestsPerMonth  *int             `yaml:"requests_per_month,omitempty" check:"min=0" doc:"The same, in a calendar month."`
	TokensPerDay      *int             `yaml:"tokens_per_day,omitempty" check:"min=0" doc:"Tokens of prompts and answers, in a day."`
	TokensPerMonth    *int             `yaml:"tokens_per_month,omitempty" check:"min=0" doc:"The same, in a calendar month."`
	CostPerDay        *decimal.Decimal `yaml:"cost_per_day,omitempty" check:"min=0" doc:"USD in a day. A model without a price is refused; a free one is not."`
	CostPerMonth      *decimal.Decimal `yaml:"cost_per_month,omitempty" check:"min=0" doc:"The same, in a calendar month."`
	RequestsPerMinute *int             `yaml:"requests_per_minute,omitempty" check:"min=0" doc:"Calls in any 60 seconds."`
	TokensPerMinute   *int             `yaml:"tokens_per_minute,omitempty" check:"min=0" doc:"Tokens in any 60 seconds."`
	Concurrent        *int             `yaml:"concurrent,omitempty" check:"min=0" doc:"Calls at once."`
}

// LLM returns the limits as a call is held to them.
func (l Limits) LLM() llm.Limits {
	count := func(n *int) *int64 {
		if n == nil {
			return nil
		}
		return new(int64(*n))
	}
	return llm.Limits{
		RequestsPerDay: count(l.RequestsPerDay), RequestsPerMonth: count(l.RequestsPerMonth),
		TokensPerDay: count(l.TokensPerDay), TokensPerMonth: count(l.TokensPerMonth),
		CostPerDay: l.CostPerDay, CostPerMonth: l.CostPerMonth,
		RequestsPerMinute: count(l.RequestsPerMinute), TokensPerMinute: count(l.TokensPerMinute),
		Concurrent: count(l.Concurrent),
	}
}

// check holds each number to what keys are held to as well.
func (l Limits) check(r *report, at path) {
	limits := l.LLM()
	for _, name := range llm.LimitNames() {
		allowed, limited := limits.Of(name)
		key := at.key(string(name))
		if !limited || !r.sound(at, key) {
			continue
		}
		if problem, remedy := name.Fault(allowed); problem != "" {
			r.fault(key, problem, remedy)
		}
	}
}

// Limits returns what configurations are held to, by name; those without a limit
// are left out.
func (c *Config) Limits() map[string]llm.Limits {
	limits := map[string]llm.Limits{}
	for name, configuration := range c.Configurations {
		if l := configuration.Limits.LLM(); !l.IsZero() {
			limits[name] = l
		}
	}
	return limits
}

// What a limit does when nobody knows any more how much of it is used.
const (
	OnUnknownAllow  = "allow"
	OnUnknownRefuse = "refuse"
)

// Budget is how limits are counted, those of configurations and of API keys.
type Budget struct {
	DefaultMaxOutput int    `yaml:"default_max_output" check:"min=1,max=10000000" doc:"Tokens of an answer whose length neither the caller nor max_output of the model limits; where a limit of tokens or cost holds, the upstream is told so."`
	OnUnknown        string `yaml:"on_unknown" check:"oneof=allow|refuse" change:"restart" doc:"What calls get while the counters are lost and the database cannot tell either: allow counts from 0 until it can, refuse answers 402."`
	TimeZone         string `yaml:"time_zone" doc:"In which days and months begin, by its IANA name, such as Europe/Amsterdam. After a change the running day is counted anew from the database."`
}

func defaultBudget() Budget {
	return Budget{DefaultMaxOutput: 4096, OnUnknown: OnUnknownAllow, TimeZone: "UTC"}
}

func (b Budget) check(r *report) {
	const at = path("budget")
	if !r.sound(at, at.key("time_zone")) {
		return
	}
	if _, err := b.location(); err != nil {
		r.fault(at.key("time_zone"), "is not a time zone", "use an IANA name such as Europe/Amsterdam, or UTC")
	}
}

// Location returns the time zone.
func (b Budget) Location() *time.Location {
	return must(b.location())
}

// location refuses the zone of the machine, which is another one on the next.
func (b Budget) location() (*time.Location, error) {
	if b.TimeZone == "" || b.TimeZone == "Local" {
		return nil, fmt.Errorf("%q names no zone", b.TimeZone)
	}
	return time.LoadLocation(b.TimeZone)
}
