package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// A process that is killed while the database is away loses no row that was on the
// disk, and the next writes each of them once.
func TestAKilledProcessLeavesItsSpool(t *testing.T) {
	t.Parallel()
	const calls, late = 40, 5
	url := postgrestest.URL(t)
	link, upstream := apptest.NewLink(t, url), apptest.NewUpstream(t, apptest.OK())
	text := apptest.OneTarget(upstream, "auth: {mode: open}", "log: {format: json}", "telemetry: {flush_interval: 20ms}",
		`server: {listen: "127.0.0.1:0", admin_listen: "127.0.0.1:0"}`,
		fmt.Sprintf("database: {url: \"${DATABASE_URL}\", max_conns: 4, data_dir: %q}", t.TempDir()))

	killed := startProcess(t, text, link.URL)
	link.Cut()
	for range calls {
		callAnswered(t, killed)
	}
	spooled := fmt.Sprintf("breakwater_telemetry_rows_total{result=\"spooled\"} %d\n", calls)
	apptest.Eventually(t, func() string {
		if metrics := apptest.Get(t, killed.admin+"/metrics").Body; !strings.Contains(metrics, spooled) {
			return "not all rows are on the disk"
		}
		return ""
	})
	for range late {
		callAnswered(t, killed) // may or may not be on the disk
	}
	if err := killed.process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-killed.ended

	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	stored := func(query string) (n int) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	link.Mend()
	next := serveText(t, text, link.URL)
	next.await(t, "telemetry from the spool is in the database")
	callAnswered(t, next)
	apptest.Eventually(t, func() string {
		if n := stored("SELECT count(*)::int FROM telemetry_runs WHERE started_at > now() - interval '1 hour'"); n < calls+1 {
			return fmt.Sprintf("%d rows are there", n)
		}
		return ""
	})
	runs := stored("SELECT count(*)::int FROM telemetry_runs")
	if runs > calls+late+1 {
		t.Errorf("%d rows of %d calls", runs, calls+late+1)
	}
	apptest.Eventually(t, func() string {
		runs, used := stored("SELECT count(*)::int FROM telemetry_runs"), stored("SELECT sum(requests)::int FROM usage_daily")
		if runs != used {
			return fmt.Sprintf("usage of %d calls, rows of %d", used, runs)
		}
		return ""
	})
}

func callAnswered(t *testing.T, r *running) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answer, err := apptest.Do(ctx, http.MethodPost, r.data+"/v1/chat/completions", apptest.ChatBody)
	if err != nil || answer.Status != http.StatusOK {
		t.Fatalf("a call got %d %s %v", answer.Status, answer.Body, err)
	}
}
