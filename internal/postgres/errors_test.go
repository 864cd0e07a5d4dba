package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/postgres"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A log has one line for an error, and each try of the driver once.
func TestWhatTheDriverTriedIsToldOnceAndInOneLine(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://me@127.0.0.1:1/x?sslmode=prefer", "postgres://me@127.0.0.1:1,127.0.0.1:2/x"} {
		err := postgres.Verify(t.Context(), url)
		if text := fmt.Sprint(err); !errors.Is(err, postgres.ErrUnavailable) || strings.ContainsAny(text, "\n\t") || strings.Count(text, "127.0.0.1:1: ") != 1 {
			t.Errorf("got %q, want one line with one try of each address", text)
		}
		if _, err := postgres.Migrate(t.Context(), url); strings.ContainsAny(fmt.Sprint(err), "\n\t") {
			t.Errorf("got %q, want one line", err)
		}
	}
}

func TestTranslate(t *testing.T) {
	t.Parallel()
	state := func(code string) error { return fmt.Errorf("insert runs: %w", &pgconn.PgError{Code: code}) }
	tests := []struct {
		name string
		err  error
		want error // nil: neither of ours
	}{
		{"no row", fmt.Errorf("find run: %w", pgx.ErrNoRows), postgres.ErrNotFound},
		{"shutting down", state("57P01"), postgres.ErrUnavailable},
		{"starting", state("57P03"), postgres.ErrUnavailable},
		{"too many connections", state("53300"), postgres.ErrUnavailable},
		{"disk full", state("53100"), postgres.ErrUnavailable},
		{"standby", state("25006"), postgres.ErrUnavailable},
		{"cut connection", io.ErrUnexpectedEOF, postgres.ErrUnavailable},
		{"refused connection", &net.OpError{Op: "dial", Err: errors.New("refused")}, postgres.ErrUnavailable},
		{"too slow", fmt.Errorf("select: %w", context.DeadlineExceeded), postgres.ErrUnavailable},
		{"caller left", fmt.Errorf("select: %w", context.Canceled), nil},
		{"duplicate key", state("23505"), nil},
		{"bad value", state("22P02"), nil},
		{"wrong password", state("28P01"), nil},
		{"no such database", state("3D000"), nil},
		{"short code", state("0"), nil},
		{"other", errors.New("other"), nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := postgres.Translate(test.err)
			for _, ours := range []error{postgres.ErrNotFound, postgres.ErrUnavailable} {
				if is := errors.Is(got, ours); is != (test.want == ours) {
					t.Errorf("is %q: %t, want %t", ours, is, !is)
				}
			}
			if !errors.Is(got, test.err) {
				t.Errorf("%v has lost its cause", got)
			}
			if again := postgres.Translate(got); again.Error() != got.Error() {
				t.Errorf("translated twice it reads %q, want %q", again, got)
			}
		})
	}
	if err := postgres.Translate(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

func TestASessionThatWasCutIsUnavailable(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	conn := connect(t, url)
	exec(t, url, fmt.Sprintf("SELECT pg_terminate_backend(%d, 5000)", conn.PgConn().PID()))

	for _, when := range []string{"cut", "closed"} {
		if _, err := conn.Exec(t.Context(), "SELECT 1"); !errors.Is(postgres.Translate(err), postgres.ErrUnavailable) {
			t.Errorf("%s: got error %v, want ErrUnavailable", when, err)
		}
	}
}

func TestAMissingDatabaseIsNotUnavailable(t *testing.T) {
	t.Parallel()
	cfg := connect(t, postgrestest.EmptyURL(t)).Config()
	cfg.Database = "no_such_database"

	_, err := pgx.ConnectConfig(t.Context(), cfg)
	if got := postgres.Translate(err); got == nil || errors.Is(got, postgres.ErrUnavailable) {
		t.Errorf("got error %v, want one that waiting does not mend", got)
	}
}

// silent is the address of a listener that takes connections and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}
