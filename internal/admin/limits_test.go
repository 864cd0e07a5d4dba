package admin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// holders are whom limits hold for, and why not all of them are known.
type holders struct {
	all   []LimitHolder
	err   error
	alone bool
}

func (h holders) Degraded() bool { return h.alone }

func (h holders) Holders(context.Context) ([]LimitHolder, error) { return h.all, h.err }

func withLimits(h holders) func(*Deps) { return func(d *Deps) { d.Limits = h } }

func usd(text string) decimal.Decimal { return decimal.RequireFromString(text) }

func TestLimitsPageSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	midnight := time.Date(2030, 1, 2, 23, 0, 0, 0, time.UTC)
	server := serve(t, new(world).pages(withLimits(holders{all: []LimitHolder{
		{Scope: llm.Scope{Kind: llm.ScopeConfiguration, ID: "chat"}, Name: "chat", States: []budget.State{
			{Limit: llm.LimitRequestsPerDay, Allowed: usd("10000"), Spent: usd("9990"), Reserved: usd("4"), Resets: midnight},
			{Limit: llm.LimitCostPerDay, Allowed: usd("10"), Spent: usd("2.5"), Reserved: usd("0.0006"), Resets: midnight},
		}},
		{Scope: llm.Scope{Kind: llm.ScopeKey, ID: "0196"}, Name: "billing <b>", States: []budget.State{
			{Limit: llm.LimitConcurrent, Allowed: usd("2"), Reserved: usd("2")},
			{Limit: llm.LimitTokensPerMonth, Allowed: usd("0"), Resets: midnight},
		}},
	}})))
	page := document(t, server, "/limits")

	var got [][]string
	for _, row := range page.Find("table.limits tbody tr").EachIter() {
		cells := texts(row.Children())
		got = append(got, append(cells[:6], text(row.Find("time, .none"))))
	}
	want := [][]string{
		{"requests_per_day", "nearly used up", "10,000", "9,990", "4", "6", "2030-01-02 23:00:00 UTC"},
		{"cost_per_day", "room left", "$10.0000", "$2.5000", "$0.0006000", "$7.4994", "2030-01-02 23:00:00 UTC"},
		{"concurrent", "all reserved", "2", "0", "2", "0", "as calls end"},
		{"tokens_per_month", "used up", "0", "0", "0", "0", "2030-01-02 23:00:00 UTC"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Configuration chat", "API key billing <b>"}, texts(page.Find("h2"))); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
	if got := page.Find(`nav a[aria-current="page"]`).Text(); got != "Limits" {
		t.Errorf("the navigation stands at %q, want Limits", got)
	}
}

func TestLimitsPageSaysWhatItCannotTell(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		holders holders
		want    string
	}{
		"nothing limited": {holders{}, "Nothing is limited."},
		"no cache":        {holders{alone: true}, "this gateway counts alone"},
		"no database":     {holders{err: errors.New("dial tcp 10.1.2.3:5432: refused")}, "The API keys cannot be read right now"},
		"nothing known": {holders{all: []LimitHolder{{Scope: llm.Scope{Kind: llm.ScopeConfiguration, ID: "chat"}, Name: "chat", Err: errors.New("10.1.2.3")}}},
			"neither the cache nor the database tells"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			main := text(document(t, serve(t, new(world).pages(withLimits(tt.holders))), "/limits").Find("main"))
			if !strings.Contains(main, tt.want) || strings.Contains(main, "10.1.2.3") {
				t.Errorf("the page says %q, want %q and no address", main, tt.want)
			}
		})
	}
}
