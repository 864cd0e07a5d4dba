package telemetry

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

const (
	insertTimeout    = 15 * time.Second // one batch; a database that hangs is away
	spoolTimeout     = 3 * time.Second  // the same while there is a spool, which loses nothing by it
	firstPause       = 100 * time.Millisecond
	longestPause     = 5 * time.Second
	partitionsPeriod = time.Hour
	refusalLogPeriod = time.Minute
)

// errRefused marks rows that the database will never accept.
var errRefused = errors.New("the database refuses the rows")

// write is the writer: it flushes on every tick, on every complete batch, and
// once more when it is told to stop.
func (r *Recorder) write() {
	defer close(r.done)
	defer r.cancel()
	tick := time.NewTicker(r.cfg.FlushInterval)
	defer tick.Stop()

	r.keepPartitions()
	for running := true; running; {
		select {
		case <-tick.C:
		case <-r.wake:
		case <-r.stopping:
			running = false
		}
		r.flush()
	}
	r.finish()
}

// finish writes the rows whose callers were still queueing them when the queue
// closed, puts into the spool what it had to give up, and counts what is lost;
// Stop says so.
func (r *Recorder) finish() {
	for r.Waiting() > 0 && r.ctx.Err() == nil {
		r.flush()
	}
	for r.cfg.Spool != nil && r.flushOnce() > 0 {
	}
	r.metrics.drop(dropShutdown, r.Waiting())
}

// flush writes what is queued.
func (r *Recorder) flush() {
	for r.ctx.Err() == nil {
		r.keepPartitions()
		if r.flushOnce() == 0 {
			return
		}
	}
}

// flushOnce writes a batch of each kind, so that none waits for another when rows
// come faster than they go, and returns how many rows they had.
func (r *Recorder) flushOnce() int {
	return flushBatch(r, r.runs, r.runsWay()) + flushBatch(r, r.usage, r.usageWay()) + flushBatch(r, r.events, r.eventsWay())
}

// told tells who waits for it that runs are in the database, or never will be.
func (r *Recorder) told(runs []*llm.Run) {
	ids := make([]uuid.UUID, len(runs))
	for i, run := range runs {
		ids[i] = run.RunID
	}
	r.cfg.Written(ids)
}

// insert writes rows in one transaction.
type insert[T any] func(ctx context.Context, rows []T) error

// way is where rows of one kind go.
type way[T any] struct {
	insert  insert[T]
	spool   func(rows []T) error // instead, while the database is away; nil: they wait for it
	settled func(rows []T)       // told of rows that are in the database, or never will be
}

func (r *Recorder) runsWay() way[*llm.Run] {
	return way[*llm.Run]{r.insertRuns, r.spoolRuns, r.told}
}

func (r *Recorder) usageWay() way[*llm.Run] {
	return way[*llm.Run]{r.insertUsage, r.spoolUsage, r.told}
}

func (r *Recorder) eventsWay() way[*breaker.Event] { return r.eventsWayOf(r.cfg.Node, r.cfg.BootID) }

// eventsWayOf is that of events which a certain process has seen.
func (r *Recorder) eventsWayOf(node string, bootID uuid.UUID) way[*breaker.Event] {
	insert := func(ctx context.Context, events []*breaker.Event) error {
		return r.store.InsertCircuitEvents(ctx, node, bootID, events)
	}
	return way[*breaker.Event]{insert, r.spoolEvents, func([]*breaker.Event) {}}
}

// outcome is what became of rows: how many are in the database, in the spool and
// refused, and the first refusal. Others have been given up.
type outcome struct {
	written, spooled, refused int
	why                       error
}

func (o outcome) known() int { return o.written + o.spooled + o.refused }

func (o outcome) and(p outcome) outcome {
	return outcome{o.written + p.written, o.spooled + p.spooled, o.refused + p.refused, cmp.Or(o.why, p.why)}
}

// flushBatch writes one batch, if there is any, and returns how many rows it
// had. Those that the writer had to give up keep their place in the queue.
func flushBatch[T any](r *Recorder, q *queue[T], to way[T]) int {
	rows := q.take()
	if len(rows) == 0 {
		return 0
	}
	all := writeRows(r.ctx, r, rows, to)
	q.settle(all.known())
	r.settled(all)
	return len(rows)
}

// writeRows writes a batch. One that is refused is halved until the rows at fault
// stand alone, so that a bad row costs only itself.
func writeRows[T any](ctx context.Context, r *Recorder, rows []T, to way[T]) outcome {
	spool, patience, longest := func() error { return errNoSpool }, insertTimeout, longestPause
	if to.spool != nil && r.cfg.Spool != nil {
		spool, patience, longest = func() error { return to.spool(rows) }, spoolTimeout, firstPause // before memory is full
	}
	insert := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return to.insert(ctx, rows)
	}
	err := r.persist(ctx, insert, spool, longest)
	switch {
	case err == nil:
		to.settled(rows)
		return outcome{written: len(rows)}
	case errors.Is(err, errSpooled):
		return outcome{spooled: len(rows)}
	case !errors.Is(err, errRefused):
		return outcome{}
	case len(rows) == 1:
		to.settled(rows)
		return outcome{refused: 1, why: err}
	}
	half := len(rows) / 2
	return writeRows(ctx, r, rows[:half], to).and(writeRows(ctx, r, rows[half:], to))
}

// insertRuns writes runs with their rows.
func (r *Recorder) insertRuns(ctx context.Context, runs []*llm.Run) error {
	return r.insertOrBare(ctx, runs, r.store.InsertRuns)
}

// insertUsage writes what runs used, and no more.
func (r *Recorder) insertUsage(ctx context.Context, runs []*llm.Run) error {
	return r.insertOrBare(ctx, runs, r.store.InsertUsage)
}

// insertOrBare writes runs. One that stands alone and is refused is written once
// more without what an upstream reported of it: that a call was made, and how it
// ended, is worth more than its tokens.
func (r *Recorder) insertOrBare(ctx context.Context, runs []*llm.Run, insert insert[*llm.Run]) error {
	err := insert(ctx, runs)
	if len(runs) > 1 || !errors.Is(err, errRefused) {
		return err
	}
	bare, spent := withoutSpend(runs[0])
	if !spent {
		return err
	}
	if again := insert(ctx, []*llm.Run{bare}); again != nil {
		return again
	}
	if r.refusalDue() {
		r.log.Error("the database refuses what a run reports of its usage, it is stored without", "run_id", bare.RunID, "error", err)
	}
	return nil
}

// withoutSpend returns a copy of a run without usage and cost, marked as such,
// and whether it had any.
func withoutSpend(run *llm.Run) (bare *llm.Run, spent bool) {
	copied := *run
	copied.Attempts = slices.Clone(run.Attempts)
	for i := range copied.Attempts {
		a := &copied.Attempts[i]
		if !a.Usage.Known() && a.Cost == nil {
			continue
		}
		spent = true
		a.Usage, a.Cost, a.Unpriced = llm.Usage{Anomaly: true}, nil, true
	}
	return &copied, spent
}

// persist repeats an insert until the database has taken or refused it, or the
// spool has, or the writer has to give up; then the spool is asked once more.
func (r *Recorder) persist(ctx context.Context, insert func(context.Context) error, spool func() error, longest time.Duration) error {
	for pause := firstPause; ; pause = min(r.wait(ctx, pause), longest) {
		if r.sparesDatabase() || ctx.Err() != nil {
			if err := spool(); err == nil {
				return errSpooled
			} else if ctx.Err() != nil || errors.Is(err, errRefused) {
				return err
			}
		}
		if !r.isReady() && !r.isStopping() {
			continue
		}
		asked, stopping := time.Now(), r.isStopping()
		err := insert(ctx)
		if err == nil || errors.Is(err, errRefused) {
			r.databaseIs(asked, nil)
			return err
		}
		if ctx.Err() == nil {
			r.databaseIs(asked, err)
			r.hopeless.Store(stopping && time.Since(r.stopped) >= lastChance)
		}
	}
}

// wait lets a while pass, up to half as much again, so that several gateways
// do not return in step, and returns how long the next one is. It is over when
// the writer has to give up, and when it is told to stop: the database may be
// back since the last try.
func (r *Recorder) wait(ctx context.Context, pause time.Duration) time.Duration {
	stopping := r.stopping
	if r.isStopping() {
		stopping = nil // no news
	}
	timer := time.NewTimer(pause + rand.N(pause/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-stopping:
		return firstPause
	}
	return min(2*pause, longestPause)
}

// settled counts the fate of a batch. A storm of refused rows is a counter and
// a line now and then; the queue must have emptied by half before it counts as
// having room again, so that it does not alternate with every batch.
func (r *Recorder) settled(o outcome) {
	r.metrics.written.Add(float64(o.written))
	r.metrics.spooled.Add(float64(o.spooled))
	r.metrics.drop(dropRefused, o.refused)
	if o.refused > 0 && r.refusalDue() {
		r.log.Error("the database refuses telemetry rows, they are dropped", "rows", o.refused, "error", o.why)
	}
	if r.full.Load() && r.Waiting() <= r.cfg.Queue/2 {
		r.full.Store(false)
		r.log.Info("telemetry queue has room again")
	}
}

// refusalDue reports whether a refusal is to be logged: once in a while.
func (r *Recorder) refusalDue() bool {
	last, now := r.refusalLogged.Load(), time.Now()
	if last != nil && now.Sub(*last) < refusalLogPeriod {
		return false
	}
	return r.refusalLogged.CompareAndSwap(last, &now)
}

// databaseIs notes how the last contact with the database went, and logs when
// that has changed. An outage begins when the database was asked in vain, not when
// the patience for its answer was over.
func (r *Recorder) databaseIs(asked time.Time, err error) {
	if err != nil {
		if r.away.CompareAndSwap(nil, &outage{since: asked, err: err}) {
			r.log.Warn("telemetry cannot reach the database, rows wait", "error", err, "waiting", r.Waiting())
		}
		return
	}
	was := r.away.Swap(nil)
	if was != nil || !r.crowded(1, 2) {
		r.trouble.Store(nil) // which whatever needs the spool next would find anew
	}
	if was != nil {
		r.log.Info("telemetry reaches the database again", "away_for", time.Since(was.since), "waiting", r.Waiting())
	}
}

// keepPartitions makes the partitions of the coming days, at start and then once a
// period, and lets go of what only served until now. When that fails it is tried
// again soon; an insert that finds its partition missing makes it, so rows do not
// wait for this. Nothing is let go of that a replay may bring again, nor is a
// database asked that the replay asks.
func (r *Recorder) keepPartitions() {
	now := time.Now()
	if now.Before(r.partitionsDue) || !r.isReady() || r.Degraded() && r.spooled() {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.patience())
	defer cancel()
	err := r.store.EnsurePartitions(ctx, now)
	if err == nil && !r.spooled() {
		err = r.store.ForgetUsageRuns(ctx)
	}
	if r.ctx.Err() != nil {
		return // given up, which says nothing about the database
	}
	r.databaseIs(now, err)
	r.partitionsDue = now.Add(partitionsPeriod)
	if err != nil {
		r.partitionsDue = now.Add(longestPause)
	}
}
