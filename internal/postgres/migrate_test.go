package postgres_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/postgres"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

// unreachable is an address at which nothing listens.
const unreachable = "postgres://nobody@127.0.0.1:1/none?sslmode=disable"

func TestMigrationsGoUpDownAndUpAgain(t *testing.T) {
	t.Parallel()
	url := postgrestest.EmptyURL(t)

	steps := mustMigrate(t, url)
	if want := migrationFiles(t); len(steps) != want {
		t.Fatalf("%d migrations were applied, want all %d", len(steps), want)
	}
	up := schema(t, url)
	if len(up) == 0 {
		t.Fatal("the schema is empty after all migrations")
	}

	for range steps {
		if _, err := postgres.MigrateDown(t.Context(), url); err != nil {
			t.Fatal(err)
		}
	}
	if left := schema(t, url); len(left) > 0 {
		t.Errorf("after all steps down there is still:\n%s", strings.Join(left, "\n"))
	}
	if _, err := postgres.MigrateDown(t.Context(), url); !errors.Is(err, postgres.ErrNotFound) {
		t.Errorf("one step further down: got error %v, want ErrNotFound", err)
	}

	mustMigrate(t, url)
	if diff := cmp.Diff(up, schema(t, url)); diff != "" {
		t.Errorf("schema after up, down, up (-first +second):\n%s", diff)
	}
}

func TestMigrateTwiceAppliesNothingMore(t *testing.T) {
	t.Parallel()
	if steps := mustMigrate(t, postgrestest.URL(t)); len(steps) != 0 {
		t.Errorf("a migrated database got %v", steps)
	}
}

func TestProcessesThatMigrateAtOnceApplyEachStepOnce(t *testing.T) {
	t.Parallel()
	url := postgrestest.EmptyURL(t)
	applied := make([]int, 4)
	var wg sync.WaitGroup
	for n := range applied {
		wg.Go(func() { applied[n] = len(mustMigrate(t, url)) })
	}
	wg.Wait()

	total := 0
	for _, n := range applied {
		total += n
	}
	if want := migrationFiles(t); total != want {
		t.Errorf("together they applied %v, want %d", applied, want)
	}
}

func TestMigrationStatus(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	undone, err := postgres.MigrateDown(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}

	all, err := postgres.MigrationStatus(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if want := migrationFiles(t); len(all) != want {
		t.Fatalf("got %d migrations, want %d", len(all), want)
	}
	for _, m := range all {
		if want := m.Version < undone.Version; m.Applied != want || m.AppliedAt.IsZero() == want {
			t.Errorf("migration %d: applied %t at %v, want %t", m.Version, m.Applied, m.AppliedAt, want)
		}
	}
	if first := all[0]; first.Version != 1 || first.Name != "00001_telemetry.sql" {
		t.Errorf("got first migration %+v, want version 1 by its file's name", first)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	var old *postgres.OldSchemaError

	t.Run("a whole schema passes", func(t *testing.T) {
		t.Parallel()
		if err := postgres.Verify(t.Context(), postgrestest.URL(t)); err != nil {
			t.Error(err)
		}
	})
	t.Run("an old schema is named and left as it is", func(t *testing.T) {
		t.Parallel()
		url := postgrestest.EmptyURL(t)
		err := postgres.Verify(t.Context(), url)
		if !errors.As(err, &old) || errors.Is(err, postgres.ErrUnavailable) || !strings.Contains(err.Error(), "from version") {
			t.Errorf("got error %v, want an OldSchemaError that says what to do", err)
		}
		if got := scan[*string](t, url, "SELECT to_regclass('goose_db_version')::text"); got != nil {
			t.Errorf("verify made the table %s", *got)
		}
	})
	t.Run("a schema taken back is old", func(t *testing.T) {
		t.Parallel()
		url := postgrestest.URL(t)
		if _, err := postgres.MigrateDown(t.Context(), url); err != nil {
			t.Fatal(err)
		}
		var old *postgres.OldSchemaError
		if err := postgres.Verify(t.Context(), url); !errors.As(err, &old) || len(old.Missing) != 1 {
			t.Errorf("got error %v, want one missing migration", err)
		}
	})
	t.Run("a newer schema passes", func(t *testing.T) {
		t.Parallel()
		url := postgrestest.URL(t)
		exec(t, url, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)")
		if err := postgres.Verify(t.Context(), url); err != nil {
			t.Error(err)
		}
	})
}

func TestAnUnreachableDatabaseIsNotAnOldSchema(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	calls := map[string]func() error{
		"verify": func() error { return postgres.Verify(ctx, unreachable) },
		"up":     func() error { _, err := postgres.Migrate(ctx, unreachable); return err },
		"down":   func() error { _, err := postgres.MigrateDown(ctx, unreachable); return err },
		"status": func() error { _, err := postgres.MigrationStatus(ctx, unreachable); return err },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			var old *postgres.OldSchemaError
			if err := call(); !errors.Is(err, postgres.ErrUnavailable) || errors.As(err, &old) {
				t.Errorf("got error %v, want ErrUnavailable", err)
			}
		})
	}
}

func TestAddressThatCannotBeReadIsNotUnavailable(t *testing.T) {
	t.Parallel()
	const address = "postgres://user:pass word@host:port/db"
	_, openErr := postgres.Open(t.Context(), address, postgres.Options{})
	_, upErr := postgres.Migrate(t.Context(), address)
	for _, err := range []error{openErr, upErr, postgres.Verify(t.Context(), address)} {
		if err == nil || errors.Is(err, postgres.ErrUnavailable) || strings.Contains(err.Error(), "pass word") {
			t.Errorf("got error %v, want one about the address, without its password", err)
		}
	}
}

func mustMigrate(t *testing.T, url string) []postgres.Migration {
	t.Helper()
	steps, err := postgres.Migrate(t.Context(), url)
	if err != nil {
		t.Error(err)
	}
	return steps
}

func migrationFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("../../db/migrations")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// schema describes every table, column, index and constraint but goose's own.
func schema(t *testing.T, url string) []string {
	t.Helper()
	const describe = `
SELECT format('column %s.%s %s %s %s', table_name, column_name, data_type, is_nullable, column_default)
FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'goose_db_version'
UNION ALL
SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'goose_db_version'
UNION ALL
SELECT format('constraint %s %s', conname, pg_get_constraintdef(oid)) FROM pg_constraint
WHERE connamespace = 'public'::regnamespace AND conrelid <> to_regclass('goose_db_version')
UNION ALL
SELECT format('type %s', typname) FROM pg_type WHERE typnamespace = 'public'::regnamespace AND typtype IN ('e', 'd')
ORDER BY 1`
	conn := connect(t, url)
	rows, _ := conn.Query(t.Context(), describe) // the error comes with the rows
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, url, sql string) {
	t.Helper()
	if _, err := connect(t, url).Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func scan[T any](t *testing.T, url, sql string) T {
	t.Helper()
	var value T
	if err := connect(t, url).QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}
