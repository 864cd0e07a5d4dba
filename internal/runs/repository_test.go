package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
	"github.com/breakwater-llm/breakwater/internal/runs"
	"github.com/breakwater-llm/breakwater/internal/telemetry"
)

var (
	alpha = llm.Target{Provider: "alpha", Model: "m1", Region: "r1"}
	beta  = llm.Target{Provider: "beta", Model: "m1", Region: "r2"}
	noon  = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
)

func ptr[T any](v T) *T { return &v }

// setup stores runs and returns what reads them.
func setup(t *testing.T, stored ...*llm.Run) (*runs.Repository, *pgxpool.Pool) {
	t.Helper()
	db := postgrestest.New(t)
	if err := telemetry.NewRepository(db).InsertRuns(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	return runs.NewRepository(db), db
}

// run is a call that its targets failed one after the other but for the last.
func run(at time.Time, targets ...llm.Target) *llm.Run {
	r := &llm.Run{
		RunID: uuid.Must(uuid.NewV7()), CorrelationID: "c-1", StartedAt: at, FinishedAt: at.Add(time.Second),
		Operation: llm.OperationChat, Dialect: llm.DialectOpenAI, Configuration: "chat", RequestedModel: "chat",
		Outcome: llm.RunSuccess, HTTPStatus: 200, Latency: time.Second,
	}
	for i, target := range targets {
		a := llm.Attempt{
			Target: target, StartedAt: at, FinishedAt: at.Add(time.Second), Reached: true, Latency: ptr(time.Second),
			Outcome: llm.OutcomeFailure, FailureClass: llm.ClassServerError, FailureReason: llm.ReasonUpstreamStatus, UpstreamStatus: 503,
		}
		if i == len(targets)-1 {
			a.Outcome, a.FailureClass, a.FailureReason, a.UpstreamStatus = llm.OutcomeSuccess, "", "", 200
			r.Served = target
		}
		r.Attempts = append(r.Attempts, a)
	}
	return r
}

func ids(page runs.Page) []uuid.UUID {
	var all []uuid.UUID
	for _, r := range page.Runs {
		all = append(all, r.RunID)
	}
	return all
}

func idsOf(stored ...*llm.Run) []uuid.UUID {
	var all []uuid.UUID
	for _, r := range stored {
		all = append(all, r.RunID)
	}
	return all
}

// Pages of any length together are the whole list, each run once, also where
// several began in the same microsecond.
func TestPagesTogetherAreTheWholeList(t *testing.T) {
	t.Parallel()
	var stored []*llm.Run
	for i := range 23 {
		stored = append(stored, run(noon.Add(time.Duration(i/4)*time.Microsecond), alpha))
	}
	repo, _ := setup(t, stored...)
	slices.SortFunc(stored, func(a, b *llm.Run) int {
		if c := a.StartedAt.Compare(b.StartedAt); c != 0 {
			return c
		}
		return slices.Compare(a.RunID[:], b.RunID[:])
	})
	oldestFirst := idsOf(stored...)
	newestFirst := slices.Clone(oldestFirst)
	slices.Reverse(newestFirst)

	correlated := func(ctx context.Context, f runs.Filter) (runs.Page, error) { return repo.ListCorrelated(ctx, "c-1", f) }
	for _, tt := range []struct {
		name string
		list func(context.Context, runs.Filter) (runs.Page, error)
		want []uuid.UUID
	}{
		{"newest first", repo.List, newestFirst},
		{"CF-T22 a correlation id's oldest first", correlated, oldestFirst},
	} {
		for _, limit := range []int{1, 5, 23, 24} {
			t.Run(fmt.Sprintf("%s by %d", tt.name, limit), func(t *testing.T) {
				t.Parallel()
				var got []uuid.UUID
				f := runs.Filter{Limit: limit}
				for {
					page, err := tt.list(t.Context(), f)
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, ids(page)...)
					if page.NextCursor == nil {
						break
					}
					f.Cursor = *page.NextCursor
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestAFilterLeavesOutWhatDoesNotMatch(t *testing.T) {
	t.Parallel()
	plain := run(noon, alpha)
	rescued := run(noon.Add(time.Minute), alpha, beta)
	failed := run(noon.Add(2*time.Minute), beta)
	failed.Outcome, failed.FailureClass, failed.FailureReason = llm.RunFailure, llm.ClassServerError, llm.ReasonUpstreamStatus
	direct := run(noon.AddDate(0, 0, 1), beta)
	direct.Configuration = ""
	repo, _ := setup(t, plain, rescued, failed, direct)

	for _, tt := range []struct {
		name   string
		filter runs.Filter
		want   []*llm.Run
	}{
		{"nothing", runs.Filter{}, []*llm.Run{direct, failed, rescued, plain}},
		{"from is included", runs.Filter{From: rescued.StartedAt}, []*llm.Run{direct, failed, rescued}},
		{"to is excluded", runs.Filter{To: rescued.StartedAt}, []*llm.Run{plain}},
		{"outcome", runs.Filter{Outcome: "failure"}, []*llm.Run{failed}},
		{"class", runs.Filter{Class: "server_error"}, []*llm.Run{failed}},
		{"configuration", runs.Filter{Configuration: "chat"}, []*llm.Run{failed, rescued, plain}},
		{"provider that failed", runs.Filter{Provider: "alpha"}, []*llm.Run{rescued, plain}},
		{"provider that served", runs.Filter{Provider: "beta", Outcome: "success"}, []*llm.Run{direct, rescued}},
		{"unknown provider", runs.Filter{Provider: "gamma"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			page, err := repo.List(t.Context(), tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(idsOf(tt.want...), ids(page)); diff != "" {
				t.Errorf("list (-want +got):\n%s", diff)
			}
			page, err = repo.ListCorrelated(t.Context(), "c-1", tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			oldestFirst := idsOf(tt.want...)
			slices.Reverse(oldestFirst)
			if diff := cmp.Diff(oldestFirst, ids(page)); diff != "" {
				t.Errorf("list of the correlation id (-want +got):\n%s", diff)
			}
		})
	}
}

// A key is asked for by its id or by its name; keys that are revoked had the same
// name before, and calls without a key are nobody's.
func TestRunsOfAKeyAreFoundByItsIDAndByItsName(t *testing.T) {
	t.Parallel()
	revoked, shop, crm, unknown := uuid.NewString(), uuid.NewString(), uuid.NewString(), uuid.NewString()
	made := func(at time.Time, key string) *llm.Run {
		r := run(at, alpha)
		r.APIKeyID = key
		return r
	}
	open, old := made(noon, ""), made(noon.Add(1*time.Minute), revoked)
	young, failed := made(noon.Add(2*time.Minute), shop), made(noon.Add(3*time.Minute), shop)
	failed.Outcome = llm.RunFailure
	other, strange := made(noon.Add(4*time.Minute), crm), made(noon.Add(5*time.Minute), unknown)
	repo, db := setup(t, open, old, young, failed, other, strange)
	for _, key := range []struct {
		id, name, prefix string
		revoked          bool
	}{{revoked, "shop", "a", true}, {shop, "shop", "b", false}, {crm, "crm", "c", false}} {
		_, err := db.Exec(t.Context(), `INSERT INTO api_keys (id, name, owner, prefix, secret_hash, limits, created_at, revoked_at)
			VALUES ($1, $2, '', $3, '', '{}', now(), CASE WHEN $4 THEN now() END)`, key.id, key.name, key.prefix, key.revoked)
		if err != nil {
			t.Fatal(err)
		}
	}

	for _, tt := range []struct {
		name   string
		filter runs.Filter
		want   []*llm.Run
	}{
		{"no key", runs.Filter{}, []*llm.Run{strange, other, failed, young, old, open}},
		{"id", runs.Filter{Key: shop}, []*llm.Run{failed, young}},
		{"id of a key that is revoked", runs.Filter{Key: revoked}, []*llm.Run{old}},
		{"id that is no key's any more", runs.Filter{Key: unknown}, []*llm.Run{strange}},
		{"name", runs.Filter{Key: "crm"}, []*llm.Run{other}},
		{"name that a revoked key had before", runs.Filter{Key: "shop"}, []*llm.Run{failed, young, old}},
		{"name and outcome", runs.Filter{Key: "shop", Outcome: "failure"}, []*llm.Run{failed}},
		{"name that no key has", runs.Filter{Key: "shop'"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			page, err := repo.List(t.Context(), tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(idsOf(tt.want...), ids(page)); diff != "" {
				t.Errorf("list (-want +got):\n%s", diff)
			}
			page, err = repo.ListCorrelated(t.Context(), "c-1", tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			oldestFirst := idsOf(tt.want...)
			slices.Reverse(oldestFirst)
			if diff := cmp.Diff(oldestFirst, ids(page)); diff != "" {
				t.Errorf("list of the correlation id (-want +got):\n%s", diff)
			}
		})
	}

	names, err := repo.KeyNames(t.Context(), []string{revoked, crm, unknown, "no id"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{revoked: "shop", crm: "crm"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestACorrelationIDFindsItsOwnRunsOnly(t *testing.T) {
	t.Parallel()
	other := run(noon, alpha)
	other.CorrelationID = "c-2"
	late, early := run(noon.AddDate(0, 0, 1), alpha), run(noon.Add(-time.Hour), alpha)
	repo, _ := setup(t, other, late, early)

	for id, want := range map[string][]*llm.Run{"c-1": {early, late}, "c-2": {other}, "c-3": nil, "": nil} {
		page, err := repo.ListCorrelated(t.Context(), id, runs.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(idsOf(want...), ids(page)); diff != "" {
			t.Errorf("CF-T22, CF-T23: runs of %q (-want +got):\n%s", id, diff)
		}
	}
}

func TestACursorIsOneOfOurs(t *testing.T) {
	t.Parallel()
	repo, _ := setup(t)
	for _, cursor := range []string{"x", "!!!", strings.Repeat("A", 31), strings.Repeat("A", 33), "_" + strings.Repeat("A", 31), strings.Repeat("f", 32)} {
		if _, err := repo.List(t.Context(), runs.Filter{Cursor: cursor}); !errors.Is(err, runs.ErrBadCursor) {
			t.Errorf("cursor %q: %v, want ErrBadCursor", cursor, err)
		}
		if _, err := repo.ListCorrelated(t.Context(), "c", runs.Filter{Cursor: cursor}); !errors.Is(err, runs.ErrBadCursor) {
			t.Errorf("cursor %q: %v, want ErrBadCursor", cursor, err)
		}
	}
}

func TestAPageHasABound(t *testing.T) {
	t.Parallel()
	var stored []*llm.Run
	for i := range runs.MaxLimit + 1 {
		stored = append(stored, run(noon.Add(time.Duration(i)*time.Second), alpha))
	}
	repo, _ := setup(t, stored...)
	for limit, want := range map[int]int{0: runs.DefaultLimit, -1: runs.DefaultLimit, 1_000_000: runs.MaxLimit} {
		page, err := repo.List(t.Context(), runs.Filter{Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Runs) != want || page.NextCursor == nil {
			t.Errorf("limit %d gives %d runs, want %d and a cursor", limit, len(page.Runs), want)
		}
	}
}

func TestFindReturnsTheRunWithItsAttempts(t *testing.T) {
	t.Parallel()
	stored := run(noon, alpha, beta)
	stored.Attempts[0].Retries = 2
	stored.Attempts[1].Cost = ptr(decimal.RequireFromString("0.00078"))
	repo, _ := setup(t, run(noon, alpha), stored)

	got, attempts, err := repo.Find(t.Context(), stored.RunID)
	if err != nil {
		t.Fatal(err)
	}
	want := runs.Run{
		RunID: stored.RunID, StartedAt: noon, FinishedAt: noon.Add(time.Second), CorrelationID: "c-1",
		Operation: "chat", Dialect: "openai", Configuration: ptr("chat"), RequestedModel: "chat",
		ServedProvider: ptr("beta"), ServedModel: ptr("m1"), ServedRegion: ptr("r2"),
		Outcome: "success", HTTPStatus: 200, LatencyMs: 1000, OverheadUs: ptr(int64(0)), Attempts: 2, Fallbacks: 1,
		CostUSD: ptr(decimal.RequireFromString("0.00078")),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("CF-T21: run (-want +got):\n%s", diff)
	}
	wantAttempts := []runs.Attempt{
		{
			RunID: stored.RunID, Seq: 1, StartedAt: noon, FinishedAt: noon.Add(time.Second),
			Provider: "alpha", Model: "m1", Region: "r1", Outcome: "failure",
			FailureClass: ptr("server_error"), FailureReason: ptr("upstream_status"), UpstreamStatus: ptr(int32(503)),
			LatencyMs: ptr(int64(1000)), Retries: 2,
		},
		{
			RunID: stored.RunID, Seq: 2, StartedAt: noon, FinishedAt: noon.Add(time.Second),
			Provider: "beta", Model: "m1", Region: "r2", Outcome: "success", UpstreamStatus: ptr(int32(200)),
			LatencyMs: ptr(int64(1000)), CostUSD: ptr(decimal.RequireFromString("0.00078")),
		},
	}
	if diff := cmp.Diff(wantAttempts, attempts); diff != "" {
		t.Errorf("CF-T17: attempts (-want +got):\n%s", diff)
	}

	if _, _, err := repo.Find(t.Context(), uuid.Must(uuid.NewV7())); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("a run that is not there: %v, want ErrNotFound", err)
	}
}

// The API hands these structs on: names are those of the columns, null is "not
// measured", and a cost is a number that keeps all its digits.
func TestARunIsJSONByTheNamesOfItsColumns(t *testing.T) {
	t.Parallel()
	repo, db := setup(t)
	for table, value := range map[string]any{
		"telemetry_runs":     runs.Run{CostUSD: ptr(decimal.RequireFromString("12345678.0000000001"))},
		"telemetry_attempts": runs.Attempt{CostUSD: ptr(decimal.RequireFromString("12345678.0000000001"))},
		"circuit_events":     runs.Event{Counts: json.RawMessage("{}")},
	} {
		encoded, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(encoded, &fields); err != nil {
			t.Fatal(err)
		}
		var columns []string
		err = db.QueryRow(t.Context(), "SELECT array_agg(attname::text ORDER BY attname) FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0", table).Scan(&columns)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for name := range fields {
			names = append(names, name)
		}
		slices.Sort(names)
		slices.Sort(columns)
		if diff := cmp.Diff(columns, names); diff != "" {
			t.Errorf("%s (-columns +fields):\n%s", table, diff)
		}
		if cost, ok := fields["cost_usd"]; ok && string(cost) != "12345678.0000000001" {
			t.Errorf("%s: cost_usd is %s", table, cost)
		}
	}

	page, err := repo.List(t.Context(), runs.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(page)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"runs":[],"next_cursor":null}`; string(encoded) != want {
		t.Errorf("an empty page is %s, want %s", encoded, want)
	}
	if encoded, err = json.Marshal(runs.Run{}); err != nil || !strings.Contains(string(encoded), `"cost_usd":null`) {
		t.Errorf("a run without a cost is %s, %v; want null", encoded, err)
	}
}
