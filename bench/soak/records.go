package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// records are what the database has.
type records struct{ runs, attempts, events, sends int }

// judgeRecords holds the tables to what the gateway counted and to what the
// clients and the upstream saw. The gateway has stopped by now, and the
// database is asked without the relay.
func (s *soak) judgeRecords(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.database.URL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, `SELECT
		(SELECT count(*) FROM telemetry_runs),
		(SELECT count(*) FROM telemetry_attempts),
		(SELECT count(*) FROM circuit_events),
		(SELECT coalesce(sum(1 + retries), 0) FROM telemetry_attempts WHERE latency_ms IS NOT NULL)`).
		Scan(&s.written.runs, &s.written.attempts, &s.written.events, &s.written.sends)
	if err != nil {
		return err
	}
	s.judgeCounts()
	if err := s.judgeShape(ctx, conn); err != nil {
		return err
	}
	return s.judgeRuns(ctx, conn)
}

// judgeCounts compares sums: what the gateway counted with what it wrote, with
// what was sent to it and with what came out of it.
func (s *soak) judgeCounts() {
	counted := int(s.after.Sum("breakwater_requests_total"))
	refused := int(s.after.Sum("breakwater_refusals_total"))
	events := int(s.after.Sum("breakwater_circuit_transitions_total"))
	dropped := int(s.after.Sum("breakwater_telemetry_rows_total", `result="dropped"`))
	if w := s.written; w.runs+w.events+dropped != counted+events {
		s.broken(recorded, "%d calls and %d events were counted, but %d runs and %d events are on record and %d rows were dropped",
			counted, events, w.runs, w.events, dropped)
	}
	if dropped > 0 {
		s.broken(outage, "%d rows were dropped, although there was room for all of them", dropped)
	}
	sent := s.ledger.sent()
	if least := sent - s.ledger.blind; counted+refused < least || counted+refused > sent {
		s.broken(recorded, "%d requests were sent, %d of them left unseen, but %d were counted as calls and %d as refused",
			sent, s.ledger.blind, counted, refused)
	}
	if received := int(s.upstream.received.Load()); received > s.written.sends {
		s.broken(recorded, "the upstream was asked %d times, but %d sends are on record", received, s.written.sends)
	}
}

// judgeShape looks for rows that cannot be.
func (s *soak) judgeShape(ctx context.Context, conn *pgx.Conn) error {
	const perRun = `WITH made AS (
		SELECT run_id, count(*) AS rows, max(seq) - min(seq) + 1 AS span,
			count(*) FILTER (WHERE latency_ms IS NOT NULL) AS reached,
			count(*) FILTER (WHERE outcome = 'success') AS successes
		FROM telemetry_attempts GROUP BY run_id)
		SELECT count(*), min(coalesce(r.run_id, made.run_id)::text) FROM telemetry_runs r FULL JOIN made USING (run_id) WHERE `
	for what, condition := range map[string]string{
		"attempts have no run":                              "r.run_id IS NULL",
		"runs have not the attempts that they speak of":     "r.attempts <> coalesce(made.reached, 0)",
		"runs have gaps between their attempts":             "made.rows <> made.span",
		"runs that were served have not one that served":    "r.outcome = 'success' AND (made.successes IS DISTINCT FROM 1 OR r.served_provider IS NULL)",
		"runs that failed have no class":                    "r.outcome <> 'success' AND (r.failure_class IS NULL OR r.failure_reason IS NULL)",
		"runs that were served know no tokens":              "r.outcome = 'success' AND (r.input_tokens IS NULL OR r.output_tokens IS NULL)",
		"runs end before they begin or have no time at all": "r.finished_at < r.started_at OR r.latency_ms < 0",
		"readers that did not read were not thrown out":     "r.requested_model = 'flood' AND r.failure_reason IS DISTINCT FROM 'slow_reader'",
		"runs failed for a fault of the gateway's own":      "r.failure_reason = 'panic' OR r.http_status = 500",
	} {
		var n int
		var first *string
		if err := conn.QueryRow(ctx, perRun+condition).Scan(&n, &first); err != nil {
			return fmt.Errorf("look for rows: %w", err)
		}
		if n > 0 {
			s.broken(recorded, "%d %s, among them %s", n, what, *first)
		}
	}
	return nil
}

// judgeRuns compares every run with what its client saw.
func (s *soak) judgeRuns(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, "SELECT run_id, http_status, outcome FROM telemetry_runs")
	if err != nil {
		return err
	}
	found, unseen := map[uuid.UUID]bool{}, 0
	var id uuid.UUID
	var status int
	var outcome string
	_, err = pgx.ForEachRow(rows, []any{&id, &status, &outcome}, func() error {
		seen, known := s.ledger.runs[id]
		if !known {
			unseen++
			return nil
		}
		found[id] = true
		s.judgeRun(id, seen, status, outcome)
		return nil
	})
	if err != nil {
		return err
	}
	for id, seen := range s.ledger.runs {
		if !found[id] {
			s.broken(recorded, "run %s, whose client saw status %d and %q, is not on record", id, seen.status, seen.end)
		}
	}
	if unseen > s.ledger.blind {
		s.broken(recorded, "%d runs are on record of which no client knows, but only %d left before they could", unseen, s.ledger.blind)
	}
	return nil
}

// judgeRun compares one run with what its client saw. What became of a stream
// after its client had left is for the gateway to say.
func (s *soak) judgeRun(id uuid.UUID, seen entry, status int, outcome string) {
	if seen.end == left || seen.end == lost {
		return
	}
	if status != seen.status || (outcome == "success") != (seen.end == served) {
		s.broken(truthful, "run %s: its client saw status %d and %q, the record says %d and %s", id, seen.status, seen.end, status, outcome)
	}
}
