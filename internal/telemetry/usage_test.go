package telemetry

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// sums is usage_daily, a text per row in the order of its key.
func sums(t *testing.T, db DB) []string {
	t.Helper()
	rows, err := db.Query(t.Context(), `SELECT concat_ws(' ', day, writer, api_key_id, configuration, provider || '/' || model || '/' || region,
		'requests', requests, 'attempts', attempts, 'failures', failures,
		'tokens', input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens,
		'cost', trim_scale(cost_usd), 'unpriced', unpriced, 'estimated', estimated,
		'unreported', unreported_tokens, trim_scale(unreported_usd))
		FROM usage_daily ORDER BY day, writer, api_key_id, configuration, provider, model, region`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func pointers(runs ...llm.Run) []*llm.Run {
	all := make([]*llm.Run, len(runs))
	for i := range runs {
		all[i] = &runs[i]
	}
	return all
}

// inserts are the two ways in which usage comes about.
var inserts = map[string]func(*Repository, context.Context, []*llm.Run) error{
	"with rows":    (*Repository).InsertRuns,
	"without rows": (*Repository).InsertUsage,
}

func forEachInsert(t *testing.T, test func(t *testing.T, repo *Repository, insert func(...*llm.Run) error)) {
	for name, insert := range inserts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := NewRepository(postgrestest.New(t)).Named("node-1", uuid.Must(uuid.NewV7()))
			test(t, repo, func(runs ...*llm.Run) error { return insert(repo, t.Context(), runs) })
		})
	}
}

// billedTwice is a run that alpha failed after being billed, that beta refused
// unasked, and that gamma answered.
func billedTwice(at time.Time) llm.Run {
	run := answered(at)
	failed := run.Attempts[0]
	failed.Outcome, failed.FailureClass, failed.FailureReason = llm.OutcomeFailure, llm.ClassServerError, llm.ReasonInvalidBody
	failed.Usage = llm.Usage{Input: llm.Tokens(10), Cached: llm.Tokens(4), CacheWrite: llm.Tokens(3), Output: llm.Tokens(5), Reasoning: llm.Tokens(1), Estimated: true}
	failed.Cost = ptr(decimal.RequireFromString("0.0000000001"))
	failed.Unreported = llm.Amount{Tokens: 7, Cost: decimal.RequireFromString("0.25")}
	refused := llm.Attempt{Target: beta, StartedAt: at, FinishedAt: at, Outcome: llm.OutcomeRefused, FailureClass: llm.ClassCircuitOpen}
	served := run.Attempts[0]
	served.Target.Provider, served.Usage, served.Cost, served.Unpriced = "gamma", llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(2)}, nil, true
	run.Attempts = []llm.Attempt{failed, refused, served}
	return run
}

// CST-07, CST-08: a call is one request, at the target that was asked last; what
// another was billed for stays.
func TestUsageIsOfEveryAttemptThatReachedItsTarget(t *testing.T) {
	t.Parallel()
	forEachInsert(t, func(t *testing.T, repo *Repository, insert func(...*llm.Run) error) {
		keyed, open, direct := billedTwice(noon), answered(noon), answered(noon)
		keyed.APIKeyID = "key-1"
		direct.Configuration = ""
		if err := insert(pointers(keyed, open, direct)...); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"2026-03-14 node-1   alpha/m1/r1 requests 1 attempts 1 failures 0 tokens 10 0 0 2 0 cost 0.00078 unpriced 0 estimated 0 unreported 0 0",
			"2026-03-14 node-1  chat alpha/m1/r1 requests 1 attempts 1 failures 0 tokens 10 0 0 2 0 cost 0.00078 unpriced 0 estimated 0 unreported 0 0",
			"2026-03-14 node-1 key-1 chat alpha/m1/r1 requests 0 attempts 1 failures 1 tokens 10 4 3 5 1 cost 0.0000000001 unpriced 0 estimated 1 unreported 7 0.25",
			"2026-03-14 node-1 key-1 chat gamma/m1/r1 requests 1 attempts 1 failures 0 tokens 10 0 0 2 0 cost 0 unpriced 1 estimated 0 unreported 0 0",
		}
		if diff := cmp.Diff(want, sums(t, repo.db)); diff != "" {
			t.Errorf("usage (-want +got):\n%s", diff)
		}
	})
}

// A call that asked nobody costs nobody anything, and what the gateway asks on
// its own account is no caller's.
func TestUsageLeavesOutWhatNoCallerUsed(t *testing.T) {
	t.Parallel()
	forEachInsert(t, func(t *testing.T, repo *Repository, insert func(...*llm.Run) error) {
		refused, hit, canary, check := answered(noon), answered(noon), answered(noon), answered(noon)
		refused.Attempts = []llm.Attempt{{Target: alpha, StartedAt: noon, FinishedAt: noon, Outcome: llm.OutcomeRefused, FailureClass: llm.ClassBudgetDenied}}
		hit.Attempts, hit.CacheHit = nil, true
		canary.Operation, canary.Attempts[0].Probe = llm.OperationCanary, llm.ProbeCanary
		check.Operation, check.Attempts[0].Probe = llm.OperationHealthCheck, llm.ProbeHealthCheck
		if err := insert(pointers(refused, hit, canary, check)...); err != nil {
			t.Fatal(err)
		}
		if got := sums(t, repo.db); len(got) != 0 {
			t.Errorf("usage %q, want none", got)
		}
	})
}

// TEL-03: however batches overlap, the sums are those of the runs.
func TestUsageCountsARunOnce(t *testing.T) {
	t.Parallel()
	forEachInsert(t, func(t *testing.T, repo *Repository, insert func(...*llm.Run) error) {
		runs := answeredMany(60, noon)
		for _, run := range runs {
			run.Attempts[0].Unreported = llm.Amount{Tokens: 3, Cost: decimal.RequireFromString("0.001")}
		}
		for _, batch := range [][]*llm.Run{runs[:40], runs[:40], runs[20:], runs[10:50], runs} {
			if err := insert(batch...); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"2026-03-14 node-1  chat alpha/m1/r1 requests 60 attempts 60 failures 0 tokens 600 0 0 120 0 cost 0.0468 unpriced 0 estimated 0 unreported 180 0.06"}
		if diff := cmp.Diff(want, sums(t, repo.db)); diff != "" {
			t.Errorf("usage (-want +got):\n%s", diff)
		}
	})
}

// Gateways meet in the same rows when two of them have one name, and their
// batches when one has been given up too early; nobody blocks another for good.
func TestConcurrentWritersCountARunOnce(t *testing.T) {
	t.Parallel()
	forEachInsert(t, func(t *testing.T, repo *Repository, insert func(...*llm.Run) error) {
		var runs []*llm.Run
		for i := range 200 {
			run := answered(noon)
			run.APIKeyID = string(rune('a' + i%8))
			run.Attempts[0].Target.Model = string(rune('z' - i%5))
			runs = append(runs, &run)
		}
		if err := insert(runs[0]); err != nil { // makes the partition
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			batch := slices.Clone(runs[i:])
			rand.Shuffle(len(batch), func(a, b int) { batch[a], batch[b] = batch[b], batch[a] })
			wg.Go(func() { errs[i] = insert(batch...) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		got := row(t, repo.db, "SELECT sum(requests) AS requests, sum(attempts) AS attempts, sum(input_tokens) AS tokens, trim_scale(sum(cost_usd)) AS cost, count(*) AS rows FROM usage_daily")
		want := map[string]string{"requests": "200", "attempts": "200", "tokens": "2000", "cost": "0.156", "rows": "40"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("usage (-want +got):\n%s", diff)
		}
	})
}

func TestUsageIsSummedByTheDayOfReceiptInItsZone(t *testing.T) {
	t.Parallel()
	amsterdam, err := time.LoadLocation("Europe/Amsterdam")
	if err != nil {
		t.Fatal(err)
	}
	forEachInsert(t, func(t *testing.T, repo *Repository, insert func(...*llm.Run) error) {
		repo.SetZone(amsterdam)
		before, after := answered(time.Date(2026, 3, 28, 22, 59, 59, 0, time.UTC)), answered(time.Date(2026, 3, 28, 23, 0, 0, 0, time.UTC))
		before.Attempts[0].StartedAt = after.StartedAt // a retry after midnight is still that day's call
		if err := insert(pointers(before, after)...); err != nil {
			t.Fatal(err)
		}
		var days []string
		for _, sum := range sums(t, repo.db) {
			days = append(days, sum[:len("2026-03-28")])
		}
		if diff := cmp.Diff([]string{"2026-03-28", "2026-03-29"}, days); diff != "" {
			t.Errorf("days (-want +got):\n%s", diff)
		}
	})
}

// A report that no call can be true to does not keep others from being counted.
func TestAbsurdReportsDoNotSpoilSums(t *testing.T) {
	t.Parallel()
	forEachInsert(t, func(t *testing.T, repo *Repository, insert func(...*llm.Run) error) {
		for range 3 {
			absurd, modest := answered(noon), answered(noon)
			absurd.Attempts[0].Usage.Output = llm.Tokens(math.MaxInt64)
			absurd.Attempts[0].Cost = ptr(decimal.New(1, 18))
			absurd.Attempts[0].Unreported = llm.Amount{Tokens: math.MaxInt64, Cost: decimal.New(1, 18)}
			if err := insert(pointers(absurd, modest)...); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"2026-03-14 node-1  chat alpha/m1/r1 requests 6 attempts 6 failures 0 tokens 60 0 0 3000000000006 0 cost 29999999997.00234 unpriced 0 estimated 0 unreported 3000000000000 29999999997"}
		if diff := cmp.Diff(want, sums(t, repo.db)); diff != "" {
			t.Errorf("usage (-want +got):\n%s", diff)
		}
	})
}

// CF-X15: with telemetry off there is no row of a call, and its usage is written.
func TestUsageIsWrittenWhileTelemetryIsOff(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	r, _ := setup(t, config(), NewRepository(db).Named("node-1", uuid.Must(uuid.NewV7())))
	r.Start()
	for range 3 {
		r.WithoutRows().Record(answered(noon))
	}
	unasked := answered(noon)
	unasked.Attempts = nil
	r.WithoutRows().Record(unasked)
	r.WithoutRows().CircuitEvent(opened(1, noon))
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	want := []string{"2026-03-14 node-1  chat alpha/m1/r1 requests 3 attempts 3 failures 0 tokens 30 0 0 6 0 cost 0.00234 unpriced 0 estimated 0 unreported 0 0"}
	if diff := cmp.Diff(want, sums(t, db)); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	for _, table := range []string{"telemetry_runs", "telemetry_attempts", "circuit_events"} {
		if got := count(t, db, "SELECT count(*) FROM "+table); got != 0 {
			t.Errorf("%d rows in %s, want none", got, table)
		}
	}
	if got := testutil.ToFloat64(r.metrics.written); got != 3 {
		t.Errorf("%v runs count as written, want 3", got)
	}
}

// A writer forgets the ids of its own runs after an hour, and those of others
// when nobody can write them again.
func TestIdsOfRunsWithoutRowsAreForgotten(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	boot := uuid.Must(uuid.NewV7())
	repo := NewRepository(db).Named("node-1", boot)
	for _, written := range []struct {
		writer uuid.UUID
		ago    time.Duration
	}{{boot, 30 * time.Minute}, {boot, 2 * time.Hour}, {uuid.New(), 2 * time.Hour}, {uuid.New(), 33 * 24 * time.Hour}} {
		if _, err := db.Exec(t.Context(), "INSERT INTO usage_runs VALUES ($1, $2, now() - $3::interval)", uuid.New(), written.writer, written.ago); err != nil {
			t.Fatal(err)
		}
	}
	if err := repo.ForgetUsageRuns(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := []int{
		count(t, db, "SELECT count(*) FROM usage_runs WHERE writer = $1", boot),
		count(t, db, "SELECT count(*) FROM usage_runs WHERE writer <> $1", boot),
	}
	if diff := cmp.Diff([]int{1, 1}, got); diff != "" {
		t.Errorf("own and other ids left (-want +got):\n%s", diff)
	}
}

// A run whose report the database refuses still counts as a call, with the mark
// that its cost is not known; its batch is not lost for it.
func TestARefusedReportStillCountsAsACall(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]func(*Recorder, llm.Run){
		"with rows":    (*Recorder).Record,
		"without rows": func(r *Recorder, run llm.Run) { r.WithoutRows().Record(run) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := postgrestest.New(t)
			r, _ := setup(t, config(), &fastidious{NewRepository(db).Named("node-1", uuid.Must(uuid.NewV7()))})
			bad := answered(noon)
			bad.Attempts[0].Usage.Output = llm.Tokens(poison)
			record(r, bad)
			for range 4 {
				record(r, answered(noon))
			}
			r.Start()
			if err := r.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := []string{"2026-03-14 node-1  chat alpha/m1/r1 requests 5 attempts 5 failures 0 tokens 40 0 0 8 0 cost 0.00312 unpriced 1 estimated 0 unreported 0 0"}
			if diff := cmp.Diff(want, sums(t, db)); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}

// poison is a report that a fastidious database refuses.
const poison = 666

type fastidious struct{ *Repository }

func (p *fastidious) InsertRuns(ctx context.Context, runs []*llm.Run) error {
	return p.insert(ctx, runs, p.Repository.InsertRuns)
}

func (p *fastidious) InsertUsage(ctx context.Context, runs []*llm.Run) error {
	return p.insert(ctx, runs, p.Repository.InsertUsage)
}

func (p *fastidious) insert(ctx context.Context, runs []*llm.Run, insert insert[*llm.Run]) error {
	if slices.ContainsFunc(runs, func(run *llm.Run) bool { return run.Attempts[0].Usage.Output.N == poison }) {
		return errRefused
	}
	return insert(ctx, runs)
}

// Whoever remembers what runs spent is told of each when it need not any more:
// the database has it, refuses it, or there was no room.
func TestTheFateOfEveryRunIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		told := map[uuid.UUID]int{}
		cfg := config()
		cfg.Queue = 4
		cfg.Written = func(runs []uuid.UUID) {
			mu.Lock()
			defer mu.Unlock()
			for _, id := range runs {
				told[id]++
			}
		}
		store := newMemory(works)
		r, _ := setup(t, cfg, &refusing{memory: store})
		want := map[uuid.UUID]int{}
		for i := range 7 { // the queue has room for four
			run := answered(time.Now())
			if i == 0 {
				run.Outcome = llm.RunFailure // refused for good
			}
			want[run.RunID] = 1
			r.Record(run)
			run = answered(time.Now())
			want[run.RunID] = 1
			r.WithoutRows().Record(run)
		}
		r.Start()
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

// A run that no database has taken is not told as written.
func TestARunThatWaitsIsNotTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		told := 0
		cfg := config()
		cfg.Written = func(runs []uuid.UUID) { told += len(runs) }
		r, _ := setup(t, cfg, newMemory(func(context.Context) error { return errAway }))
		r.Start()
		r.Record(answered(time.Now()))
		time.Sleep(time.Minute)
		synctest.Wait()
		if told != 0 {
			t.Errorf("%d runs told as written, want none", told)
		}
	})
}

// refusing refuses, for good, runs that failed.
type refusing struct{ *memory }

func (s *refusing) InsertRuns(ctx context.Context, runs []*llm.Run) error {
	if slices.ContainsFunc(runs, func(run *llm.Run) bool { return run.Outcome == llm.RunFailure }) {
		return errRefused
	}
	return s.memory.InsertRuns(ctx, runs)
}
