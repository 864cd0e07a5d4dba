package postgrestest_test

import (
	"testing"

	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

func TestDatabasesOfTwoTestsAreSeparate(t *testing.T) {
	t.Parallel()
	one, other := postgrestest.New(t), postgrestest.New(t)

	if _, err := one.Exec(t.Context(), "CREATE TABLE only_here (n int)"); err != nil {
		t.Fatal(err)
	}
	var exists bool
	if err := other.QueryRow(t.Context(), "SELECT to_regclass('only_here') IS NOT NULL").Scan(&exists); err != nil {
		t.Fatal(err)
	}
	if exists {
		t.Error("a table made in one test's database shows in the other's")
	}
}

func TestNewHasTheWholeSchema(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)

	for _, table := range []string{"telemetry_runs", "telemetry_attempts", "circuit_events"} {
		if _, err := pool.Exec(t.Context(), "SELECT * FROM "+table); err != nil {
			t.Errorf("table %s: %v", table, err)
		}
	}
}
