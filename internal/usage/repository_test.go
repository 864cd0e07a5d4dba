package usage

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
	"github.com/breakwater-llm/breakwater/internal/telemetry"
)

var _ budget.Books = (*Repository)(nil)

func day(text string) time.Time {
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		panic(err)
	}
	return at
}

func dollars(text string) decimal.Decimal { return decimal.RequireFromString(text) }

// used adds one row: a number of requests of 10 tokens in, 2 out and 7 that limits
// have counted beside them, with a cost and as much again that nobody reported.
func used(t *testing.T, db *pgxpool.Pool, day, writer, key, configuration, provider, model string, requests int, cost string) {
	t.Helper()
	_, err := db.Exec(t.Context(), `INSERT INTO usage_daily VALUES ($1::text::date, $2, $3, $4, $5, $6, 'r1', $7::bigint, $7::bigint, 0, $7::bigint * 10, 0, 0, $7::bigint * 2, 0, $8::text::numeric, 0, 0, $7::bigint * 7, $8::text::numeric)`,
		day, writer, key, configuration, provider, model, requests, cost)
	if err != nil {
		t.Fatal(err)
	}
}

func amounts(requests int64, cost string) Amounts {
	return Amounts{Requests: requests, Attempts: requests, InputTokens: requests * 10, OutputTokens: requests * 2, CostUSD: dollars(cost), UnreportedTokens: requests * 7, UnreportedUSD: dollars(cost)}
}

func TestUsageIsToldApartByWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	known, unknown := uuid.NewString(), uuid.NewString()
	_, err := db.Exec(t.Context(), `INSERT INTO api_keys (id, name, owner, prefix, secret_hash, limits, created_at) VALUES ($1, 'shop', '', 'bw_abc', '', '{}', now())`, known)
	if err != nil {
		t.Fatal(err)
	}
	used(t, db, "2026-03-13", "a", known, "chat", "alpha", "m1", 100, "9") // before
	used(t, db, "2026-03-14", "a", known, "chat", "alpha", "m1", 1, "0.1")
	used(t, db, "2026-03-14", "b", known, "chat", "alpha", "m1", 2, "0.2") // another gateway
	used(t, db, "2026-03-14", "a", unknown, "chat", "alpha", "m2", 3, "0.0000000001")
	used(t, db, "2026-03-15", "a", "", "", "beta", "m1", 4, "12345678901.5")
	used(t, db, "2026-03-16", "a", known, "chat", "alpha", "m1", 100, "9") // after

	keyed := func(id, name string, a Amounts) Sum { return Sum{KeyID: id, KeyName: name, Amounts: a} }
	byKey := []Sum{keyed("", "", amounts(4, "12345678901.5")), keyed(known, "shop", amounts(3, "0.3")), keyed(unknown, "", amounts(3, "0.0000000001"))}
	if unknown < known {
		byKey[1], byKey[2] = byKey[2], byKey[1]
	}
	tests := []struct {
		name string
		by   []Dimension
		want []Sum
	}{
		{"nothing", nil, []Sum{{Amounts: amounts(10, "12345678901.8000000001")}}},
		{"day", []Dimension{ByDay}, []Sum{
			{Day: day("2026-03-14"), Amounts: amounts(6, "0.3000000001")}, {Day: day("2026-03-15"), Amounts: amounts(4, "12345678901.5")},
		}},
		{"key", []Dimension{ByKey}, byKey},
		{"configuration", []Dimension{ByConfiguration}, []Sum{
			{Amounts: amounts(4, "12345678901.5")}, {Configuration: "chat", Amounts: amounts(6, "0.3000000001")},
		}},
		{"provider", []Dimension{ByProvider}, []Sum{
			{Provider: "alpha", Amounts: amounts(6, "0.3000000001")}, {Provider: "beta", Amounts: amounts(4, "12345678901.5")},
		}},
		{"day and model", []Dimension{ByDay, ByModel}, []Sum{
			{Day: day("2026-03-14"), Model: "m1", Amounts: amounts(3, "0.3")},
			{Day: day("2026-03-14"), Model: "m2", Amounts: amounts(3, "0.0000000001")},
			{Day: day("2026-03-15"), Model: "m1", Amounts: amounts(4, "12345678901.5")},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := NewRepository(db).Report(t.Context(), Query{From: day("2026-03-14"), To: day("2026-03-15"), By: tt.by})
			if err != nil {
				t.Fatal(err)
			}
			for i := range got.Sums {
				got.Sums[i].Day = got.Sums[i].Day.UTC()
			}
			if diff := cmp.Diff(tt.want, got.Sums, cmp.Comparer(decimal.Decimal.Equal)); diff != "" {
				t.Errorf("sums (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(amounts(10, "12345678901.8000000001"), got.Total, cmp.Comparer(decimal.Decimal.Equal)); diff != "" {
				t.Errorf("total (-want +got):\n%s", diff)
			}
		})
	}
}

// CF-G11, CF-G19: day and month come from one question, older days and others'
// calls are left out.
func TestSpentIsOfOneScopeInItsDayAndMonth(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	used(t, db, "2026-02-28", "a", "key-1", "chat", "alpha", "m1", 100, "9")
	used(t, db, "2026-03-01", "a", "key-1", "chat", "alpha", "m1", 3, "1.25")
	used(t, db, "2026-03-14", "a", "key-1", "mail", "alpha", "m1", 1, "0.2")
	used(t, db, "2026-03-14", "b", "key-1", "chat", "beta", "m1", 1, "0.3")
	used(t, db, "2026-03-14", "a", "key-2", "chat", "alpha", "m1", 7, "7")
	used(t, db, "2026-03-31", "a", "key-1", "chat", "alpha", "m1", 2, "0.5") // on a clock that is ahead
	used(t, db, "2026-04-01", "a", "key-1", "chat", "alpha", "m1", 100, "9")
	used(t, db, "2026-03-14", "a", "", "", "alpha", "m1", 50, "50") // no key, no configuration

	march := budget.DayRange{Day: day("2026-03-14"), From: day("2026-03-01"), To: day("2026-03-31")}
	spent := func(requests int64, cost string) budget.Spent { // what no provider reported counts
		return budget.Spent{Requests: requests, Tokens: requests * 19, Cost: dollars(cost).Add(dollars(cost))}
	}
	tests := []struct {
		scope      llm.Scope
		day, month budget.Spent
	}{
		{llm.Scope{Kind: llm.ScopeKey, ID: "key-1"}, spent(2, "0.5"), spent(7, "2.25")},
		{llm.Scope{Kind: llm.ScopeKey, ID: "key-2"}, spent(7, "7"), spent(7, "7")},
		{llm.Scope{Kind: llm.ScopeKey, ID: "chat"}, spent(0, "0"), spent(0, "0")},
		{llm.Scope{Kind: llm.ScopeConfiguration, ID: "chat"}, spent(8, "7.3"), spent(13, "9.05")},
		{llm.Scope{Kind: llm.ScopeConfiguration, ID: "key-1"}, spent(0, "0"), spent(0, "0")},
		{llm.Scope{Kind: llm.ScopeKey}, spent(0, "0"), spent(0, "0")},
	}
	for _, tt := range tests {
		t.Run(string(tt.scope.Kind)+" "+tt.scope.ID, func(t *testing.T) {
			t.Parallel()
			gotDay, gotMonth, written, err := NewRepository(db).Spent(t.Context(), tt.scope, march, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]budget.Spent{tt.day, tt.month}, []budget.Spent{gotDay, gotMonth}, cmp.Comparer(decimal.Decimal.Equal)); diff != "" {
				t.Errorf("day and month (-want +got):\n%s", diff)
			}
			if len(written) != 0 {
				t.Errorf("%v are written, none was asked for", written)
			}
		})
	}
}

// What a replica has spent and not told is added to the books, so these must say
// of each run whether it is in them: with rows and without.
func TestBooksSayWhichRunsTheyCount(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	at := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	run := func() *llm.Run {
		cost := dollars("0.25")
		return &llm.Run{
			RunID: uuid.Must(uuid.NewV7()), StartedAt: at, FinishedAt: at, APIKeyID: "key-1", Operation: llm.OperationChat,
			Attempts: []llm.Attempt{{
				Target: llm.Target{Provider: "alpha", Model: "m1", Region: "r1"}, StartedAt: at, FinishedAt: at,
				Outcome: llm.OutcomeSuccess, Reached: true, Usage: llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(2)}, Cost: &cost,
				Unreported: llm.Amount{Tokens: 5, Cost: dollars("0.125")},
			}},
		}
	}
	recorded, alone, unwritten := run(), run(), run()
	records := telemetry.NewRepository(db)
	if err := errors.Join(records.InsertRuns(t.Context(), []*llm.Run{recorded}), records.InsertUsage(t.Context(), []*llm.Run{alone})); err != nil {
		t.Fatal(err)
	}
	today, month, written, err := NewRepository(db).Spent(t.Context(), llm.Scope{Kind: llm.ScopeKey, ID: "key-1"},
		budget.DayRange{Day: day("2026-03-14"), From: day("2026-03-01"), To: day("2026-03-31")},
		[]uuid.UUID{recorded.RunID, unwritten.RunID, alone.RunID})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[uuid.UUID]bool{recorded.RunID: true, alone.RunID: true}, written); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	want := budget.Spent{Requests: 2, Tokens: 34, Cost: dollars("0.75")}
	if diff := cmp.Diff([]budget.Spent{want, want}, []budget.Spent{today, month}, cmp.Comparer(decimal.Decimal.Equal)); diff != "" {
		t.Errorf("day and month (-want +got):\n%s", diff)
	}
}
