package apptest

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/shopspring/decimal"
)

// Row is one row of a telemetry table, by column: whole numbers are int,
// decimals and ids are text, NULL is nil.
type Row map[string]any

// Only returns the columns that like has.
func (r Row) Only(like Row) Row {
	some := Row{}
	for column := range like {
		some[column] = r[column]
	}
	return some
}

// Runs waits for n runs and returns them, oldest first. More than n fail the
// test.
func (g *Gateway) Runs(t testing.TB, n int) []Row {
	t.Helper()
	return g.rows(t, n, "SELECT * FROM telemetry_runs ORDER BY started_at, run_id")
}

// Attempts waits for n attempts over all runs and returns them in order.
func (g *Gateway) Attempts(t testing.TB, n int) []Row {
	t.Helper()
	return g.rows(t, n, "SELECT * FROM telemetry_attempts ORDER BY started_at, run_id, seq")
}

// AttemptsOf waits for the attempts of the run that gave an answer and returns
// them in order.
func (g *Gateway) AttemptsOf(t testing.TB, answer Answer) []Row {
	t.Helper()
	run := answer.Header.Get("X-Request-Id")
	var rows []Row
	Eventually(t, func() string {
		found, err := g.query("SELECT * FROM telemetry_attempts WHERE run_id = $1 ORDER BY seq", run)
		if err != nil {
			return err.Error()
		}
		if rows = found; len(rows) == 0 {
			return "no attempts of run " + run
		}
		return ""
	})
	return rows
}

// CircuitEvents waits for n circuit events and returns them in order.
func (g *Gateway) CircuitEvents(t testing.TB, n int) []Row {
	t.Helper()
	return g.rows(t, n, "SELECT * FROM circuit_events ORDER BY seq")
}

func (g *Gateway) rows(t testing.TB, n int, query string) []Row {
	t.Helper()
	var rows []Row
	Eventually(t, func() string {
		found, err := g.query(query)
		if err != nil {
			return err.Error()
		}
		if rows = found; len(rows) < n {
			return fmt.Sprintf("%d rows, want %d: %s", len(rows), n, query)
		}
		return ""
	})
	if len(rows) > n {
		t.Fatalf("%d rows, want %d: %s\n%v", len(rows), n, query, rows)
	}
	return rows
}

func (g *Gateway) query(sql string, args ...any) ([]Row, error) {
	found, err := g.DB.Query(context.Background(), sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, toRow)
}

func toRow(found pgx.CollectableRow) (Row, error) {
	row, err := pgx.RowToMap(found)
	for column, value := range row {
		row[column] = plain(value)
	}
	return row, err
}

// plain gives a value of the database the type that tests compare with.
func plain(value any) any {
	switch v := value.(type) {
	case int32:
		return int(v)
	case int64:
		return int(v)
	case [16]byte:
		return uuid.UUID(v).String()
	case pgtype.Numeric:
		return decimal.NewFromBigInt(v.Int, v.Exp).String()
	default:
		return value
	}
}
