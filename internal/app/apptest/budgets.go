package apptest

import (
	"encoding/json"
	"net/url"
	"testing"
)

// Limit is one limit as the operator API shows it; numbers as they stand there.
type Limit struct {
	Limit    string      `json:"limit"`
	Allowed  json.Number `json:"allowed"`
	Spent    json.Number `json:"spent"`
	Reserved json.Number `json:"reserved"`
	Left     json.Number `json:"left"`
	ResetsAt string      `json:"resets_at"`
}

// Limits returns how the limits of a configuration stand, by name.
func (g *Gateway) Limits(t testing.TB, configuration string) map[string]Limit {
	t.Helper()
	return g.limits(t, "configuration="+url.QueryEscape(configuration))
}

// KeyLimits returns how the limits of an API key stand, by name.
func (g *Gateway) KeyLimits(t testing.TB, key string) map[string]Limit {
	t.Helper()
	return g.limits(t, "key="+url.QueryEscape(key))
}

func (g *Gateway) limits(t testing.TB, query string) map[string]Limit {
	t.Helper()
	answer := Read(t, g.AdminURL+"/api/v1/budgets?"+query)
	var list struct {
		Budgets []struct{ Limits []Limit }
	}
	if err := json.Unmarshal([]byte(answer.Body), &list); err != nil || len(list.Budgets) != 1 {
		t.Fatalf("budgets of %s: %v %s", query, err, answer.Body)
	}
	limits := map[string]Limit{}
	for _, limit := range list.Budgets[0].Limits {
		limits[limit.Limit] = limit
	}
	return limits
}

// AwaitSpent waits until so much of a limit of a configuration is spent and
// nothing of it is reserved.
func (g *Gateway) AwaitSpent(t testing.TB, configuration, limit, spent string) {
	t.Helper()
	Eventually(t, func() string {
		got := g.Limits(t, configuration)[limit]
		if got.Spent.String() != spent || got.Reserved.String() != "0" {
			return "spent of " + limit + ": " + got.Spent.String() + ", reserved " + got.Reserved.String() + ", want " + spent + " and 0"
		}
		return ""
	})
}
