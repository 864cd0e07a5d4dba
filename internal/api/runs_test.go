package api_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/health"
	"github.com/breakwater-llm/breakwater/internal/runs"
)

// archive is a scripted store of runs that notes what it was asked for.
type archive struct {
	page     runs.Page
	attempts []runs.Attempt
	err      error

	filter      runs.Filter
	correlation string
}

func (a *archive) List(_ context.Context, f runs.Filter) (runs.Page, error) {
	a.filter = f
	return a.page, a.err
}

func (a *archive) ListCorrelated(_ context.Context, id string, f runs.Filter) (runs.Page, error) {
	a.filter, a.correlation = f, id
	return a.page, a.err
}

func (a *archive) Find(_ context.Context, id uuid.UUID) (runs.Run, []runs.Attempt, error) {
	return runs.Run{RunID: id}, a.attempts, a.err
}

// report is a scripted health.
type report struct{ now health.Report }

func (r report) Report() health.Report { return r.now }

func withRuns(a *archive) func(*api.Admin, *api.Snapshot) {
	return func(deps *api.Admin, _ *api.Snapshot) { deps.Runs = a }
}

func TestRunsAreFiltered(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		query           string
		want            runs.Filter
		wantCorrelation string
	}{
		"nothing given": {"", runs.Filter{Limit: 50}, ""},
		"everything given": {
			"?from=2026-01-02T03:04:05%2B01:00&to=2026-01-03T00:00:00Z&outcome=failure&class=circuit_open&configuration=chat&provider=alpha&key=shop&limit=7&cursor=abc&correlation_id=order-17",
			runs.Filter{
				From: time.Date(2026, 1, 2, 2, 4, 5, 0, time.UTC), To: time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC),
				Outcome: "failure", Class: "circuit_open", Configuration: "chat", Provider: "alpha", Key: "shop", Limit: 7, Cursor: "abc",
			}, "order-17",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := "more"
			store := &archive{page: runs.Page{Runs: []runs.Run{}, NextCursor: &next}}
			got := setupAdmin(t, withRuns(store)).get(t, "/api/v1/runs"+tc.query)
			if want := `{"runs":[],"next_cursor":"more"}` + "\n"; got.status != 200 || got.body != want {
				t.Errorf("status %d, body %s, want %s", got.status, got.body, want)
			}
			if diff := cmp.Diff(tc.want, store.filter); diff != "" || store.correlation != tc.wantCorrelation {
				t.Errorf("asked for correlation %q and (-want +got):\n%s", store.correlation, diff)
			}
		})
	}
}

// A filter that is silently ignored would show the wrong rows.
func TestAFilterThatIsNotUnderstoodIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]string{ // query → parameter at fault
		"?color=blue": "color", "?from=yesterday": "from", "?to=2026-01-02": "to", "?outcome=fine": "outcome",
		"?class=weather": "class", "?limit=0": "limit", "?limit=501": "limit", "?limit=ten": "limit",
		"?outcome=failure&outcome=success": "outcome", "?from=%zz": "",
		"?correlation_id=%00": "correlation_id", "?correlation_id=a%FFb": "correlation_id", "?configuration=chat%00": "configuration",
		"?provider=%C3": "provider", "?key=shop&key=crm": "key", "?key=%00": "key", "?cursor=%00": "cursor", "?class=%ED%A0%80": "class",
		"?to=0001-01-01T00:00:00Z": "to", "?from=0001-01-01T01:00:00%2B01:00": "from", "?to=0000-12-31T00:00:00Z": "to",
	}
	c := setupAdmin(t)
	for query, param := range tests {
		got := c.get(t, "/api/v1/runs"+query)
		if p := problemOf(t, got.body); got.status != 400 || p.code() != "invalid_value" || p.param() != param {
			t.Errorf("%s: status %d, %s", query, got.status, got.body)
		}
	}
}

func TestARunIsShownWithItsAttempts(t *testing.T) {
	t.Parallel()
	id := uuid.Must(uuid.NewV7())
	store := &archive{attempts: []runs.Attempt{{Seq: 1, Provider: "alpha", CostUSD: ptr(decimal.RequireFromString("0.0000012300"))}}}
	got := setupAdmin(t, withRuns(store)).get(t, "/api/v1/runs/"+id.String())
	for _, want := range []string{`{"run":{"run_id":"` + id.String() + `"`, `"attempts":[{`, `"seq":1`, `"provider":"alpha"`, `"ttft_ms":null`} {
		if got.status != 200 || !strings.Contains(got.body, want) {
			t.Errorf("status %d, no %s in\n%s", got.status, want, got.body)
		}
	}
}

func TestWhatCannotBeReadSaysWhy(t *testing.T) {
	t.Parallel()
	const one = "/api/v1/runs/0192f0c1-7e7e-7000-8000-000000000000"
	tests := map[string]struct {
		path       string
		err        error
		wantStatus int
		wantCode   string
	}{
		"no such run":                 {one, runs.ErrNotFound, 404, "not_found"},
		"no run id":                   {"/api/v1/runs/17", nil, 400, "invalid_value"},
		"a foreign cursor":            {"/api/v1/runs?cursor=x", runs.ErrBadCursor, 400, "invalid_value"},
		"the database is away, one":   {one, errAway, 503, "database_unavailable"},
		"the database is away, list":  {"/api/v1/runs", errAway, 503, "database_unavailable"},
		"the database is away, steps": {"/api/v1/circuits/alpha%2Fm1%2Fr1/events", errAway, 503, "database_unavailable"},
		"a fault of ours":             {"/api/v1/runs", errors.New("10.1.2.3 said no"), 500, "internal_error"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setupAdmin(t, withRuns(&archive{err: tc.err}), func(a *api.Admin, _ *api.Snapshot) { a.Events = &history{err: tc.err} })
			got := c.get(t, tc.path)
			if got.status != tc.wantStatus || problemOf(t, got.body).code() != tc.wantCode || strings.Contains(got.body, "10.1.2.3") {
				t.Errorf("status %d, body %s", got.status, got.body)
			}
			if wait := got.header.Get("Retry-After"); (wait != "") != (tc.wantStatus == http.StatusServiceUnavailable) {
				t.Errorf("Retry-After %q", wait)
			}
		})
	}
}

func TestAnOperatorWhoLeavesIsNoFaultOfOurs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &logBuffer{}
		c := setupAdmin(t, func(a *api.Admin, _ *api.Snapshot) { a.Log, a.Runs = log.logger(), leaving{} })
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/api/v1/runs", nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := c.client.Do(req); err == nil {
			_ = resp.Body.Close()
			t.Fatal("the operator got an answer after leaving")
		}
		synctest.Wait()
		if got := log.String(); !strings.Contains(got, `"status":499`) || strings.Contains(got, "ERROR") {
			t.Errorf("logged as a fault:\n%s", got)
		}
	})
}

// leaving answers nobody before they leave.
type leaving struct{}

func (leaving) List(ctx context.Context, _ runs.Filter) (runs.Page, error) {
	<-ctx.Done()
	return runs.Page{}, ctx.Err()
}

func (l leaving) ListCorrelated(ctx context.Context, _ string, f runs.Filter) (runs.Page, error) {
	return l.List(ctx, f)
}

func (leaving) Find(context.Context, uuid.UUID) (runs.Run, []runs.Attempt, error) {
	return runs.Run{}, nil, runs.ErrNotFound
}

func TestHealthIsShownWithItsWindowAndSamples(t *testing.T) {
	t.Parallel()
	c := setupAdmin(t, func(a *api.Admin, _ *api.Snapshot) {
		a.Health = report{health.Report{WindowMs: 900_000, Providers: []health.ProviderReport{
			{Provider: "alpha", Figures: health.Figures{Score: ptr(0.912), Samples: 10, SuccessRate: ptr(0.9), LatencyMeanMs: ptr(int64(200))},
				Targets: []health.TargetReport{{Model: "m1", Region: "r1"}}},
		}}}
	})
	got := c.get(t, "/api/v1/health/providers")
	for _, want := range []string{
		`"window_ms":900000`, `"reorder_fallback":false`,
		`"provider":"alpha","score":0.912,"samples":10,"success_rate":0.9,"latency_mean_ms":200`,
		`"model":"m1","region":"r1","score":null,"samples":0,"success_rate":null,"latency_mean_ms":null,"latency_p50_ms":null,"latency_p99_ms":null,"ttft_p50_ms":null`,
	} {
		if got.status != 200 || !strings.Contains(got.body, want) {
			t.Errorf("status %d, no %s in\n%s", got.status, want, got.body)
		}
	}
}
