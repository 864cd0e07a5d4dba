package postgres_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/postgres"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
	"github.com/breakwater-llm/breakwater/internal/postgres/private"
	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"
)

func TestOpenDoesNotNeedTheDatabase(t *testing.T) {
	t.Parallel()
	pool, err := postgres.Open(t.Context(), unreachable, postgres.Options{})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer pool.Close()

	if err := postgres.Translate(pool.Ping(t.Context())); !errors.Is(err, postgres.ErrUnavailable) {
		t.Errorf("ping: got error %v, want ErrUnavailable", err)
	}
}

func TestPoolFollowsADatabaseThatGoesAndComes(t *testing.T) {
	t.Parallel()
	cfg := private.Config{DataDir: t.TempDir(), Volatile: true, Log: slog.New(slog.DiscardHandler)}
	server := startPrivate(t, cfg)
	pool, err := postgres.Open(t.Context(), server.URL(), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := pool.Ping(t.Context()); err != nil {
		t.Fatalf("before: %v", err)
	}

	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "SELECT 1"); !errors.Is(postgres.Translate(err), postgres.ErrUnavailable) {
		t.Errorf("while away: got error %v, want ErrUnavailable", err)
	}

	startPrivate(t, cfg)
	if _, err := pool.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Errorf("after: %v", err)
	}
}

func startPrivate(t *testing.T, cfg private.Config) *private.Server {
	t.Helper()
	server, err := private.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop(context.Background()) })
	return server
}

func TestPoolIsBounded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		opts postgres.Options
		want int32
	}{{"by default", postgres.Options{}, 8}, {"as asked", postgres.Options{MaxConns: 3}, 3}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pool, err := postgres.Open(t.Context(), unreachable, test.opts)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			if got := pool.Config().MaxConns; got != test.want {
				t.Errorf("got %d connections, want %d", got, test.want)
			}
		})
	}
}

func TestADatabaseThatDoesNotAnswerIsGivenUp(t *testing.T) {
	t.Parallel()
	// The listener takes connections and never says a word.
	pool, err := postgres.Open(t.Context(), "postgres://nobody@"+silent(t)+"/none?sslmode=disable", postgres.Options{ConnectTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()

	if err := postgres.Translate(pool.Ping(t.Context())); !errors.Is(err, postgres.ErrUnavailable) {
		t.Errorf("got error %v, want ErrUnavailable", err)
	}
}

// Money keeps every digit on its way through the driver, also by copy.
func TestDecimalsKeepEveryDigit(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE money (n int, usd numeric(20,10))"); err != nil {
		t.Fatal(err)
	}
	want := decimal.RequireFromString("1234567890.0123456789")
	rows := [][]any{{1, want}, {2, &want}, {3, (*decimal.Decimal)(nil)}}
	if _, err := pool.CopyFrom(t.Context(), pgx.Identifier{"money"}, []string{"n", "usd"}, pgx.CopyFromRows(rows)); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "INSERT INTO money VALUES (4, $1), (5, $2)", want, (*decimal.Decimal)(nil)); err != nil {
		t.Fatal(err)
	}

	found, _ := pool.Query(t.Context(), "SELECT usd FROM money ORDER BY n") // the error comes with the rows
	got, err := pgx.CollectRows(found, pgx.RowTo[*decimal.Decimal])
	if err != nil {
		t.Fatal(err)
	}
	for n, null := range []bool{false, false, true, false, true} {
		if (got[n] == nil) != null || got[n] != nil && !got[n].Equal(want) {
			t.Errorf("row %d: got %v, want %v (null: %t)", n+1, got[n], want, null)
		}
	}
}
