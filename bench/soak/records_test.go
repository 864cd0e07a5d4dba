package main

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/breakwater-llm/breakwater/bench/rig"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
	"github.com/breakwater-llm/breakwater/internal/telemetry"
)

// recordedRun is a call that failed on one target and was served by the next,
// or, when it is not served, failed on both.
func recordedRun(wasServed bool) llm.Run {
	now := time.Now()
	alpha, beta := llm.Target{Provider: "alpha", Model: "m1", Region: "r1"}, llm.Target{Provider: "beta", Model: "m1", Region: "r1"}
	first := llm.Attempt{Target: alpha, StartedAt: now, FinishedAt: now, Latency: new(time.Millisecond), Reached: true, Retries: 1,
		Outcome: llm.OutcomeFailure, FailureClass: llm.ClassServerError, FailureReason: llm.ReasonUpstreamStatus}
	run := llm.Run{
		RunID: uuid.Must(uuid.NewV7()), CorrelationID: "c", StartedAt: now, FinishedAt: now, Operation: llm.OperationChat, Dialect: llm.DialectOpenAI,
		RequestedModel: "chat", Outcome: llm.RunFailure, FailureClass: first.FailureClass, FailureReason: first.FailureReason, HTTPStatus: 502,
		Attempts: []llm.Attempt{first, first},
	}
	run.Attempts[1].Target = beta
	if wasServed {
		run.Outcome, run.FailureClass, run.FailureReason, run.HTTPStatus, run.Served = llm.RunSuccess, "", "", 200, beta
		run.Attempts[1] = llm.Attempt{Target: beta, StartedAt: now, FinishedAt: now, Latency: new(time.Millisecond), Reached: true,
			Outcome: llm.OutcomeSuccess, Usage: llm.Usage{Input: llm.Tokens(1), Output: llm.Tokens(2)}}
	}
	return run
}

// recordedRuns writes one run that was served and one that was not, and returns
// what their clients saw.
func recordedRuns(t *testing.T) (*pgx.Conn, *ledger) {
	t.Helper()
	pool := postgrestest.New(t)
	repository, runs := telemetry.NewRepository(pool), []llm.Run{recordedRun(true), recordedRun(false)}
	if err := repository.EnsurePartitions(t.Context(), runs[0].StartedAt); err != nil {
		t.Fatal(err)
	}
	if err := repository.InsertRuns(t.Context(), []*llm.Run{&runs[0], &runs[1]}); err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Release)
	l := newLedger()
	l.enter(&request{kind: &kind{}}, sight{run: runs[0].RunID, status: 200, end: served}, time.Now())
	l.enter(&request{kind: &kind{}}, sight{run: runs[1].RunID, status: 502, end: failed}, time.Now())
	return conn.Conn(), l
}

// Whatever is done to rows that are right is found, and nothing else.
func TestRecordsAreJudged(t *testing.T) {
	t.Parallel()
	conn, seen := recordedRuns(t)
	for name, tt := range map[string]struct {
		change string
		broken promise // empty when all is well
	}{
		"as it was":                {"SELECT 1", ""},
		"a run is lost":            {"DELETE FROM telemetry_runs WHERE http_status = 502", recorded},
		"a call is lost":           {"WITH r AS (DELETE FROM telemetry_runs WHERE http_status = 502 RETURNING run_id) DELETE FROM telemetry_attempts WHERE run_id IN (TABLE r)", recorded},
		"an attempt is lost":       {"DELETE FROM telemetry_attempts WHERE outcome = 'success'", recorded},
		"the first attempt":        {"DELETE FROM telemetry_attempts WHERE outcome = 'failure'", recorded},
		"a class is missing":       {"UPDATE telemetry_runs SET failure_class = NULL", recorded},
		"tokens are missing":       {"UPDATE telemetry_runs SET output_tokens = NULL", recorded},
		"a panic":                  {"UPDATE telemetry_runs SET failure_reason = 'panic' WHERE http_status = 502", recorded},
		"a run of nobody":          {"UPDATE telemetry_runs SET run_id = gen_random_uuid() WHERE http_status = 502", recorded},
		"another status":           {"UPDATE telemetry_runs SET http_status = 504 WHERE http_status = 502", truthful},
		"a failure that served":    {"UPDATE telemetry_runs SET outcome = 'failure', failure_class = 'x', failure_reason = 'x'", truthful},
		"a reader that was waited": {"UPDATE telemetry_runs SET requested_model = 'flood'", recorded},
	} {
		s := &soak{breaches: newBreaches(), ledger: seen}
		changed(t, conn, tt.change, func() {
			if err := s.judgeShape(t.Context(), conn); err != nil {
				t.Error(err)
			}
			if err := s.judgeRuns(t.Context(), conn); err != nil {
				t.Error(err)
			}
		})
		for _, p := range []promise{recorded, truthful} {
			if times, first := s.of(p); (times > 0) != (p == tt.broken) {
				t.Errorf("%s: %q broken %d times: %s", name, p, times, first)
			}
		}
	}
}

// changed does something while rows are not as they should be.
func changed(t *testing.T, conn *pgx.Conn, change string, do func()) {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	do()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestCountsAreJudged(t *testing.T) {
	t.Parallel()
	counted := func(calls, refused, dropped float64) rig.Series {
		return rig.Series{
			`breakwater_requests_total{outcome="success"}`:          calls,
			`breakwater_refusals_total{code="invalid_json"}`:        refused,
			`breakwater_circuit_transitions_total{to_state="open"}`: 2,
			`breakwater_telemetry_rows_total{result="dropped"}`:     dropped,
			`breakwater_telemetry_rows_total{result="written"}`:     1000,
		}
	}
	for name, tt := range map[string]struct {
		after   rig.Series
		written records
		asked   int64
		broken  []promise
	}{
		"even":                     {counted(5, 1, 0), records{runs: 5, events: 2, sends: 7}, 7, nil},
		"a send that never came":   {counted(5, 1, 0), records{runs: 5, events: 2, sends: 7}, 6, nil},
		"one left unseen":          {counted(4, 1, 0), records{runs: 4, events: 2, sends: 7}, 7, nil},
		"a run too few":            {counted(5, 1, 0), records{runs: 4, events: 2, sends: 7}, 7, []promise{recorded}},
		"an event too few":         {counted(5, 1, 0), records{runs: 5, events: 1, sends: 7}, 7, []promise{recorded}},
		"dropped, and said so":     {counted(5, 1, 1), records{runs: 4, events: 2, sends: 7}, 7, []promise{outage}},
		"a call that nobody sent":  {counted(6, 1, 0), records{runs: 6, events: 2, sends: 7}, 7, []promise{recorded}},
		"a call that was not seen": {counted(3, 1, 0), records{runs: 3, events: 2, sends: 7}, 7, []promise{recorded}},
		"a send off the record":    {counted(5, 1, 0), records{runs: 5, events: 2, sends: 7}, 8, []promise{recorded}},
	} {
		s := &soak{breaches: newBreaches(), ledger: newLedger(), upstream: &upstream{}, after: tt.after, written: tt.written}
		s.upstream.received.Store(tt.asked)
		for range 4 {
			s.ledger.enter(&request{kind: &kind{}}, sight{run: uuid.New(), status: 200, end: served}, time.Now())
		}
		s.ledger.enter(&request{kind: &kind{unrecorded: true}}, sight{run: uuid.New(), status: 400, end: refused}, time.Now())
		s.ledger.enter(&request{kind: &kind{}}, sight{end: left}, time.Now())
		s.judgeCounts()
		var got []promise
		for _, p := range allPromises() {
			if times, _ := s.of(p); times > 0 {
				got = append(got, p)
			}
		}
		if !slices.Equal(got, tt.broken) {
			t.Errorf("%s: broken are %q, want %q: %v", name, got, tt.broken, s.err())
		}
	}
}
