package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// memory is a store that keeps what it is given, by the rules of insert.
type memory struct {
	mu      sync.Mutex
	insert  func(ctx context.Context) error // asked before every insert
	runs    map[uuid.UUID]int
	events  map[uint64]int
	batches []int
}

func newMemory(insert func(ctx context.Context) error) *memory {
	return &memory{insert: insert, runs: map[uuid.UUID]int{}, events: map[uint64]int{}}
}

func (m *memory) InsertRuns(ctx context.Context, runs []*llm.Run) error {
	if err := m.insert(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.batches = append(m.batches, len(runs))
	for _, run := range runs {
		m.runs[run.RunID]++
	}
	return nil
}

func (m *memory) InsertCircuitEvents(ctx context.Context, _ string, _ uuid.UUID, events []*breaker.Event) error {
	if err := m.insert(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range events {
		m.events[e.Seq]++
	}
	return nil
}

func (m *memory) EnsurePartitions(ctx context.Context, _ time.Time) error { return m.insert(ctx) }

func (m *memory) stored() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.runs)
}

func works(context.Context) error { return nil }

func setup(t *testing.T, cfg Config, s store) (*Recorder, *prometheus.Registry) {
	t.Helper()
	metrics, reg := newMetrics(t)
	r := New(cfg, s, metrics, quiet())
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = r.Stop(ctx) // a test that cares about the rest has stopped it before
	})
	return r, reg
}

func config() Config {
	return Config{Queue: 65536, FlushInterval: 250 * time.Millisecond, Node: "node-1", BootID: uuid.Must(uuid.NewV7())}
}

func fate(r *Recorder) map[string]float64 {
	return map[string]float64{"written": testutil.ToFloat64(r.metrics.written), "dropped": testutil.ToFloat64(r.metrics.dropped)}
}

func TestRowsAreWrittenWithinTheFlushInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(works)
		r, _ := setup(t, config(), store)
		r.Start()
		r.Record(answered(time.Now()))
		r.CircuitEvent(opened(1, time.Now()))

		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		if got := store.stored(); got != 1 {
			t.Errorf("%d runs after one interval, want 1", got)
		}
		if diff := cmp.Diff(map[uint64]int{1: 1}, store.events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if got := r.Waiting(); got != 0 {
			t.Errorf("%d rows still count as waiting", got)
		}
	})
}

func TestACompleteBatchDoesNotWaitForTheInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(works)
		cfg := config()
		cfg.FlushInterval = time.Hour
		r, _ := setup(t, cfg, store)
		r.Start()
		for range batchSize {
			r.Record(answered(time.Now()))
		}
		synctest.Wait()
		if got := store.stored(); got != batchSize {
			t.Errorf("%d runs written before the interval, want %d", got, batchSize)
		}
	})
}

// TEL-07: statements take half a second, calls do not.
func TestASlowDatabaseIsNotOnTheRequestPath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(func(context.Context) error {
			time.Sleep(500 * time.Millisecond)
			return nil
		})
		r, _ := setup(t, config(), store)
		r.Start()

		begin := time.Now()
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				for range 10 {
					r.Record(answered(time.Now()))
				}
			})
		}
		calls.Wait()
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("TEL-07: 500 calls waited %v for the database", waited)
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := store.stored(); got != 500 {
			t.Errorf("TEL-07: %d runs written, want 500", got)
		}
		if len(store.batches) > 5 {
			t.Errorf("TEL-07: %d batches for 500 rows, want few", len(store.batches))
		}
	})
}

// TEL-01: the queue is bounded while the database is away; the newest rows find
// no room, and nothing is lost or doubled of the others, not even when the
// answer to a commit is lost.
func TestAnOutageCostsOnlyTheRowsBeyondTheQueue(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	repo := &outage{Repository: NewRepository(db), loseAnswers: 1}
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
	if got := count(t, db, "SELECT count(*) FROM telemetry_runs"); got != 1000 {
		t.Errorf("TEL-01: %d runs stored, want 1000", got)
	}
	if got := count(t, db, "SELECT count(*) FROM telemetry_attempts"); got != 1000 {
		t.Errorf("TEL-01: %d attempts stored, want 1000", got)
	}
}

// outage is a Repository that cannot be reached while away is locked, and that
// loses the answers to the first inserts after it.
type outage struct {
	*Repository
	away        sync.Mutex
	loseAnswers int
}

var errAway = errors.New("the database is away")

func (o *outage) EnsurePartitions(context.Context, time.Time) error { return errAway }

func (o *outage) InsertRuns(ctx context.Context, runs []*llm.Run) error {
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

// TEL-03: no limit of ours truncates a flush.
func TestEveryRowOfOneIntervalIsWritten(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	r, _ := setup(t, config(), NewRepository(db))
	for i := range 250 {
		run := answered(noon)
		run.RequestedModel = fmt.Sprintf("model-%d", i)
		r.Record(run)
	}
	r.Start()
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := count(t, db, "SELECT count(DISTINCT requested_model) FROM telemetry_runs"); got != 250 {
		t.Errorf("TEL-03: %d rows, want 250", got)
	}
	if got := count(t, db, "SELECT sum(output_tokens) FROM telemetry_runs"); got != 500 {
		t.Errorf("TEL-03: %d output tokens in all, want 500", got)
	}
}

// LIF-03: what is buffered at a graceful stop is written, however far the next
// flush is, and also when Start was never called.
func TestStopWritesWhatWaits(t *testing.T) {
	t.Parallel()
	for _, started := range []bool{true, false} {
		t.Run(fmt.Sprintf("started=%t", started), func(t *testing.T) {
			t.Parallel()
			db := postgrestest.New(t)
			cfg := config()
			cfg.FlushInterval = time.Minute
			r, _ := setup(t, cfg, NewRepository(db))
			if started {
				r.Start()
			}
			for range 20 {
				r.Record(answered(noon))
			}
			r.CircuitEvent(opened(1, noon))
			for range 2 {
				if err := r.Stop(t.Context()); err != nil {
					t.Fatalf("LIF-03: stop: %v", err)
				}
			}
			if got := count(t, db, "SELECT count(*) FROM telemetry_runs"); got != 20 {
				t.Errorf("LIF-03: %d runs stored, want 20", got)
			}
			if got := count(t, db, "SELECT count(*) FROM circuit_events"); got != 1 {
				t.Errorf("LIF-03: %d events stored, want 1", got)
			}
		})
	}
}

func TestRowsThatComeAfterStopAreCountedAsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(works)
		r, _ := setup(t, config(), store)
		r.Start()
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.Record(answered(time.Now()))
		if diff := cmp.Diff(map[string]float64{"written": 0, "dropped": 1}, fate(r)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A stop that may not wait for ever says what it had to give up.
func TestStopGivesUpOnADatabaseThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := setup(t, config(), newMemory(func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}))
		r.Start()
		r.Record(answered(time.Now()))
		r.Record(answered(time.Now()))
		time.Sleep(time.Minute)

		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begin := time.Now()
		if err := r.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "2 rows") {
			t.Errorf("stop: %v, want an error that names 2 rows and the deadline", err)
		}
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("stop took %v, want the 5 s it was given", took)
		}
		if diff := cmp.Diff(map[string]float64{"written": 0, "dropped": 2}, fate(r)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
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

// A row that the server refuses costs itself, neither the batch it came in nor
// those behind it.
func TestAPoisonedRowCostsOnlyItself(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	metrics, _ := newMetrics(t)
	var log bytes.Buffer
	r := New(config(), NewRepository(db), metrics, slog.New(slog.NewTextHandler(&log, nil)))
	for i := range 100 {
		run := answered(noon)
		if i == 17 || i == 80 {
			run.Attempts[0].Cost = ptr(decimal.New(1, 15)) // over numeric(20,10)
		}
		r.Record(run)
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(map[string]float64{"written": 98, "dropped": 2}, fate(r)); diff != "" {
		t.Errorf("fate of the rows (-want +got):\n%s", diff)
	}
	if got := count(t, db, "SELECT count(*) FROM telemetry_runs"); got != 98 {
		t.Errorf("%d runs stored, want 98", got)
	}
	if got := count(t, db, "SELECT count(*) FROM telemetry_attempts"); got != 98 {
		t.Errorf("%d attempts stored, want 98: a run and its attempts are one", got)
	}
	if got := strings.Count(log.String(), "level=ERROR"); got != 1 {
		t.Errorf("%d error lines for one batch:\n%s", got, log.String())
	}
}

func TestPartitionsAreKeptReadyHourly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &counting{memory: newMemory(works)}
		r, _ := setup(t, config(), store)
		r.Start()
		synctest.Wait()
		if got := store.ensured.Load(); got != 1 {
			t.Errorf("partitions kept %d times at start, want once", got)
		}
		time.Sleep(3*time.Hour + time.Minute)
		synctest.Wait()
		if got := store.ensured.Load(); got != 4 {
			t.Errorf("partitions kept %d times in three hours, want 4", got)
		}
	})
}

type counting struct {
	*memory
	ensured atomic.Int32
}

func (c *counting) EnsurePartitions(context.Context, time.Time) error {
	c.ensured.Add(1)
	return nil
}

// BenchmarkRecord is what a call pays for being recorded: its metrics and its
// place in the queue.
func BenchmarkRecord(b *testing.B) {
	reg := prometheus.NewRegistry()
	known := known()
	known.Prices = budget.NewPrices(map[llm.Target]budget.Price{
		alpha: {Input: decimal.RequireFromString("0.40"), Output: decimal.RequireFromString("1.60")},
	})
	r := New(Config{Queue: 1 << 30, FlushInterval: 10 * time.Millisecond}, discard{}, NewMetrics(reg, known), quiet())
	r.Start()
	run := answered(time.Now())
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Record(run)
		}
	})
	b.StopTimer()
	if err := r.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkInsertRuns is what the database takes for one complete batch.
func BenchmarkInsertRuns(b *testing.B) {
	repo := NewRepository(postgrestest.New(b))
	if err := repo.EnsurePartitions(b.Context(), noon); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.StopTimer()
		runs := answeredMany(batchSize, noon)
		b.StartTimer()
		if err := repo.InsertRuns(b.Context(), runs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(batchSize*b.N)/b.Elapsed().Seconds(), "runs/s")
}

// discard is a database that costs nothing.
type discard struct{ store }

func (discard) InsertRuns(context.Context, []*llm.Run) error      { return nil }
func (discard) EnsurePartitions(context.Context, time.Time) error { return nil }
