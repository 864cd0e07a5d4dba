package cases

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// "Missing usage never gives credit", also not when the counters are begun anew:
// what calls count at their bound, since nobody reported what they used, is known
// to the database. Their rows invent no usage.
func TestWhatNobodyReportedOutlivesTheCounters(t *testing.T) {
	t.Parallel()
	const calls = 5
	for name, tt := range map[string]struct {
		shared    bool
		telemetry string
	}{
		"a restart":                     {},
		"a restart, telemetry off":      {telemetry: "telemetry: {enabled: false, flush_interval: 50ms}"},
		"the cache is emptied":          {shared: true},
		"the cache is emptied, no rows": {shared: true, telemetry: "telemetry: {enabled: false, flush_interval: 50ms}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := apptest.NewUpstream(t, apptest.Hang())
			more := []string{authKeys, under("requests_per_day: 100, tokens_per_day: 1000000, cost_per_month: 1", "alpha"), tt.telemetry}
			var server *redistest.Server
			if tt.shared {
				server = redistest.Start(t)
				more = append(more, onCache(server))
			}
			text, database := apptest.OneTarget(a, more...), postgrestest.URL(t)
			g := apptest.StartWith(t, text, database)
			key := g.MintKey(t, "leaver", `"cost_per_day": 1, "tokens_per_month": 1000000`)
			for i := range calls {
				leaveWhenAsked(t, g, a, i+1, key)
			}
			g.AwaitSpent(t, "chat", "requests_per_day", fmt.Sprint(calls))
			awaitUsed(t, g, calls)
			before := spentBy(t, g, key)
			for limit, spent := range before {
				if spent == "0" {
					t.Errorf("nothing of %s is spent", limit)
				}
			}

			if tt.shared {
				server.FlushAll()
			} else {
				if err := g.Stop(); err != nil {
					t.Fatal(err)
				}
				g = apptest.StartWith(t, text, database)
			}
			g.AwaitSpent(t, "chat", "requests_per_day", fmt.Sprint(calls))
			equal(t, "spent after the counters were lost", spentBy(t, g, key), before)

			var invented string
			err := g.DB.QueryRow(t.Context(), "SELECT sum(input_tokens + output_tokens) || ' tokens, ' || sum(cost_usd) || ' USD' FROM usage_daily").Scan(&invented)
			if err != nil || invented != "0 tokens, 0 USD" {
				t.Errorf("usage reports %s (%v), though nobody did", invented, err)
			}
		})
	}
}

// leaveWhenAsked makes a call whose client leaves when the upstream has got it, as
// its nth.
func leaveWhenAsked(t *testing.T, g *apptest.Gateway, a *apptest.Upstream, n int, key apptest.Key) {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), time.Minute)
	defer leave()
	ended := make(chan error, 1)
	go func() {
		_, err := g.TryPost(ctx, apptest.ChatBody, key.Authorization()...)
		ended <- err
	}()
	apptest.Eventually(t, func() string {
		if got := a.Calls(); got != n {
			return fmt.Sprintf("A has got %d calls, want %d", got, n)
		}
		return ""
	})
	leave()
	if err := <-ended; err == nil {
		t.Error("a call whose upstream hangs has been answered")
	}
}

// awaitUsed waits until the database has counted so many requests.
func awaitUsed(t *testing.T, g *apptest.Gateway, want int) {
	t.Helper()
	apptest.Eventually(t, func() string {
		var got int
		err := g.DB.QueryRow(t.Context(), "SELECT coalesce(sum(requests), 0) FROM usage_daily").Scan(&got)
		if err != nil || got != want {
			return fmt.Sprintf("%d requests are counted (%v), want %d", got, err, want)
		}
		return ""
	})
}

// spentBy is what is spent of every limit of the configuration chat and of a key,
// when all of it is known and none of it reserved.
func spentBy(t *testing.T, g *apptest.Gateway, key apptest.Key) map[string]string {
	t.Helper()
	var spent map[string]string
	apptest.Eventually(t, func() string {
		spent = map[string]string{}
		for of, limits := range map[string]map[string]apptest.Limit{"chat": g.Limits(t, "chat"), "key": g.KeyLimits(t, key.ID)} {
			for name, limit := range limits {
				if limit.Spent == "" || limit.Reserved != "0" {
					return fmt.Sprintf("%s of %s: spent %q, reserved %q", name, of, limit.Spent, limit.Reserved)
				}
				spent[of+" "+name] = limit.Spent.String()
			}
		}
		return ""
	})
	return spent
}
