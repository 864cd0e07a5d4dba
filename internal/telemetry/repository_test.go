package telemetry

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// row reads one row as text by column name, NULL being absent.
func row(t *testing.T, db DB, query string, args ...any) map[string]string {
	t.Helper()
	rows, err := db.Query(t.Context(), "SELECT key, value FROM jsonb_each_text((SELECT to_jsonb(x) FROM ("+query+") x)) WHERE value IS NOT NULL", args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	got := map[string]string{}
	for rows.Next() {
		var key, value string
		if err := rows.Scan(&key, &value); err != nil {
			t.Fatal(err)
		}
		got[key] = value
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return got
}

func insertRuns(t *testing.T, db DB, runs ...llm.Run) {
	t.Helper()
	var batch []*llm.Run
	for i := range runs {
		batch = append(batch, &runs[i])
	}
	if err := NewRepository(db).InsertRuns(t.Context(), batch); err != nil {
		t.Fatalf("insert runs: %v", err)
	}
}

// CF-T1, CF-T5, CF-T21: booleans too; no cache means no hit.
func TestEveryColumnOfARunIsStored(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	run := answered(noon)
	run.TraceID, run.APIKeyID = "4bf92f3577b34da6a3ce929d0e0e4736", "key-1"
	run.TTFT, run.Streamed = ptr(310*time.Millisecond), true
	run.Served, run.Overhead = beta, 1500*time.Microsecond
	first := llm.Attempt{
		Target: alpha, StartedAt: noon, FinishedAt: noon.Add(100 * time.Millisecond),
		Outcome: llm.OutcomeFailure, FailureClass: llm.ClassServerError, FailureReason: llm.ReasonUpstreamStatus,
		UpstreamStatus: 503, Reached: true, Latency: ptr(99 * time.Millisecond), Retries: 1,
		CircuitState: "half_open", CircuitGeneration: 3, Probe: llm.ProbeCall,
		Usage: llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(5), Estimated: true}, Cost: ptr(decimal.RequireFromString("0.0000000001")),
	}
	second := run.Attempts[0]
	second.Target, second.TTFT, second.Slow = beta, ptr(300*time.Microsecond), true
	second.Usage = llm.Usage{
		Input: llm.Tokens(10), Cached: llm.Tokens(4), CacheWrite: llm.Tokens(3),
		Output: llm.Tokens(2), Reasoning: llm.Tokens(0), Anomaly: true,
	}
	run.Attempts = []llm.Attempt{first, second}
	insertRuns(t, db, run)

	want := map[string]string{
		"run_id": run.RunID.String(), "correlation_id": "c-1", "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "api_key_id": "key-1",
		"started_at": "2026-03-14T12:00:00+00:00", "finished_at": "2026-03-14T12:00:01+00:00",
		"operation": "chat", "dialect": "openai", "configuration": "chat", "requested_model": "chat",
		"served_provider": "beta", "served_model": "m1", "served_region": "r2",
		"outcome": "success", "http_status": "200", "latency_ms": "1000", "overhead_us": "1500", "ttft_ms": "310", "streamed": "true",
		"cache_hit": "false", "idempotent_replay": "false", "attempts": "2", "fallbacks": "1",
		"input_tokens": "20", "cached_tokens": "4", "cache_write_tokens": "3", "output_tokens": "7", "reasoning_tokens": "0",
		"usage_estimated": "true", "usage_anomaly": "true", "cost_usd": "0.0007800001", "unpriced": "false",
	}
	if diff := cmp.Diff(want, row(t, db, "SELECT * FROM telemetry_runs")); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}

	wantFirst := map[string]string{
		"run_id": run.RunID.String(), "seq": "1", "started_at": "2026-03-14T12:00:00+00:00", "finished_at": "2026-03-14T12:00:00.1+00:00",
		"provider": "alpha", "model": "m1", "region": "r1", "outcome": "failure",
		"failure_class": "server_error", "failure_reason": "upstream_status", "upstream_status": "503",
		"latency_ms": "99", "slow": "false", "retries": "1", "circuit_state": "half_open", "circuit_generation": "3", "probe": "probe",
		"input_tokens": "10", "output_tokens": "5", "usage_estimated": "true", "usage_anomaly": "false",
		"cost_usd": "0.0000000001", "unpriced": "false",
	}
	if diff := cmp.Diff(wantFirst, row(t, db, "SELECT * FROM telemetry_attempts WHERE seq = 1")); diff != "" {
		t.Errorf("first attempt (-want +got):\n%s", diff)
	}
	got := row(t, db, "SELECT ttft_ms, slow, cached_tokens, cache_write_tokens, reasoning_tokens FROM telemetry_attempts WHERE seq = 2")
	wantSecond := map[string]string{"ttft_ms": "0", "slow": "true", "cached_tokens": "4", "cache_write_tokens": "3", "reasoning_tokens": "0"}
	if diff := cmp.Diff(wantSecond, got); diff != "" {
		t.Errorf("second attempt (-want +got):\n%s", diff)
	}
}

func TestARunSaysWhatItHadToDoWithout(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	insertRuns(t, db, llm.Run{
		RunID: uuid.Must(uuid.NewV7()), CorrelationID: "c-1", StartedAt: noon, FinishedAt: noon,
		Operation: llm.OperationChat, Dialect: llm.DialectOpenAI, RequestedModel: "chat",
		Outcome: llm.RunSuccess, HTTPStatus: 200, Degraded: llm.DegradedContext,
	})
	if diff := cmp.Diff(map[string]string{"degraded": "context"}, row(t, db, "SELECT degraded FROM telemetry_runs")); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
}

// A run that no target answered: nothing measured is NULL, never zero.
func TestNotMeasuredIsNull(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	insertRuns(t, db, llm.Run{
		RunID: uuid.Must(uuid.NewV7()), CorrelationID: "c-1", StartedAt: noon, FinishedAt: noon,
		Operation: llm.OperationChat, Dialect: llm.DialectOpenAI, RequestedModel: "alpha/m1",
		Outcome: llm.RunFailure, FailureClass: llm.ClassCircuitOpen, FailureReason: llm.ReasonCircuitOpen, HTTPStatus: 503,
		Attempts: []llm.Attempt{{
			Target: alpha, StartedAt: noon, FinishedAt: noon,
			Outcome: llm.OutcomeRefused, FailureClass: llm.ClassCircuitOpen, FailureReason: llm.ReasonCircuitOpen,
		}},
	})

	got := row(t, db, `SELECT trace_id, api_key_id, configuration, served_provider, served_model, served_region, ttft_ms, degraded,
		input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost_usd, attempts, fallbacks FROM telemetry_runs`)
	if diff := cmp.Diff(map[string]string{"attempts": "0", "fallbacks": "0"}, got); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
	got = row(t, db, `SELECT upstream_status, latency_ms, ttft_ms, circuit_state, circuit_generation, probe,
		input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost_usd FROM telemetry_attempts`)
	if diff := cmp.Diff(map[string]string{}, got); diff != "" {
		t.Errorf("attempt (-want +got):\n%s", diff)
	}
}

func TestCostOfARunIsTheSumOfItsPricedAttempts(t *testing.T) {
	t.Parallel()
	priced := llm.Attempt{Target: alpha, StartedAt: noon, FinishedAt: noon, Outcome: llm.OutcomeFailure, Cost: ptr(decimal.RequireFromString("0.25"))}
	free := llm.Attempt{Target: alpha, StartedAt: noon, FinishedAt: noon, Outcome: llm.OutcomeSuccess, Cost: ptr(decimal.Zero)}
	absurd := llm.Attempt{Target: alpha, StartedAt: noon, FinishedAt: noon, Outcome: llm.OutcomeFailure, Cost: ptr(decimal.New(1, 18))}
	unpriced := llm.Attempt{Target: beta, StartedAt: noon, FinishedAt: noon, Outcome: llm.OutcomeSuccess, Unpriced: true}

	tests := []struct {
		name     string
		attempts []llm.Attempt
		want     map[string]string
	}{
		{"both priced", []llm.Attempt{priced, priced}, map[string]string{"cost_usd": "0.5000000000", "unpriced": "false"}},
		{"free is a cost of zero", []llm.Attempt{free}, map[string]string{"cost_usd": "0.0000000000", "unpriced": "false"}},
		{"unpriced has none", []llm.Attempt{unpriced}, map[string]string{"unpriced": "true"}},
		{"a part unpriced", []llm.Attempt{priced, unpriced}, map[string]string{"cost_usd": "0.2500000000", "unpriced": "true"}},
		{"more than can be stored", []llm.Attempt{absurd, absurd, priced}, map[string]string{"cost_usd": "9999999999.0000000000", "unpriced": "false"}},
		{"nothing attempted", nil, map[string]string{"unpriced": "false"}},
	}
	db := postgrestest.New(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run := answered(noon)
			run.Attempts = tt.attempts
			insertRuns(t, db, run)
			got := row(t, db, "SELECT cost_usd, unpriced FROM telemetry_runs WHERE run_id = $1", run.RunID)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestABatchThatIsWrittenAgainCountsOnce(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	repo := NewRepository(db)
	runs := answeredMany(50, noon)
	event := opened(1, noon)
	boot := uuid.Must(uuid.NewV7())

	for range 3 {
		if err := repo.InsertRuns(t.Context(), runs); err != nil {
			t.Fatal(err)
		}
		if err := repo.InsertCircuitEvents(t.Context(), "node-1", boot, []*breaker.Event{&event}); err != nil {
			t.Fatal(err)
		}
	}
	got := []int{
		count(t, db, "SELECT count(*) FROM telemetry_runs"),
		count(t, db, "SELECT count(*) FROM telemetry_attempts"),
		count(t, db, "SELECT count(*) FROM circuit_events"),
	}
	if diff := cmp.Diff([]int{50, 50, 1}, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestCircuitEventsAreStored(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	boot := uuid.Must(uuid.NewV7())
	open := opened(1, noon)
	closed := breaker.Event{
		Seq: 2, Key: "alpha/org/m1/r1", From: breaker.HalfOpen, To: breaker.Closed,
		Reason: breaker.ReasonProbeSuccess, At: noon.Add(time.Minute), Actor: breaker.ActorBreaker,
	}
	if err := NewRepository(db).InsertCircuitEvents(t.Context(), "node-1", boot, []*breaker.Event{&open, &closed}); err != nil {
		t.Fatal(err)
	}

	want := map[string]string{
		"node": "node-1", "boot_id": boot.String(), "seq": "1", "at": "2026-03-14T12:00:00+00:00",
		"provider": "alpha", "model": "m1", "region": "r1", "from_state": "closed", "to_state": "open", "reason": "consecutive",
		"counts": `{"slow": 0, "calls": 7, "failures": 5, "consecutive_failures": 5}`, "open_for_ms": "30000", "actor": "breaker",
	}
	if diff := cmp.Diff(want, row(t, db, "SELECT * FROM circuit_events WHERE seq = 1")); diff != "" {
		t.Errorf("opening (-want +got):\n%s", diff)
	}
	want = map[string]string{"provider": "alpha", "model": "org/m1", "region": "r1"}
	if diff := cmp.Diff(want, row(t, db, "SELECT provider, model, region, open_for_ms FROM circuit_events WHERE seq = 2")); diff != "" {
		t.Errorf("closing (-want +got):\n%s", diff)
	}
}

func TestWhatAClientChoseIsMadeFitForTheTables(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	run := answered(noon)
	run.CorrelationID = "a\x00b\xffc"
	run.RequestedModel = strings.Repeat("x", maxName-1) + "你"
	insertRuns(t, db, run)

	got := row(t, db, "SELECT correlation_id, requested_model FROM telemetry_runs")
	want := map[string]string{"correlation_id": "ab\uFFFDc", "requested_model": strings.Repeat("x", maxName-1)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("CF-T30: (-want +got):\n%s", diff)
	}
}

// A row may belong to a day for which no partition was made ahead, as after a
// long outage; its run and its attempt may even fall on two days.
func TestAMissingPartitionIsMadeByTheInsertThatNeedsIt(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	midnight := time.Date(2026, 3, 15, 0, 0, 0, 0, time.UTC)
	run := answered(midnight.Add(-time.Millisecond))
	run.Attempts[0].StartedAt = midnight
	insertRuns(t, db, run)

	want := map[string]string{"run": "telemetry_runs_20260314", "attempt": "telemetry_attempts_20260315"}
	got := row(t, db, "SELECT r.tableoid::regclass AS run, a.tableoid::regclass AS attempt FROM telemetry_runs r JOIN telemetry_attempts a USING (run_id)")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}
}

func TestPartitionsAreKeptReadyByManyAtOnce(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	repo := NewRepository(db)
	late := time.Date(2026, 2, 27, 23, 59, 59, 0, time.FixedZone("behind", -3600)) // the 28th in UTC

	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() { errs[i] = repo.EnsurePartitions(t.Context(), late) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}

	got, err := repo.queries.ListPartitions(t.Context(), db, "circuit_events")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"circuit_events_20260228", "circuit_events_20260301", "circuit_events_20260302", "circuit_events_20260303"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}
}

// A gateway that is slow to change partitions keeps the others waiting, and is no
// reason to take the database for one that is away.
func TestPartitionsWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	repo := NewRepository(db)
	slow, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Rollback(context.WithoutCancel(t.Context()))
	if err := repo.queries.LockPartitions(t.Context(), slow); err != nil {
		t.Fatal(err)
	}

	ended := make(chan error, 1)
	go func() { ended <- repo.EnsurePartitions(t.Context(), noon) }()
	waitFor(t, func() bool {
		const waits = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'
			AND clock_timestamp() - query_start > interval '1.2 s'` // longer than for a table
		return len(ended) > 0 || count(t, db, waits) > 0
	})
	if err := slow.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("partitions after another's turn: %v", err)
	}
}

// Creating tomorrow's partition must not wait for those who write today's.
func TestPartitionsAreMadeWhileOthersWrite(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	repo := NewRepository(db)
	insertRuns(t, db, answered(noon))
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	run := answered(noon)
	if _, err := repo.queries.InsertRuns(t.Context(), tx, runColumns([]*llm.Run{&run})); err != nil {
		t.Fatal(err)
	}

	if err := repo.EnsurePartitions(t.Context(), noon.AddDate(0, 0, 1)); err != nil {
		t.Fatalf("with an open transaction on the table: %v", err)
	}
}

func TestWhatTheDatabaseWillNeverTakeIsToldFromWhatMayPass(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	repo := NewRepository(db)

	tooLate := answered(noon)
	tooLate.FinishedAt = endOfTime
	if err := repo.InsertRuns(t.Context(), []*llm.Run{&tooLate}); !errors.Is(err, errRefused) {
		t.Errorf("a time over the column's range: %v, want a refusal", err)
	}
	nonsense := breaker.Event{Key: "no-target"}
	if err := repo.InsertCircuitEvents(t.Context(), "n", uuid.New(), []*breaker.Event{&nonsense}); !errors.Is(err, errRefused) {
		t.Errorf("an event of no target: %v, want a refusal", err)
	}

	if _, err := db.Exec(t.Context(), "ALTER TABLE telemetry_runs RENAME TO telemetry_runs_elsewhere"); err != nil {
		t.Fatal(err)
	}
	fine := answered(noon)
	if err := repo.InsertRuns(t.Context(), []*llm.Run{&fine}); err == nil || errors.Is(err, errRefused) {
		t.Errorf("a table that is not there yet: %v, want an error that may pass", err)
	}
}

func TestARunSaysWhereItsAnswerCameFrom(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	hit, replay := answered(noon), answered(noon)
	hit.CacheHit, hit.Attempts = true, nil
	replay.IdempotentReplay, replay.Attempts = true, nil
	insertRuns(t, db, hit, replay)
	for _, tt := range []struct {
		run  llm.Run
		want map[string]string
	}{
		{hit, map[string]string{"cache_hit": "true", "idempotent_replay": "false"}},
		{replay, map[string]string{"cache_hit": "false", "idempotent_replay": "true"}},
	} {
		got := row(t, db, "SELECT cache_hit, idempotent_replay FROM telemetry_runs WHERE run_id = $1", tt.run.RunID)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
