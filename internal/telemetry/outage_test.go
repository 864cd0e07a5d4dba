package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// TEL-01: the queue is bounded while the database is away; the newest rows find
// no room, and nothing is lost or doubled of the others, not even when the
// answer to a commit is lost.
func TestAnOutageCostsOnlyTheRowsBeyondTheQueue(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	repo := &absence{Repository: NewRepository(db), loseAnswers: 1}
	repo.away.Lock()
	cfg := config()
	cfg.Queue, cfg.FlushInterval = 1000, time.Millisecond
	r, reg := setup(t, cfg, repo)
	r.Start()

	for range 1500 {
		r.Record(answered(noon))
	}
	if got := r.Waiting(); got != 1000 {
		t.Errorf("TEL-01: %d rows wait, want 1000", got)
	}
	want := "# HELP breakwater_telemetry_queue_length Rows that wait for the database.\n# TYPE breakwater_telemetry_queue_length gauge\nbreakwater_telemetry_queue_length 1000\n"
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "breakwater_telemetry_queue_length"); err != nil {
		t.Errorf("TEL-01: %v", err)
	}
	repo.away.Unlock()
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(map[string]float64{"written": 1000, "dropped": 500}, fate(r)); diff != "" {
		t.Errorf("TEL-01: fate of the rows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]float64{"queue_full": 500, "panic": 0, "refused": 0, "shutdown": 0}, drops(t, reg)); diff != "" {
		t.Errorf("TEL-01: drops (-want +got):\n%s", diff)
	}
	if got := count(t, db, "SELECT count(*) FROM telemetry_runs"); got != 1000 {
		t.Errorf("TEL-01: %d runs stored, want 1000", got)
	}
	if got := count(t, db, "SELECT count(*) FROM telemetry_attempts"); got != 1000 {
		t.Errorf("TEL-01: %d attempts stored, want 1000", got)
	}
}

// absence is a Repository that cannot be reached while away is locked, and that
// loses the answers to the first inserts after it.
type absence struct {
	*Repository
	away        sync.Mutex
	loseAnswers int
}

var errAway = errors.New("the database is away")

func (o *absence) EnsurePartitions(context.Context, time.Time) error { return errAway }

func (o *absence) InsertRuns(ctx context.Context, runs []*llm.Run) error {
	if !o.away.TryLock() {
		return errAway
	}
	defer o.away.Unlock()
	err := o.Repository.InsertRuns(ctx, runs)
	if err == nil && o.loseAnswers > 0 {
		o.loseAnswers--
		return errAway
	}
	return err
}

// The server cuts every connection and lets nobody in for a while.
func TestRowsSurviveALostConnection(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	r, _ := setup(t, config(), NewRepository(db))
	r.Start()
	r.Record(answered(noon))
	waitFor(t, func() bool { return r.Waiting() == 0 })

	server := maintenance(t, db)
	name := db.Config().ConnConfig.Database
	server("ALTER DATABASE " + name + " ALLOW_CONNECTIONS false")
	server("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + name + "'")
	for range 10 {
		r.Record(answered(noon))
	}
	waitFor(t, r.Degraded)
	server("ALTER DATABASE " + name + " ALLOW_CONNECTIONS true")
	waitFor(t, func() bool { return r.Waiting() == 0 })

	if r.Degraded() {
		t.Error("still degraded after the rows were written")
	}
	if diff := cmp.Diff(map[string]float64{"written": 11, "dropped": 0}, fate(r)); diff != "" {
		t.Errorf("fate of the rows (-want +got):\n%s", diff)
	}
	if got := count(t, db, "SELECT count(*) FROM telemetry_runs"); got != 11 {
		t.Errorf("%d runs stored, want 11", got)
	}
}

// maintenance returns what runs a statement on the server from outside of the
// test's database.
func maintenance(t *testing.T, db *pgxpool.Pool) func(sql string) {
	t.Helper()
	cfg := db.Config().ConnConfig.Copy()
	cfg.Database = "postgres"
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for timeout := time.After(30 * time.Second); !done(); {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatal("not within 30 s")
		}
	}
}

// hangs is a database that takes connections and never answers.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// A stop that may not wait for ever says what it had to give up, and why. The
// time it was given is for a database that is slow; one that is known to be away
// gets no more than a last chance.
func TestStopGivesUp(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		insert func(context.Context) error
		before time.Duration // that the rows have waited when Stop is called
		latest time.Duration // how long Stop may take
		says   []string
		is     error
	}{
		"on one that has just begun to hang": {hangs, 0, 5 * time.Second, nil, context.DeadlineExceeded},
		"soon on one that has hung for long": {hangs, time.Minute, lastChance, []string{"the database is away since 2000-01-01T00:00:15Z"}, context.DeadlineExceeded},
		"soon on one that cannot be reached": {func(context.Context) error { return errAway }, time.Minute, lastChance, []string{"the database is away since 2000-01-01T00:00:00Z"}, errAway},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, reg := setup(t, config(), newMemory(tt.insert))
				r.Start()
				r.Record(answered(time.Now()))
				r.Record(answered(time.Now()))
				r.CircuitEvent(opened(1, time.Now()))
				time.Sleep(tt.before)

				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				begin := time.Now()
				err := r.Stop(ctx)
				if took := time.Since(begin); took != tt.latest {
					t.Errorf("stop took %v, want %v", took, tt.latest)
				}
				if !errors.Is(err, tt.is) {
					t.Errorf("stop: %v, want it to wrap %v", err, tt.is)
				}
				for _, says := range append(tt.says, "3 rows were not written (runs: 2, circuit events: 1)") {
					if !strings.Contains(fmt.Sprint(err), says) {
						t.Errorf("stop: %v, want it to say %q", err, says)
					}
				}
				if diff := cmp.Diff(map[string]float64{"queue_full": 0, "panic": 0, "refused": 0, "shutdown": 3}, drops(t, reg)); diff != "" {
					t.Errorf("drops (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// drops returns how many rows were dropped, by reason.
func drops(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	const family = `telemetry_dropped_rows_total{reason="`
	found := map[string]float64{}
	for name, value := range series(t, reg) {
		if reason, ok := strings.CutPrefix(name, family); ok {
			found[strings.TrimSuffix(reason, `"}`)] = value
		}
	}
	return found
}

// A writer that pauses because the database was away tries at once when it is
// told to stop, and goes on for as long as it gets somewhere.
func TestStopWritesWhenTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		away.Store(true)
		store := newMemory(func(context.Context) error {
			if away.Load() {
				return errAway
			}
			time.Sleep(time.Second) // slow, but there
			return nil
		})
		r, _ := setup(t, config(), store)
		for range 5 * batchSize {
			r.Record(answered(time.Now()))
		}
		r.Start()
		time.Sleep(time.Minute)
		away.Store(false)

		begin := time.Now()
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 7*time.Second {
			t.Errorf("stop took %v for five batches of a second", took)
		}
		if got := store.stored(); got != 5*batchSize {
			t.Errorf("%d runs stored, want %d", got, 5*batchSize)
		}
	})
}

// A database that returns within the last chance gets the rows.
func TestStopHopesForALittle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		back := time.Now().Add(time.Minute + lastChance/2)
		store := newMemory(func(context.Context) error {
			if time.Now().Before(back) {
				return errAway
			}
			return nil
		})
		r, _ := setup(t, config(), store)
		r.Start()
		r.Record(answered(time.Now()))
		time.Sleep(time.Minute)
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := store.stored(); got != 1 {
			t.Errorf("%d runs stored, want 1", got)
		}
	})
}

func TestAnOutageIsVisibleAndLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		var tries atomic.Int32
		store := newMemory(func(context.Context) error {
			if away.Load() {
				tries.Add(1)
				return errAway
			}
			return nil
		})
		metrics, _ := newMetrics(t)
		var log bytes.Buffer
		r := New(config(), store, metrics, slog.New(slog.NewTextHandler(&log, nil)))
		r.Start()
		synctest.Wait()

		away.Store(true)
		r.Record(answered(time.Now()))
		time.Sleep(time.Minute)
		if !r.Degraded() {
			t.Error("not degraded with the database away")
		}
		if got := tries.Load(); got < 10 || got > 20 {
			t.Errorf("%d tries in a minute, want some, further and further apart", got)
		}
		away.Store(false)
		time.Sleep(time.Minute)
		if r.Degraded() {
			t.Error("still degraded after the database came back")
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(log.String(), "level=WARN"); got != 1 {
			t.Errorf("%d warnings for one outage:\n%s", got, log.String())
		}
		if got := store.stored(); got != 1 {
			t.Errorf("%d runs stored after the outage, want 1", got)
		}
	})
}

// The rows of an outage that lasts are held once, the others not at all.
// It looks at the memory of the whole process, so it runs alone.
func TestAnOutageDoesNotFillTheMemory(t *testing.T) {
	cfg := config()
	cfg.Queue = 1000
	r, _ := setup(t, cfg, newMemory(func(context.Context) error { return errAway }))
	r.Start()
	record := func(n int) {
		for range n {
			r.Record(answered(noon))
		}
	}
	record(2000)
	before := heap()
	record(100_000)
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("the heap has grown by %d bytes over 100,000 runs that found no room", grown)
	}
	if got := r.Waiting(); got != 1000 {
		t.Errorf("%d rows wait, want 1000", got)
	}
}

func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
