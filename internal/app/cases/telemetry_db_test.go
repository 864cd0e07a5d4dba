package cases

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

var telemetryDB = theme{
	"TEL_01": anOutageCostsNoRow,
	"TEL_03": everyRowOfAFlushIsKept,
	"TEL_07": aSlowDatabaseStaysOffTheRequestPath,
}

// With the database down calls are answered as ever; what finds no room in memory
// waits on disk, and all is written once when it returns.
func anOutageCostsNoRow(t *testing.T) {
	const queue, calls = 1000, 1500
	link := apptest.NewLink(t, postgrestest.URL(t))
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.StartWith(t, apptest.OneTarget(a, fmt.Sprintf("telemetry: {flush_interval: 20ms, queue: %d}", queue)), link.URL)
	well := apptest.Start(t, apptest.OneTarget(a)) // which knows of no outage, on a machine that is as busy
	took := func(n int) (median, usual time.Duration) {
		each, others := make([]time.Duration, n), make([]time.Duration, n)
		inParallel(8, n, func(i int) {
			answer := g.Post(t, apptest.ChatBody)
			if answer.Status != http.StatusOK {
				t.Errorf("call %d got %d %s", i, answer.Status, answer.Body)
			}
			if each[i] = answer.Took; i%4 == 0 {
				others[i] = well.Post(t, apptest.ChatBody).Took
			}
		})
		others = slices.DeleteFunc(others, func(d time.Duration) bool { return d == 0 })
		slices.Sort(each)
		slices.Sort(others)
		return each[n/2], others[len(others)/2]
	}
	took(200)
	g.Runs(t, 200)
	g.AwaitMetric(t, `breakwater_telemetry_rows_total{result="written"}`, "200") // the gateway knows, too
	const spooled = `breakwater_telemetry_rows_total{result="spooled"}`
	before, err := strconv.Atoi(g.Metrics(t, spooled)[spooled]) // until the schema was there
	if err != nil {
		t.Fatal(err)
	}

	link.Cut()
	// Waiting for the database would cost hundreds of milliseconds: it is tried
	// again after a tenth of a second at the soonest.
	if median, usual := took(calls); median > 5*usual+50*time.Millisecond {
		t.Errorf("the median call took %s while the database was down, %s elsewhere", median, usual)
	}
	g.AwaitMetric(t, "breakwater_telemetry_queue_length", "0")
	g.AwaitMetric(t, spooled, fmt.Sprint(before+calls))
	g.AwaitMetric(t, "breakwater_database_degraded", "1")

	link.Mend()
	g.AwaitMetric(t, `breakwater_telemetry_rows_total{result="written"}`, fmt.Sprint(200+calls))
	g.Runs(t, 200+calls)
	g.Attempts(t, 200+calls)
	g.AwaitMetric(t, `breakwater_telemetry_rows_total{result="dropped"}`, "0")
	g.AwaitMetric(t, "breakwater_telemetry_spool_bytes", "0")
	g.AwaitMetric(t, "breakwater_database_degraded", "0")
}

// Every call of one flush interval has its row, however many models they name.
func everyRowOfAFlushIsKept(t *testing.T) {
	const calls = 250
	var models strings.Builder
	for i := range calls {
		fmt.Fprintf(&models, "m-%d: {input: 1, output: 5}, ", i)
	}
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.Configuration("configurations: {}\ntelemetry: {flush_interval: 1s}",
		apptest.Provider{Name: "alpha", Region: "r1", Upstream: a, Extra: "models: {" + models.String() + "}"}))

	inParallel(16, calls, func(i int) {
		body := strings.Replace(apptest.ChatBody, `"chat"`, fmt.Sprintf(`"alpha/m-%d"`, i), 1)
		if answer := g.Post(t, body); answer.Status != http.StatusOK {
			t.Errorf("call %d got %d %s", i, answer.Status, answer.Body)
		}
	})
	g.Runs(t, calls)
	seen := map[any]bool{}
	for _, attempt := range g.Attempts(t, calls) {
		seen[attempt["model"]] = true
	}
	if len(seen) != calls {
		t.Errorf("%d models in the rows, want %d", len(seen), calls)
	}
	var input int64
	if err := g.DB.QueryRow(context.Background(), "SELECT sum(input_tokens)::bigint FROM telemetry_runs").Scan(&input); err != nil {
		t.Fatal(err)
	}
	if input != 10*calls {
		t.Errorf("input tokens sum up to %d, want %d", input, 10*calls)
	}
}

// A database that takes its time over a statement slows no call down, and the
// rows still arrive, in batches.
func aSlowDatabaseStaysOffTheRequestPath(t *testing.T) {
	const (
		calls  = 500
		atMost = 14 * time.Second // one that waited would take the 15 s after which the writer gives a statement up
	)
	a := apptest.NewUpstream(t, apptest.Status(http.StatusServiceUnavailable))
	g := apptest.Start(t, apptest.OneTarget(a, "circuit_breaker: {enabled: false}", "telemetry: {flush_interval: 50ms}"))
	countInserts(t, g)

	release := holdInserts(t, g) // the statement in hand lasts as long as all calls
	took := make([]time.Duration, calls)
	inParallel(20, calls, func(i int) { took[i] = g.Post(t, apptest.ChatBody).Took })
	if slowest := slices.Max(took); slowest >= atMost {
		t.Errorf("the slowest call took %s: calls wait for the database", slowest)
	}
	inParallel(20, 20, func(int) { // others who use the pool meanwhile
		if answer := apptest.Read(t, g.AdminURL+"/api/v1/runs?limit=1"); answer.Status != http.StatusOK {
			t.Errorf("a list of runs got %d %s", answer.Status, answer.Body)
		}
	})
	g.Runs(t, 0)

	release()
	g.Runs(t, calls)
	if n := statements(t, g); n > calls/2 {
		t.Errorf("%d statements wrote %d runs, want batches", n, calls)
	}
}

// inParallel runs n calls, a few at a time.
func inParallel(width, n int, call func(i int)) {
	next := make(chan int)
	var workers sync.WaitGroup
	for range width {
		workers.Go(func() {
			for i := range next {
				call(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
}

// countInserts counts the statements that insert runs.
func countInserts(t *testing.T, g *apptest.Gateway) {
	t.Helper()
	_, err := g.DB.Exec(t.Context(), `
		CREATE SEQUENCE statements;
		CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM nextval('statements'); RETURN NULL; END $$;
		CREATE TRIGGER note BEFORE INSERT ON telemetry_runs FOR EACH STATEMENT EXECUTE FUNCTION note();`)
	if err != nil {
		t.Fatal(err)
	}
}

// holdInserts keeps statements that insert runs waiting until release.
func holdInserts(t *testing.T, g *apptest.Gateway) (release func()) {
	t.Helper()
	tx, err := g.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	release = func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) } // nothing was written
	t.Cleanup(release)
	if _, err := tx.Exec(t.Context(), "LOCK TABLE telemetry_runs IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	return release
}

func statements(t *testing.T, g *apptest.Gateway) int {
	t.Helper()
	var n int
	if err := g.DB.QueryRow(t.Context(), "SELECT last_value FROM statements").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
