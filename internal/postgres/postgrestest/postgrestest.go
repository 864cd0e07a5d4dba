// Package postgrestest gives each test a migrated database of its own on a
// real server. The server belongs to the test process and ends with it; its
// files stay for the next one, so only the first run on a machine waits for a
// new cluster. It knows no table.
package postgrestest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const startTimeout = 2 * time.Minute

// New returns a pool on a fresh database with the whole schema. Both are gone
// when the test ends.
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), URL(t), postgres.Options{ConnectTimeout: startTimeout}) // of a busy machine
	if err != nil {
		t.Fatalf("open the test database: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// URL returns the connection string of a fresh database with the whole schema,
// which is gone when the test ends.
func URL(t testing.TB) string {
	t.Helper()
	return create(t, " TEMPLATE "+template+" STRATEGY file_copy") // which nothing need survive
}

// EmptyURL returns the connection string of a fresh database without any
// schema, which is gone when the test ends.
func EmptyURL(t testing.TB) string {
	t.Helper()
	return create(t, "")
}

// Main wraps a package's tests for goleak.VerifyTestMain: when they have ended
// it stops the server, whose goroutines would count as leaked.
func Main(m *testing.M) interface{ Run() int } { return stopAfter{m} }

type stopAfter struct{ tests *testing.M }

// Run runs the tests and returns their exit code.
func (s stopAfter) Run() int {
	code := s.tests.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the test database server:", err)
		return max(code, 1)
	}
	return code
}

func create(t testing.TB, clause string) string {
	t.Helper()
	s, err := get()
	if err != nil {
		t.Fatalf("start the test database server: %v", err)
	}
	name := "test_" + strings.ToLower(rand.Text())
	if err := s.exec(t.Context(), "CREATE DATABASE "+name+clause); err != nil {
		t.Fatalf("create the test database: %v", err)
	}
	t.Cleanup(func() {
		// FORCE cuts what the test has left open.
		if err := s.exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("drop the test database: %v", err)
		}
	})
	return s.url(name)
}

// exec runs one statement on the server's maintenance connection. They run one
// at a time: Postgres clones a template only while nobody else does.
func (s *server) exec(ctx context.Context, sql string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil || s.conn.IsClosed() { // as when a test's time was over in the middle of a statement
		conn, err := pgx.Connect(ctx, s.url("postgres"))
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		s.conn = conn
	}
	for began := time.Now(); ; {
		_, err := s.conn.Exec(ctx, sql)
		if err == nil {
			return nil
		}
		if !inUse(err) || time.Since(began) > startTimeout {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
}

// inUse reports whether sessions of the database were still ending, for which the
// server waits five seconds and no more.
func inUse(err error) bool {
	var answered *pgconn.PgError
	return errors.As(err, &answered) && answered.Code == "55006"
}
