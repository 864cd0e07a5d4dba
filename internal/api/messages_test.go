package api

import (
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Who is refused is told what helps: to wait only where waiting does, and the
// limit that was set, not this gateway's share of it.
func TestARefusalByALimitSaysWhatHelps(t *testing.T) {
	t.Parallel()
	n := decimal.NewFromInt
	midnight := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		denial llm.Denial
		want   string
	}{
		"used up": {
			llm.Denial{Limit: llm.LimitRequestsPerDay, Allowed: n(3), Spent: n(3), Asked: n(1), Resets: midnight},
			"The limit requests_per_day of this key is 3; 3 are used, and this call may use up to 1; it resets at 2026-12-01T00:00:00Z.",
		},
		"nothing allowed": {
			llm.Denial{Limit: llm.LimitRequestsPerDay, Asked: n(1), Resets: midnight},
			"The limit requests_per_day of this key is 0; 0 are used, and this call may use up to 1; it allows nothing: ask the operator for a higher limit.",
		},
		"larger than the day": {
			llm.Denial{Limit: llm.LimitCostPerDay, Allowed: decimal.RequireFromString("0.005"), Asked: decimal.RequireFromString("0.0065"), Resets: midnight},
			"The limit cost_per_day of this key is 0.005 USD; 0 USD are used, and this call may use up to 0.0065 USD; it never fits: send a smaller max_tokens or a shorter prompt, or ask the operator for a higher limit.",
		},
		"larger than the minute": {
			llm.Denial{Limit: llm.LimitTokensPerMinute, Allowed: n(100), Asked: n(4159)},
			"The limit tokens_per_minute of this key is 100; 0 are used, and this call may use up to 4159; it never fits: send a smaller max_tokens or a shorter prompt, or ask the operator for a higher limit.",
		},
		"calls at once": {
			llm.Denial{Limit: llm.LimitConcurrent, Allowed: n(1), Spent: n(1), Asked: n(1)},
			"The limit concurrent of this key is 1; 1 are used, and this call may use up to 1; wait for other calls to end.",
		},
		"a share of the day": {
			llm.Denial{Limit: llm.LimitRequestsPerDay, Allowed: n(0), Whole: n(1), Asked: n(1), Resets: midnight},
			"The limit requests_per_day of this key is 1, of which this gateway may give 0 while the cache that gateways share is away; 0 are used, and this call may use up to 1; try again when the cache is back.",
		},
		"a share of the minute": {
			llm.Denial{Limit: llm.LimitRequestsPerMinute, Allowed: n(2), Whole: n(5), Spent: n(2), Asked: n(1), Resets: midnight},
			"The limit requests_per_minute of this key is 5, of which this gateway may give 2 while the cache that gateways share is away; 2 are used, and this call may use up to 1; it resets at 2026-12-01T00:00:00Z.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.denial.Scope = llm.Scope{Kind: llm.ScopeKey, ID: "k1"}
			if got := describeDenial(&tt.denial); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
