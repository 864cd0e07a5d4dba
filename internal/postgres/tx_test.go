package postgres_test

import (
	"errors"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/postgres"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var errRefused = errors.New("refused")

func TestInTx(t *testing.T) {
	t.Parallel()
	insert := func(t *testing.T, tx pgx.Tx) {
		if _, err := tx.Exec(t.Context(), "INSERT INTO words VALUES ('written')"); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name string
		work func(t *testing.T, tx pgx.Tx) error
		rows int
		err  error
	}{
		{"work that succeeds is kept", func(t *testing.T, tx pgx.Tx) error {
			insert(t, tx)
			return nil
		}, 1, nil},
		{"work that fails leaves nothing", func(t *testing.T, tx pgx.Tx) error {
			insert(t, tx)
			return errRefused
		}, 0, errRefused},
		{"a missing row is ErrNotFound", func(t *testing.T, tx pgx.Tx) error {
			var word string
			return tx.QueryRow(t.Context(), "SELECT * FROM words").Scan(&word)
		}, 0, postgres.ErrNotFound},
		{"an inner one that fails leaves the outer whole", func(t *testing.T, tx pgx.Tx) error {
			insert(t, tx)
			inner := postgres.InTx(t.Context(), tx, func(tx pgx.Tx) error {
				insert(t, tx)
				return errRefused
			})
			if !errors.Is(inner, errRefused) {
				t.Errorf("inner: got error %v, want errRefused", inner)
			}
			return nil
		}, 1, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pool := setupWords(t)
			err := postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error { return test.work(t, tx) })
			if !errors.Is(err, test.err) {
				t.Errorf("got error %v, want %v", err, test.err)
			}
			if got := countWords(t, pool); got != test.rows {
				t.Errorf("got %d rows, want %d", got, test.rows)
			}
		})
	}
}

func TestInTxRollsBackWhenWorkPanics(t *testing.T) {
	t.Parallel()
	pool := setupWords(t)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
			tx.Exec(t.Context(), "INSERT INTO words VALUES ('lost')")
			panic("broken")
		})
	}()
	if got := countWords(t, pool); got != 0 {
		t.Errorf("got %d rows, want none", got)
	}
	if got := pool.Stat().AcquiredConns(); got != 0 {
		t.Errorf("%d connections are still taken", got)
	}
}

func setupWords(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := postgrestest.New(t)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE words (word text)"); err != nil {
		t.Fatal(err)
	}
	return pool
}

func countWords(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	var n int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM words").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
