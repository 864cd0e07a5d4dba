package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/usage"
)

// ledgerBook is scripted usage that notes what it was asked for.
type ledgerBook struct {
	err   error
	asked usage.Query
}

func (b *ledgerBook) Report(_ context.Context, q usage.Query) (usage.Report, error) {
	b.asked = q
	amounts := usage.Amounts{Requests: 3, CostUSD: decimal.RequireFromString("0.0000000001")}
	return usage.Report{Query: q, Sums: []usage.Sum{{Model: "=m1", Amounts: amounts}}, Total: amounts}, b.err
}

func withUsage(b *ledgerBook) func(*api.Admin, *api.Snapshot) {
	return func(deps *api.Admin, _ *api.Snapshot) {
		deps.Usage = b
		deps.Zone = func() *time.Location { return time.UTC }
	}
}

func TestUsageIsAnsweredAsJSONAndCSV(t *testing.T) {
	t.Parallel()
	book := &ledgerBook{}
	c := setupAdmin(t, withUsage(book))

	got := c.get(t, "/api/v1/usage?from=2026-03-01&to=2026-03-31&by=model")
	if got.status != http.StatusOK {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	var answer struct {
		From, To string
		By       []string
		Usage    []struct {
			Model    string
			Requests int
			CostUSD  json.Number `json:"cost_usd"`
		}
	}
	if err := json.Unmarshal([]byte(got.body), &answer); err != nil {
		t.Fatal(err)
	}
	if answer.From != "2026-03-01" || answer.To != "2026-03-31" || len(answer.Usage) != 1 || answer.Usage[0].CostUSD != "0.0000000001" {
		t.Errorf("answer %+v, want the days asked for and the cost with all its digits", answer)
	}
	want := usage.Query{From: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC), By: []usage.Dimension{usage.ByModel}}
	if diff := cmp.Diff(want, book.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}

	got = c.get(t, "/api/v1/usage?from=2026-03-01&to=2026-03-31&by=model&format=csv")
	wantBody := "model,requests,attempts,failures,input_tokens,cached_tokens,cache_write_tokens,output_tokens,reasoning_tokens,cost_usd,unpriced,estimated,unreported_tokens,unreported_usd\r\n" +
		"'=m1,3,0,0,0,0,0,0,0,0.0000000001,0,0,0,0\r\n"
	if diff := cmp.Diff(wantBody, got.body); diff != "" {
		t.Errorf("CSV (-want +got):\n%s", diff)
	}
	gotHeaders := []string{got.header.Get("Content-Type"), got.header.Get("Content-Disposition")}
	wantHeaders := []string{"text/csv; charset=utf-8", `attachment; filename="usage-2026-03-01-2026-03-31.csv"`}
	if diff := cmp.Diff(wantHeaders, gotHeaders); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestQuestionsForUsageThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		query  string
		err    error
		status int
	}{
		"a bad date":               {"?from=yesterday", nil, http.StatusBadRequest},
		"the end before the start": {"?from=2026-02-02&to=2026-02-01", nil, http.StatusBadRequest},
		"an unknown dimension":     {"?by=region", nil, http.StatusBadRequest},
		"an unknown format":        {"?format=xml", nil, http.StatusBadRequest},
		"an unknown parameter":     {"?day=2026-02-02", nil, http.StatusBadRequest},
		"a report that is endless": {"", usage.ErrTooLong, http.StatusBadRequest},
		"a database that is away":  {"", errAway, http.StatusServiceUnavailable},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setupAdmin(t, withUsage(&ledgerBook{err: tt.err}))
			if got := c.get(t, "/api/v1/usage"+tt.query); got.status != tt.status {
				t.Errorf("status %d: %s; want %d", got.status, got.body, tt.status)
			}
		})
	}
}
