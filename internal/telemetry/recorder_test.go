package telemetry

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
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

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// memory is a store that keeps what it is given, by the rules of insert.
type memory struct {
	mu      sync.Mutex
	insert  func(ctx context.Context) error // asked before every insert
	runs    map[uuid.UUID]int
	usage   map[uuid.UUID]int
	events  map[uint64]int
	batches []int
}

func newMemory(insert func(ctx context.Context) error) *memory {
	return &memory{insert: insert, runs: map[uuid.UUID]int{}, usage: map[uuid.UUID]int{}, events: map[uint64]int{}}
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

func (m *memory) InsertUsage(ctx context.Context, runs []*llm.Run) error {
	if err := m.insert(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, run := range runs {
		m.usage[run.RunID]++
	}
	return nil
}

func (m *memory) EnsurePartitions(ctx context.Context, _ time.Time) error { return m.insert(ctx) }

func (m *memory) ForgetUsageRuns(context.Context) error { return nil }

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
		r, reg := setup(t, config(), store)
		r.Start()
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.Record(answered(time.Now()))
		if diff := cmp.Diff(map[string]float64{"written": 0, "dropped": 1}, fate(r)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]float64{"queue_full": 0, "panic": 0, "refused": 0, "shutdown": 1}, drops(t, reg)); diff != "" {
			t.Errorf("drops (-want +got):\n%s", diff)
		}
	})
}

// A row that the server refuses costs itself, neither the batch it came in nor
// those behind it.
func TestAPoisonedRowCostsOnlyItself(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	metrics, reg := newMetrics(t)
	var log bytes.Buffer
	r := New(config(), NewRepository(db), metrics, slog.New(slog.NewTextHandler(&log, nil)))
	for i := range 100 {
		run := answered(noon)
		if i == 17 || i == 80 {
			run.FinishedAt = endOfTime
		}
		r.Record(run)
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(map[string]float64{"written": 98, "dropped": 2}, fate(r)); diff != "" {
		t.Errorf("fate of the rows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]float64{"queue_full": 0, "panic": 0, "refused": 2, "shutdown": 0}, drops(t, reg)); diff != "" {
		t.Errorf("drops (-want +got):\n%s", diff)
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

// picky is a store that refuses every run which has a cost.
type picky struct {
	*memory
	kept []llm.Attempt
}

func (p *picky) InsertRuns(ctx context.Context, runs []*llm.Run) error {
	for _, run := range runs {
		if run.Attempts[0].Cost != nil {
			return fmt.Errorf("%w: a cost", errRefused)
		}
	}
	for _, run := range runs {
		p.kept = append(p.kept, run.Attempts...)
	}
	return p.memory.InsertRuns(ctx, runs)
}

func TestARunIsStoredWithoutTheSpendThatIsRefused(t *testing.T) {
	t.Parallel()
	store := &picky{memory: newMemory(works)}
	metrics, reg := newMetrics(t)
	var log bytes.Buffer
	r := New(config(), store, metrics, slog.New(slog.NewTextHandler(&log, nil)))
	refused, taken := answered(noon), answered(noon)
	taken.Attempts[0].Cost = nil
	taken.Attempts[0].Usage.Input = llm.Tokens(11)
	for range 2 {
		r.Record(refused)
		r.Record(taken)
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(map[string]float64{"queue_full": 0, "panic": 0, "refused": 0, "shutdown": 0}, drops(t, reg)); diff != "" {
		t.Errorf("drops (-want +got):\n%s", diff)
	}
	bare := refused.Attempts[0]
	bare.Usage, bare.Cost, bare.Unpriced = llm.Usage{Anomaly: true}, nil, true
	want := []llm.Attempt{bare, bare, taken.Attempts[0], taken.Attempts[0]}
	slices.SortFunc(store.kept, func(a, b llm.Attempt) int { return int(a.Usage.Input.N - b.Usage.Input.N) })
	if diff := cmp.Diff(want, store.kept); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	if refused.Attempts[0].Cost == nil {
		t.Error("the run itself was changed")
	}
	if got := strings.Count(log.String(), "level=ERROR"); got != 1 {
		t.Errorf("%d error lines, want one:\n%s", got, log.String())
	}
}

// With the database slower than the calls there is always another batch of
// runs; the events must not wait for the last one.
func TestEventsDoNotWaitForRunsToRunOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(func(context.Context) error {
			time.Sleep(time.Second)
			return nil
		})
		r, _ := setup(t, config(), store)
		for range 20 * batchSize {
			r.Record(answered(time.Now()))
		}
		r.CircuitEvent(opened(1, time.Now()))
		r.Start()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		store.mu.Lock()
		defer store.mu.Unlock()
		if len(store.events) != 1 || len(store.runs) == 20*batchSize {
			t.Errorf("%d events and %d runs are written, want the event before the last runs", len(store.events), len(store.runs))
		}
	})
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
