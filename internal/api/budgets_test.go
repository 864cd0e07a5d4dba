package api_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// standings is a Budgets of one configuration and two keys.
type standings struct {
	keysAway error
	unknown  bool
}

func (standings) TimeZone() string { return "Europe/Amsterdam" }
func (s standings) Degraded() bool { return s.unknown }

func (standings) Configurations() []api.Limited {
	return []api.Limited{{Scope: llm.Scope{Kind: llm.ScopeConfiguration, ID: "chat"}, Name: "chat", Limits: llm.Limits{RequestsPerDay: new(int64(10))}}}
}

func (s standings) Keys(context.Context) ([]api.Limited, error) {
	tight := llm.Limits{CostPerMonth: new(decimal.RequireFromString("0.5"))}
	return []api.Limited{
		{Scope: llm.Scope{Kind: llm.ScopeKey, ID: "k1"}, Name: "ada", Limits: tight},
		{Scope: llm.Scope{Kind: llm.ScopeKey, ID: "k2"}, Name: "bob", Limits: tight},
	}, s.keysAway
}

func (s standings) Standing(_ context.Context, of api.Limited) ([]budget.State, error) {
	if s.unknown {
		return nil, &llm.Failure{Class: llm.ClassBudgetDenied}
	}
	var all []budget.State
	for _, name := range llm.LimitNames() {
		if allowed, limited := of.Limits.Of(name); limited {
			all = append(all, budget.State{
				Limit: name, Allowed: allowed, Spent: allowed.Div(decimal.NewFromInt(2)), Reserved: allowed, Resets: time.Date(2026, 3, 28, 23, 0, 0, 0, time.UTC),
			})
		}
	}
	return all, nil
}

// TestBudgetsDoNotRepeatAKey asks by the whole text of a key, as one may who
// has nothing else of it at hand.
func TestBudgetsDoNotRepeatAKey(t *testing.T) {
	t.Parallel()
	const key = "bw_0123456789_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg"
	c := setupAdmin(t, func(deps *api.Admin, _ *api.Snapshot) { deps.Budgets = standings{} })
	if got := c.get(t, "/api/v1/budgets?key="+key); got.status != 404 || strings.Contains(got.body, key) {
		t.Errorf("status %d %s\nwant 404 without the key", got.status, got.body)
	}
}

func TestListBudgets(t *testing.T) {
	t.Parallel()
	const (
		chat = `{"scope":"configuration","id":"chat","name":"chat","limits":[{"limit":"requests_per_day","allowed":10,"spent":5,"reserved":10,"left":0,"resets_at":"2026-03-28T23:00:00Z"}]}`
		half = `"limits":[{"limit":"cost_per_month","allowed":0.5,"spent":0.25,"reserved":0.5,"left":0,"resets_at":"2026-03-28T23:00:00Z"}]}`
		ada  = `{"scope":"key","id":"k1","name":"ada",` + half
		bob  = `{"scope":"key","id":"k2","name":"bob",` + half
	)
	list := func(budgets string) string {
		return `{"time_zone":"Europe/Amsterdam","degraded":false,"budgets":[` + budgets + "]}\n"
	}
	tests := map[string]struct {
		query   string
		budgets standings
		status  int
		body    string // empty = not asked
	}{
		"all":                      {"", standings{}, 200, list(chat + "," + ada + "," + bob)},
		"a configuration":          {"?configuration=chat", standings{keysAway: errors.New("not asked")}, 200, list(chat)},
		"a key":                    {"?key=k2", standings{}, 200, list(bob)},
		"a key by its name":        {"?key=ada", standings{}, 200, list(ada)},
		"nobody":                   {"?key=eve", standings{}, 404, ""},
		"no such configuration":    {"?configuration=k1", standings{}, 404, ""},
		"both":                     {"?configuration=chat&key=k1", standings{}, 400, ""},
		"a parameter of its own":   {"?name=chat", standings{}, 400, ""},
		"keys that cannot be read": {"", standings{keysAway: errors.New("boom")}, 500, ""},
		"what nobody can tell": {"?configuration=chat", standings{unknown: true}, 200,
			`{"time_zone":"Europe/Amsterdam","degraded":true,"budgets":[{"scope":"configuration","id":"chat","name":"chat","limits":[{"limit":"requests_per_day","allowed":10,"spent":null,"reserved":null,"left":null,"resets_at":null}]}]}` + "\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setupAdmin(t, func(deps *api.Admin, _ *api.Snapshot) { deps.Budgets = tt.budgets })
			got := c.get(t, "/api/v1/budgets"+tt.query)
			if tt.status == 404 && problemOf(t, got.body).code() != "not_found" {
				t.Errorf("%s has another code than not_found", got.body)
			}
			if got.status != tt.status || tt.body != "" && got.body != tt.body {
				t.Errorf("status %d %s\nwant %d %s", got.status, got.body, tt.status, tt.body)
			}
		})
	}
}
