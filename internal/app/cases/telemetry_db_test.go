package cases

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

var telemetryDB = theme{
	"TEL_03": everyRowOfAFlushIsKept,
	"TEL_07": aSlowDatabaseStaysOffTheRequestPath,
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

// A database that takes half a second for each statement slows no call down,
// and the rows still arrive, in batches.
func aSlowDatabaseStaysOffTheRequestPath(t *testing.T) {
	const calls = 500
	url := postgrestest.URL(t)
	slowInserts(t, url)
	a := apptest.NewUpstream(t, apptest.Status(http.StatusServiceUnavailable))
	g := apptest.StartWith(t, apptest.OneTarget(a, "circuit_breaker: {enabled: false}", "telemetry: {flush_interval: 50ms}"), url)

	took := make([]time.Duration, calls)
	inParallel(50, calls, func(i int) { took[i] = g.Post(t, apptest.ChatBody).Took })

	slices.Sort(took)
	// The calls contend with each other for two cores; what they may not do is
	// wait for the database, whose half second would show in the median.
	if p50 := took[calls/2]; p50 >= 500*time.Millisecond {
		t.Errorf("the median call took %s: calls wait for the database", p50)
	}
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

// slowInserts makes each statement that inserts runs take half a second, and
// counts them.
func slowInserts(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), `
		CREATE SEQUENCE statements;
		CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM nextval('statements'), pg_sleep(0.5); RETURN NULL; END $$;
		CREATE TRIGGER dawdle BEFORE INSERT ON telemetry_runs FOR EACH STATEMENT EXECUTE FUNCTION dawdle();`)
	if err != nil {
		t.Fatal(err)
	}
}

func statements(t *testing.T, g *apptest.Gateway) int {
	t.Helper()
	var n int
	if err := g.DB.QueryRow(t.Context(), "SELECT last_value FROM statements").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
