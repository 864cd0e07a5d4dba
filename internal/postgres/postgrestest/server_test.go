package postgrestest

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/breakwater-llm/breakwater/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(Main(m)) }

// secondServer is what another test process that runs now would get.
func secondServer(t *testing.T) *server {
	t.Helper()
	p, err := startInFreeSlot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &server{private: p}
	t.Cleanup(func() {
		if err := errors.Join(s.hangUp(), p.Stop(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestProcessesAtOnceHaveServersOfTheirOwn(t *testing.T) {
	t.Parallel()
	first, err := get()
	if err != nil {
		t.Fatal(err)
	}
	if second := secondServer(t); second.private.URL() == first.private.URL() {
		t.Errorf("two processes share the server at %s", first.private.URL())
	}
}

func TestWhatAKilledProcessLeftIsClearedAway(t *testing.T) {
	t.Parallel()
	s := secondServer(t)
	if err := s.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.exec(t.Context(), "CREATE DATABASE test_left TEMPLATE "+template); err != nil {
		t.Fatal(err)
	}

	if err := s.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}

	conn, err := pgx.Connect(t.Context(), s.url("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, _ := conn.Query(t.Context(), "SELECT datname FROM pg_database WHERE datname LIKE '%test%' OR datname LIKE 'template_migrated' ORDER BY 1") // the error comes with the rows
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{template}, got); diff != "" {
		t.Errorf("databases of tests (-want +got):\n%s", diff)
	}
}
