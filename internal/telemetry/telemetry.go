// Package telemetry records what calls did: one row per run, one per attempt,
// one per circuit event, and the metrics over them. It only appends and purges;
// whoever wants to read the rows goes to runs or health. A call never waits for
// it: rows pass through a bounded queue to one writer, and what a database that
// is away cannot take is counted, never waited for.
//
// It must not know how a call is served, and no row or label of it holds a
// prompt, an answer, a header, a credential or an upstream's words.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Config says how a Recorder queues and under which name it writes.
type Config struct {
	// Queue is how many runs, and how many circuit events, may wait for the
	// database. A run waits together with its attempts and counts as one row.
	Queue int
	// FlushInterval is the longest that a row waits while the database is well.
	FlushInterval time.Duration
	// Node and BootID name this process in circuit_events.
	Node   string
	BootID uuid.UUID
}

// store is what the Recorder needs of the database; *Repository has it. An
// insert that the database will never accept wraps errRefused; any other error
// means that trying again may help. A batch may be inserted twice and counts
// once.
type store interface {
	InsertRuns(ctx context.Context, runs []*llm.Run) error
	InsertCircuitEvents(ctx context.Context, node string, bootID uuid.UUID, events []*breaker.Event) error
	EnsurePartitions(ctx context.Context, now time.Time) error
}

// Recorder takes rows from many calls at once and writes them in batches.
type Recorder struct {
	cfg     Config
	store   store
	metrics *Metrics
	log     *slog.Logger

	runs   *queue[*llm.Run]
	events *queue[*breaker.Event]
	wake   chan struct{} // a batch is complete before the interval is over

	start, stop sync.Once
	stopping    chan struct{} // closed by Stop: no new rows, no more waiting
	done        chan struct{} // closed when the writer has returned
	ctx         context.Context
	cancel      context.CancelFunc // gives up what is not written yet

	full atomic.Bool            // rows are being dropped for want of room
	away atomic.Pointer[outage] // nil when the last contact with the database went well

	// The writer's own.
	partitionsDue time.Time
	refusalLogged time.Time
}

// outage is a time in which the database cannot be reached.
type outage struct {
	since time.Time
	err   error // of the first contact that failed
}

// New returns a Recorder that takes rows at once and writes them from Start on.
func New(cfg Config, store store, metrics *Metrics, log *slog.Logger) *Recorder {
	wake := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	r := &Recorder{
		cfg: cfg, store: store, metrics: metrics, log: log,
		runs:     newQueue[*llm.Run](cfg.Queue, wake),
		events:   newQueue[*breaker.Event](cfg.Queue, wake),
		wake:     wake,
		stopping: make(chan struct{}),
		done:     make(chan struct{}),
		ctx:      ctx, cancel: cancel,
	}
	metrics.readQueue(r.Waiting)
	return r
}

// Record counts a run in the metrics and queues its rows. It never blocks: with
// the queue full the run is dropped from the tables and counted as dropped. The
// Recorder owns run.Attempts from here on.
func (r *Recorder) Record(run llm.Run) {
	r.metrics.observe(&run)
	if !r.runs.put(&run) {
		r.drop()
	}
}

// Lost counts a run that a panic has kept from being recorded.
func (r *Recorder) Lost(runID uuid.UUID, panicked any, stack []byte) {
	r.metrics.Lost(runID, panicked, stack)
}

// CircuitEvent counts a transition of a circuit and queues its row. It never
// blocks, and a flood of runs takes no event's place.
func (r *Recorder) CircuitEvent(event breaker.Event) {
	r.metrics.CircuitEvent(event)
	if !r.events.put(&event) {
		r.drop()
	}
}

// Waiting returns how many rows wait for the database or are being written.
func (r *Recorder) Waiting() int { return r.runs.len() + r.events.len() }

// Degraded reports whether the last contact with the database failed.
func (r *Recorder) Degraded() bool { return r.away.Load() != nil }

// Start starts the writer.
func (r *Recorder) Start() {
	r.start.Do(func() { go r.write() })
}

// lastChance is how long Stop hopes for a database that is away. Waiting for
// it any longer would cost more than the rows: the supervisor's patience.
const lastChance = 2 * time.Second

// Stop takes no more rows, writes all that wait and ends the writer. When ctx
// ends first, or the database stays away, what is left is dropped, and the error
// says how many rows and why. It may be called twice.
func (r *Recorder) Stop(ctx context.Context) error {
	r.stop.Do(func() {
		close(r.stopping)
		r.runs.close()
		r.events.close()
	})
	r.Start() // rows taken before Start are written, too
	r.awaitWriter(ctx)
	return r.lost(ctx)
}

// awaitWriter returns when the writer has ended, by itself or because there is
// no more hope for it.
func (r *Recorder) awaitWriter(ctx context.Context) {
	look := time.NewTicker(lastChance / 2)
	defer look.Stop()
	for hopeless := 0; hopeless < 2; {
		select {
		case <-r.done:
			return
		case <-ctx.Done():
			hopeless = 2
		case <-look.C:
			hopeless++
			if !r.Degraded() {
				hopeless = 0
			}
		}
	}
	r.cancel()
	<-r.done
}

// lost says what a writer that has ended left behind, and why.
func (r *Recorder) lost(ctx context.Context) error {
	runs, events := r.runs.len(), r.events.len()
	if runs+events == 0 {
		return nil
	}
	why := context.Cause(ctx)
	if outage := r.away.Load(); outage != nil {
		why = fmt.Errorf("the database is away since %s: %w", outage.since.UTC().Format(time.RFC3339), outage.err)
	}
	return fmt.Errorf("telemetry is lost: %d rows were not written (runs: %d, circuit events: %d): %w", runs+events, runs, events, why)
}

// drop counts a row that found no room. A storm is one line and a counter.
func (r *Recorder) drop() {
	if r.isStopping() {
		r.metrics.drop(dropShutdown, 1)
		return
	}
	r.metrics.drop(dropFull, 1)
	if r.full.CompareAndSwap(false, true) {
		r.log.Warn("telemetry queue is full, rows are dropped", "queue", r.cfg.Queue)
	}
}

func (r *Recorder) isStopping() bool {
	select {
	case <-r.stopping:
		return true
	default:
		return false
	}
}
