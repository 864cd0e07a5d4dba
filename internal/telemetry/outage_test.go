package telemetry

import (
	"bytes"
	"context"
	"errors"
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
	repo := newAbsence(db, 1)
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
	// Stop would give a database that has just lost an answer no more than a last
	// chance, which a busy machine may miss.
	waitFor(t, func() bool { return r.Waiting() == 0 })
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
	if got := count(t, db, "SELECT sum(requests) FROM usage_daily"); got != 1000 {
		t.Errorf("TEL-01: usage of %d calls, want 1000", got)
	}
}

// With telemetry off nothing is doubled either by an answer that is lost.
func TestUsageAloneSurvivesALostAnswer(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	r, _ := setup(t, config(), newAbsence(db, 2))
	for range 1500 {
		r.WithoutRows().Record(answered(noon))
	}
	r.Start()
	waitFor(t, func() bool { return r.Waiting() == 0 })
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := count(t, db, "SELECT sum(requests) FROM usage_daily"); got != 1500 {
		t.Errorf("usage of %d calls, want 1500", got)
	}
}

// absence is a Repository that cannot be reached while away is locked, and that
// loses the answers to the first inserts after it.
type absence struct {
	*Repository
	away        sync.RWMutex
	loseAnswers atomic.Int32
}

func newAbsence(db DB, loseAnswers int32) *absence {
	o := &absence{Repository: NewRepository(db)}
	o.loseAnswers.Store(loseAnswers)
	return o
}

var errAway = errors.New("the database is away")

func (o *absence) EnsurePartitions(ctx context.Context, now time.Time) error {
	if !o.away.TryRLock() {
		return errAway
	}
	defer o.away.RUnlock()
	return o.Repository.EnsurePartitions(ctx, now)
}

func (o *absence) InsertRuns(ctx context.Context, runs []*llm.Run) error {
	return o.insert(ctx, runs, o.Repository.InsertRuns)
}

func (o *absence) InsertUsage(ctx context.Context, runs []*llm.Run) error {
	return o.insert(ctx, runs, o.Repository.InsertUsage)
}

func (o *absence) insert(ctx context.Context, runs []*llm.Run, insert insert[*llm.Run]) error {
	if !o.away.TryRLock() {
		return errAway
	}
	defer o.away.RUnlock()
	err := insert(ctx, runs)
	if err == nil && o.loseAnswers.Add(-1) >= 0 {
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
	if err := r.Stop(t.Context()); err != nil { // the last of them are counted then
		t.Fatal(err)
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

// waitFor waits far longer than a busy machine takes.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for timeout := time.After(2 * time.Minute); !done(); {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatal("not within two minutes")
		}
	}
}

// hangs is a database that takes connections and never answers.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
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
