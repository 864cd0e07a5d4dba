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
	"github.com/breakwater-llm/breakwater/internal/telemetry/spool"
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
	// Written is told which runs need no more be remembered for the sake of their
	// usage: the database has them, or never will. It is called by the writer, and
	// by a call whose run finds no room, so it must not wait. May be nil.
	Written func(runs []uuid.UUID)
	// Spool keeps rows on disk that the database does not take; nil: they wait in
	// the queue alone. The Recorder is its only user until Stop has returned.
	Spool *spool.Spool
	// Zone is where the days of usage begin; nil: in UTC. A row in the spool counts
	// for the day that it was then, as others do.
	Zone func() *time.Location
}

// store is what the Recorder needs of the database; *Repository has it. An
// insert that the database will never accept wraps errRefused; any other error
// means that trying again may help. A batch may be inserted twice and counts
// once.
type store interface {
	InsertRuns(ctx context.Context, runs []*llm.Run) error
	InsertUsage(ctx context.Context, runs []*llm.Run) error
	InsertCircuitEvents(ctx context.Context, node string, bootID uuid.UUID, events []*breaker.Event) error
	EnsurePartitions(ctx context.Context, now time.Time) error
	ForgetUsageRuns(ctx context.Context) error
}

// Recorder takes rows from many calls at once and writes them in batches.
type Recorder struct {
	cfg     Config
	store   store
	metrics *Metrics
	log     *slog.Logger

	runs   *queue[*llm.Run]
	usage  *queue[*llm.Run] // of calls that leave no rows
	events *queue[*breaker.Event]
	wake   chan struct{} // a batch is complete before the interval is over

	start, begin, stop sync.Once
	ready              chan struct{} // closed by Start: the database may be asked
	stopping           chan struct{} // closed by Stop: no new rows, no more waiting
	done               chan struct{} // closed when the writer has returned
	ctx                context.Context
	cancel             context.CancelFunc // gives up what is not written yet
	replays            sync.WaitGroup
	replaying          context.Context
	endReplay          context.CancelFunc

	full atomic.Bool            // rows are being dropped for want of room
	away atomic.Pointer[outage] // nil when the last contact with the database went well

	stopped  time.Time   // when the stop began; set before stopping is closed
	hopeless atomic.Bool // the database was asked in vain for as long as a stop hopes

	trouble atomic.Pointer[outage] // of the spool, which takes no rows; nil when it has taken the last

	refusalLogged atomic.Pointer[time.Time]
	partitionsDue time.Time // the writer's own
	unread        bool      // the spool cannot be read; the replay's own
}

// outage is a time in which the database cannot be reached, or the spool takes
// nothing.
type outage struct {
	since time.Time
	err   error // of the first contact that failed
}

// New returns a Recorder that takes rows at once and writes them from Start on.
func New(cfg Config, store store, metrics *Metrics, log *slog.Logger) *Recorder {
	wake := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	replaying, endReplay := context.WithCancel(context.Background())
	r := &Recorder{
		cfg: cfg, store: store, metrics: metrics, log: log,
		runs:     newQueue[*llm.Run](cfg.Queue, wake),
		usage:    newQueue[*llm.Run](cfg.Queue, wake),
		events:   newQueue[*breaker.Event](cfg.Queue, wake),
		wake:     wake,
		ready:    make(chan struct{}),
		stopping: make(chan struct{}),
		done:     make(chan struct{}),
		ctx:      ctx, cancel: cancel,
		replaying: replaying, endReplay: endReplay,
	}
	if r.cfg.Written == nil {
		r.cfg.Written = func([]uuid.UUID) {}
	}
	if r.cfg.Zone == nil {
		r.cfg.Zone = func() *time.Location { return time.UTC }
	}
	metrics.readQueue(r.Waiting)
	if cfg.Spool != nil {
		metrics.readSpool(cfg.Spool.Bytes, cfg.Spool.Max())
	}
	return r
}

// Record counts a run in the metrics and queues its rows. It never blocks: with
// the queue full the run is dropped from the tables and counted as dropped. The
// Recorder owns run.Attempts from here on.
func (r *Recorder) Record(run llm.Run) {
	r.metrics.observe(&run)
	r.keep(r.runs, &run)
}

// keep queues a run, or drops it.
func (r *Recorder) keep(q *queue[*llm.Run], run *llm.Run) {
	if q.put(run) {
		return
	}
	r.drop()
	r.cfg.Written([]uuid.UUID{run.RunID})
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

// Waiting returns how many rows wait for the database in memory or are being
// written.
func (r *Recorder) Waiting() int { return r.runs.len() + r.usage.len() + r.events.len() }

// Degraded reports whether the last contact with the database failed.
func (r *Recorder) Degraded() bool { return r.away.Load() != nil }

// Start begins to write: the database may be asked.
func (r *Recorder) Start() {
	r.start.Do(func() { close(r.ready) })
	r.run()
}

// StartWithoutDatabase begins to put rows into the spool, until Start. Without a
// spool rows wait in the queue.
func (r *Recorder) StartWithoutDatabase() {
	if r.cfg.Spool != nil {
		r.run()
	}
}

func (r *Recorder) run() {
	r.begin.Do(func() {
		go r.write()
		if r.cfg.Spool != nil {
			r.replays.Go(r.replay)
		}
	})
}

func (r *Recorder) isReady() bool {
	select {
	case <-r.ready:
		return true
	default:
		return false
	}
}

// lastChance is how long Stop hopes for a database that is away, and how long it
// lets the spool empty into one that is there. Waiting any longer would cost more
// than the rows: the supervisor's patience.
const lastChance = 2 * time.Second

// Stop takes no more rows, writes all that wait, in the spool as well, and ends the
// writer. When ctx ends first, or the database stays away, the rest goes to the
// spool, for the next start. What finds no room there is dropped, and the error
// says how many rows and why. It may be called twice.
func (r *Recorder) Stop(ctx context.Context) error {
	r.stop.Do(func() {
		r.stopped = time.Now()
		close(r.stopping)
		r.runs.close()
		r.usage.close()
		r.events.close()
	})
	r.run() // rows taken before Start are written, too
	r.awaitWriter(ctx)
	r.awaitReplay(ctx)
	if r.spooled() {
		r.log.Warn("telemetry waits in the spool for the next start", "dir", r.cfg.Spool.Dir(), "bytes", r.cfg.Spool.Bytes())
	}
	return r.lost(ctx)
}

// awaitWriter returns when the writer has ended, by itself or because there is
// no more hope for it. One with a spool finds that out by itself.
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
			if !r.Degraded() || r.cfg.Spool != nil && !r.hopeless.Load() {
				hopeless = 0
			}
		}
	}
	r.cancel()
	<-r.done
}

// awaitReplay returns when the replay has ended: there is nothing left to do, the
// database does not take it, or it takes too long.
func (r *Recorder) awaitReplay(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastChance)
	defer cancel()
	look := time.NewTicker(lastChance / 100)
	defer look.Stop()
	for r.isReady() && !r.hopeless.Load() && r.spooled() && ctx.Err() == nil {
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
	r.endReplay()
	r.replays.Wait()
}

// lost says what a writer that has ended left behind, and why.
func (r *Recorder) lost(ctx context.Context) error {
	runs, events := r.runs.len()+r.usage.len(), r.events.len()
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
