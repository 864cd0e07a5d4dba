package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/postgres"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// underLoad makes calls all the while, and returns how many were made. None may
// fail, whatever happens to the database.
func underLoad(t *testing.T, g *apptest.Gateway, happens func()) (calls int) {
	t.Helper()
	var over atomic.Bool
	var made atomic.Int64
	var running sync.WaitGroup
	defer running.Wait() // also when what happens ends the test
	defer over.Store(true)
	for i := range 4 {
		running.Go(func() {
			pace := time.NewTicker(5 * time.Millisecond)
			defer pace.Stop()
			for !over.Load() {
				made.Add(1)
				if complaint := callOnce(g, i == 0); complaint != "" {
					t.Error(complaint)
					return
				}
				<-pace.C
			}
		})
	}
	happens()
	over.Store(true)
	running.Wait()
	return int(made.Load())
}

// awaitDegraded waits until readiness and the metric say whether the database is
// away; requests are served either way.
func awaitDegraded(t *testing.T, g *apptest.Gateway, want bool) {
	t.Helper()
	metric, degraded := "0", []string{}
	if want {
		metric, degraded = "1", []string{"database"}
	}
	apptest.Eventually(t, func() string {
		for _, url := range []string{g.URL, g.AdminURL} {
			answer := apptest.Get(t, url+"/readyz")
			var ready struct {
				Status   string
				Degraded []string
			}
			if err := json.Unmarshal([]byte(answer.Body), &ready); err != nil {
				return err.Error()
			}
			if answer.Status != http.StatusOK || ready.Status != "ready" || !cmp.Equal(ready.Degraded, degraded) {
				return fmt.Sprintf("readiness is %d %s, want degraded %v", answer.Status, answer.Body, degraded)
			}
		}
		return ""
	})
	g.AwaitMetric(t, "breakwater_database_degraded", metric)
}

// awaitRows waits until every call has its row; the primary key sees to it that
// none has two, and the counter says that none was dropped.
func awaitRows(t *testing.T, g *apptest.Gateway, calls int) {
	t.Helper()
	g.Runs(t, calls)
	g.Attempts(t, calls)
	g.AwaitMetric(t, `breakwater_telemetry_rows_total{result="written"}`, fmt.Sprint(calls))
	g.AwaitMetric(t, `breakwater_telemetry_rows_total{result="dropped"}`, "0")
	g.AwaitMetric(t, "breakwater_telemetry_queue_length", "0")
}

func okUpstream(t *testing.T) *apptest.Upstream {
	return apptest.NewUpstream(t, apptest.When(`"stream":true`, apptest.OKStream(), apptest.OK()))
}

const soonRefreshed = "health: {refresh: 100ms}"

func TestADatabaseThatIsKilledCostsNoRow(t *testing.T) {
	t.Parallel()
	db := apptest.NewPostgres(t)
	g := apptest.StartWith(t, apptest.OneTarget(okUpstream(t), soonRefreshed), db.URL)
	calls := underLoad(t, g, func() {
		for range 2 {
			before := len(linesWith(g, "telemetry reaches the database again"))
			db.Kill(t)
			apptest.Eventually(t, func() string {
				if len(linesWith(g, "telemetry reaches the database again")) == before {
					return "telemetry has not lost and found the database"
				}
				return ""
			})
		}
	})
	awaitRows(t, g, calls)
	awaitDegraded(t, g, false)
}

// The gateway's own server: the same, and it is the gateway that starts it again.
func TestAPrivateDatabaseThatIsKilledCostsNoRow(t *testing.T) {
	t.Parallel()
	dir := apptest.DataDir(t)
	g := apptest.Start(t, apptest.OneTarget(okUpstream(t), soonRefreshed, fmt.Sprintf("database: {private: true, data_dir: %q, max_conns: 4}", dir)))
	db := apptest.PostgresOf(t, dir)
	pool, err := pgxpool.New(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	g.DB.Close()
	g.DB = pool
	t.Cleanup(pool.Close)
	calls := underLoad(t, g, func() {
		db.Kill(t)
		apptest.Eventually(t, func() string {
			if len(linesWith(g, "private database is back")) == 0 {
				return "the private database is not back"
			}
			return ""
		})
	})
	awaitRows(t, g, calls)
	awaitDegraded(t, g, false)
}

// A server that hangs takes connections and never answers. Nobody waits for it
// for long, and what was recorded meanwhile is written when it goes on.
func TestAFrozenDatabaseIsAwayForAWhile(t *testing.T) {
	t.Parallel()
	db := apptest.NewPostgres(t)
	g := apptest.StartWith(t, apptest.OneTarget(okUpstream(t), soonRefreshed), db.URL)
	g.Post(t, apptest.ChatBody)
	g.Runs(t, 1)

	thaw := db.Freeze(t)
	calls := underLoad(t, g, func() {
		// More readers at once than the pool has connections.
		var reading sync.WaitGroup
		for i := range 12 {
			paths := []string{"/api/v1/runs", "/api/v1/runs/018f0000-0000-7000-8000-000000000000", "/api/v1/circuits/alpha%2Fm1%2Fr1/events"}
			reading.Go(func() { databaseIsAway(t, g.AdminURL+paths[i%len(paths)]) })
		}
		reading.Wait()
		awaitDegraded(t, g, true)
		for _, path := range []string{"/", "/api/v1/circuits", "/api/v1/circuits/alpha%2Fm1%2Fr1", "/api/v1/health/providers", "/api/v1/config"} {
			if answer := apptest.Get(t, g.AdminURL+path); answer.Status != http.StatusOK {
				t.Errorf("%s got %d %s", path, answer.Status, answer.Body)
			}
		}
		thaw()
	})
	awaitRows(t, g, calls+1)
	awaitDegraded(t, g, false)
	if answer := apptest.Get(t, g.AdminURL+"/api/v1/runs"); answer.Status != http.StatusOK {
		t.Errorf("the list of runs got %d %s", answer.Status, answer.Body)
	}
}

// databaseIsAway checks that an endpoint says so, soon.
func databaseIsAway(t *testing.T, url string) {
	t.Helper()
	answer, err := apptest.Do(context.Background(), http.MethodGet, url, "")
	if err != nil {
		t.Error(err)
		return
	}
	if answer.Status != http.StatusServiceUnavailable || !strings.Contains(answer.Body, `"code":"database_unavailable"`) || answer.Header.Get("Retry-After") == "" {
		t.Errorf("%s got %d %s", url, answer.Status, answer.Body)
	}
	if answer.Took > time.Minute { // seconds, on a machine that does nothing else
		t.Errorf("%s took %s", url, answer.Took)
	}
}

// Whichever byte of a batch a connection breaks at, the batch is written once.
func TestConnectionsThatAreCutCostNoRow(t *testing.T) {
	t.Parallel()
	link := apptest.NewLink(t, postgrestest.URL(t))
	g := apptest.StartWith(t, apptest.OneTarget(okUpstream(t), soonRefreshed, "telemetry: {flush_interval: 2ms}"), link.URL)
	calls := underLoad(t, g, func() {
		for range 10 {
			written := g.Metrics(t, `breakwater_telemetry_rows_total{result="written"}`)
			link.Cut()
			link.Mend()
			apptest.Eventually(t, func() string {
				if cmp.Equal(written, g.Metrics(t, `breakwater_telemetry_rows_total{result="written"}`)) {
					return "no rows are written after the cut"
				}
				return ""
			})
		}
	})
	awaitRows(t, g, calls)
}

// After an outage over midnight the day of the rows has no partition.
func TestRowsOfADayWithoutAPartitionAreWritten(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	link := apptest.NewLink(t, url)
	a, b := apptest.NewUpstream(t, apptest.Status(503)), okUpstream(t)
	g := apptest.StartWith(t, apptest.TwoTargets(a, b, "circuit_breaker: {failure_threshold: 1, cooldown: 1h, max_cooldown: 1h}", soonRefreshed), link.URL)
	awaitDegraded(t, g, false)

	link.Cut()
	awaitDegraded(t, g, true)
	for range 3 {
		g.Post(t, apptest.ChatBody)
	}
	dropPartitions(t, url)
	link.Mend()
	g.Runs(t, 3)
	g.Attempts(t, 6)
	g.CircuitEvents(t, 1)
	awaitDegraded(t, g, false)
}

// dropPartitions takes all days away, as if none had begun.
func dropPartitions(t *testing.T, url string) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	_, err = pool.Exec(t.Context(), `DO $$ DECLARE part regclass; BEGIN
		FOR part IN SELECT inhrelid FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
			WHERE inhparent IN ('telemetry_runs'::regclass, 'telemetry_attempts'::regclass, 'circuit_events'::regclass) AND relkind = 'r'
		LOOP EXECUTE 'DROP TABLE ' || part; END LOOP; END $$`)
	if err != nil {
		t.Fatal(err)
	}
}

// A database that is away at the start is not an old schema: calls are served,
// and the schema is seen to when it comes.
func TestADatabaseThatComesAfterTheGateway(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"auto", "verify"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			url := postgrestest.EmptyURL(t)
			link := apptest.NewLink(t, url)
			link.Cut()
			g := apptest.StartWith(t, apptest.OneTarget(okUpstream(t), soonRefreshed,
				fmt.Sprintf("database: {url: %q, max_conns: 4, migrate: %s}", link.URL, mode)), link.URL)
			for range 3 {
				if answer := g.Post(t, apptest.ChatBody); answer.Status != http.StatusOK {
					t.Errorf("a call got %d %s", answer.Status, answer.Body)
				}
			}
			awaitDegraded(t, g, true)
			databaseIsAway(t, g.AdminURL+"/api/v1/runs")

			link.Mend()
			if mode == "verify" {
				awaitOldSchema(t, g, url)
			}
			awaitRows(t, g, 3)
			awaitDegraded(t, g, false)
		})
	}
}

// awaitOldSchema waits until the gateway has found a schema that it may not
// change, and changes it in its place.
func awaitOldSchema(t *testing.T, g *apptest.Gateway, url string) {
	t.Helper()
	apptest.Eventually(t, func() string {
		if len(linesWith(g, "database schema cannot be used")) == 0 {
			return "the log does not say that the schema cannot be used"
		}
		return ""
	})
	awaitDegraded(t, g, true)
	if _, err := postgres.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
}

// A gateway that must stop while the database is away does so soon, and leaves
// what it has recorded to the next.
func TestAStopWithoutTheDatabaseLosesNothing(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*apptest.Link){"cut": (*apptest.Link).Cut, "frozen": (*apptest.Link).Freeze} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			link := apptest.NewLink(t, postgrestest.URL(t))
			text := apptest.OneTarget(okUpstream(t), soonRefreshed, spoolIn(t.TempDir()))
			g := apptest.StartUnwell(t, text, link.URL)
			awaitDegraded(t, g, false)
			leave(link)
			call13(t, g)
			if err := g.Stop(); err != nil {
				t.Errorf("the stop says %v", err)
			}
			link.Mend()
			next := apptest.StartWith(t, text, link.URL)
			awaitRows(t, next, 13)
			next.AwaitMetric(t, "breakwater_telemetry_spool_bytes", "0")
		})
	}
	t.Run("never there", func(t *testing.T) {
		t.Parallel()
		link := apptest.NewLink(t, postgrestest.EmptyURL(t))
		link.Cut()
		text := apptest.OneTarget(okUpstream(t), soonRefreshed, spoolIn(t.TempDir()))
		for range 2 { // the spool of one waits while the next serves
			g := apptest.StartUnwell(t, text, link.URL)
			call13(t, g)
			if err := g.Stop(); err != nil {
				t.Errorf("the stop says %v", err)
			}
		}
		link.Mend()
		awaitRows(t, apptest.StartWith(t, text, link.URL), 26)
	})
}

// A gateway that has not seen its database yet looks once more when it stops. What
// a slow one does not take then, it takes at the next start.
func TestAStopFindsADatabaseThatHasJustCome(t *testing.T) {
	t.Parallel()
	link := apptest.NewLink(t, postgrestest.URL(t))
	link.Cut()
	text := apptest.OneTarget(okUpstream(t), soonRefreshed, spoolIn(t.TempDir()))
	g := apptest.StartUnwell(t, text, link.URL)
	call13(t, g)
	link.Mend()
	if err := g.Stop(); err != nil {
		t.Errorf("the stop says %v", err)
	}
	if len(linesWith(g, "database is back")) == 0 && len(linesWith(g, "records wait for the next start")) == 0 {
		t.Error("the schema was not looked at")
	}
	if len(linesWith(g, "telemetry waits in the spool")) > 0 {
		apptest.StartWith(t, text, link.URL)
	}
	g.Runs(t, 13)
}

// The page shows what is on disk, and not only what has not come there yet.
func TestThePageShowsWhatWaitsInTheSpool(t *testing.T) {
	t.Parallel()
	link := apptest.NewLink(t, postgrestest.URL(t))
	g := apptest.StartWith(t, apptest.OneTarget(okUpstream(t), soonRefreshed, spoolIn(t.TempDir())), link.URL)
	awaitDegraded(t, g, false)
	link.Cut()
	call13(t, g)
	awaitDegraded(t, g, true)
	apptest.Eventually(t, func() string {
		said := words(page(t, g, "/").Find(".notice dl"))
		if !strings.Contains(said, "of 1 GiB in the spool") || strings.Contains(said, "On disk0 bytes") || !strings.Contains(said, "In memory0 records") {
			return "the page says " + said
		}
		return ""
	})
	link.Mend()
	awaitRows(t, g, 13)
}

func spoolIn(dir string) string {
	return fmt.Sprintf("telemetry: {flush_interval: 20ms, spool_dir: %q}", dir)
}

func call13(t *testing.T, g *apptest.Gateway) {
	t.Helper()
	for range 13 {
		if answer := g.Post(t, apptest.ChatBody); answer.Status != http.StatusOK {
			t.Errorf("a call got %d %s", answer.Status, answer.Body)
		}
	}
}

// Without a place on disk a gateway serves as ever, and says at its end what is
// lost and why.
func TestAStopWithoutDatabaseAndSpoolSaysWhatIsLost(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := apptest.NewLink(t, postgrestest.URL(t))
	g := apptest.StartUnwell(t, apptest.OneTarget(okUpstream(t), soonRefreshed, spoolIn(file)), link.URL)
	if len(linesWith(g, "records cannot be kept on disk")) != 1 {
		t.Error("the log does not say that there is no spool")
	}
	g.AwaitMetric(t, "breakwater_telemetry_spool_bytes", "NaN")
	if ready := apptest.Get(t, g.URL+"/readyz"); ready.Status != http.StatusOK || !strings.Contains(string(ready.Body), `"spool"`) {
		t.Errorf("readiness is %d %s, want 200 that says that the spool is away", ready.Status, ready.Body)
	}
	awaitTitle(t, g, "spool unusable · Breakwater")
	link.Cut()
	call13(t, g)
	begun := time.Now()
	err := g.Stop()
	if took := time.Since(begun); took > time.Minute { // a quarter of it, at most, on a machine that does nothing else
		t.Errorf("the stop took %s", took)
	}
	for _, says := range []string{"telemetry is lost: 13 rows were not written (runs: 13, circuit events: 0)", "the database is away since 20"} {
		if !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("the stop says %q, want %q in it", fmt.Sprint(err), says)
		}
	}
}

// Each would write what the other has, so a spool belongs to one gateway.
func TestTwoGatewaysDoNotShareASpool(t *testing.T) {
	t.Parallel()
	text := apptest.OneTarget(okUpstream(t), spoolIn(t.TempDir()))
	apptest.Start(t, text)
	err := apptest.NoStart(t, text, postgrestest.URL(t))
	if !strings.Contains(fmt.Sprint(err), "give each a telemetry.spool_dir of its own") {
		t.Errorf("the second says %v", err)
	}
}
