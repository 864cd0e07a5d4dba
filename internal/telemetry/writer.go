package telemetry

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

const (
	insertTimeout    = 15 * time.Second // one batch; a database that hangs is away
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
// closed, and counts those that it had to give up; Stop says so.
func (r *Recorder) finish() {
	for r.Waiting() > 0 && r.ctx.Err() == nil {
		r.flush()
	}
	r.metrics.drop(dropShutdown, r.Waiting())
}

// flush writes what is queued, by turns a batch of runs and one of events, so
// that neither waits for the other when rows come faster than they go.
func (r *Recorder) flush() {
	for r.ctx.Err() == nil {
		r.keepPartitions()
		n := flushBatch(r, r.runs, r.insertRuns)
		n += flushBatch(r, r.events, func(ctx context.Context, events []*breaker.Event) error {
			return r.store.InsertCircuitEvents(ctx, r.cfg.Node, r.cfg.BootID, events)
		})
		if n == 0 {
			return
		}
	}
}

// insert writes rows in one transaction.
type insert[T any] func(ctx context.Context, rows []T) error

// flushBatch writes one batch, if there is any, and returns how many rows it
// had. Those that the writer had to give up keep their place in the queue.
func flushBatch[T any](r *Recorder, q *queue[T], insert insert[T]) int {
	rows := q.take()
	if len(rows) == 0 {
		return 0
	}
	written, refused, why := writeRows(r, rows, insert)
	q.settle(written + refused)
	r.settled(written, refused, why)
	return len(rows)
}

// writeRows writes a batch. One that the database refuses is halved until the
// rows at fault stand alone, so that a bad row costs only itself. The error is
// that of the first one.
func writeRows[T any](r *Recorder, rows []T, insert insert[T]) (written, refused int, why error) {
	err := r.persist(func(ctx context.Context) error { return insert(ctx, rows) })
	switch {
	case err == nil:
		return len(rows), 0, nil
	case !errors.Is(err, errRefused):
		return 0, 0, err
	case len(rows) == 1:
		return 0, 1, err
	}
	half := len(rows) / 2
	w1, r1, err1 := writeRows(r, rows[:half], insert)
	w2, r2, err2 := writeRows(r, rows[half:], insert)
	return w1 + w2, r1 + r2, cmp.Or(err1, err2)
}

// insertRuns writes runs. One that stands alone and is refused is written once
// more without what an upstream reported of it: that a call was made, and how it
// ended, is worth more than its tokens.
func (r *Recorder) insertRuns(ctx context.Context, runs []*llm.Run) error {
	err := r.store.InsertRuns(ctx, runs)
	if len(runs) > 1 || !errors.Is(err, errRefused) {
		return err
	}
	bare, spent := withoutSpend(runs[0])
	if !spent {
		return err
	}
	if again := r.store.InsertRuns(ctx, []*llm.Run{bare}); again != nil {
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

// persist repeats an insert until the database has taken or refused it, or
// until the writer has to give up.
func (r *Recorder) persist(insert func(context.Context) error) error {
	for pause := firstPause; ; {
		ctx, cancel := context.WithTimeout(r.ctx, insertTimeout)
		err := insert(ctx)
		cancel()
		if err == nil || errors.Is(err, errRefused) {
			r.databaseIs(nil)
			return err
		}
		if r.ctx.Err() != nil {
			return err
		}
		r.databaseIs(err)
		pause = r.wait(pause)
	}
}

// wait lets a while pass, up to half as much again, so that several gateways
// do not return in step, and returns how long the next one is. It is over when
// the writer has to give up, and when it is told to stop: the database may be
// back since the last try.
func (r *Recorder) wait(pause time.Duration) time.Duration {
	stopping := r.stopping
	if r.isStopping() {
		stopping = nil // no news
	}
	timer := time.NewTimer(pause + rand.N(pause/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.ctx.Done():
	case <-stopping:
		return firstPause
	}
	return min(2*pause, longestPause)
}

// settled counts the fate of a batch. A storm of refused rows is a counter and
// a line now and then; the queue must have emptied by half before it counts as
// having room again, so that it does not alternate with every batch.
func (r *Recorder) settled(written, refused int, why error) {
	r.metrics.written.Add(float64(written))
	r.metrics.drop(dropRefused, refused)
	if refused > 0 && r.refusalDue() {
		r.log.Error("the database refuses telemetry rows, they are dropped", "rows", refused, "error", why)
	}
	if r.full.Load() && r.Waiting() <= r.cfg.Queue/2 {
		r.full.Store(false)
		r.log.Info("telemetry queue has room again")
	}
}

// refusalDue reports whether a refusal is to be logged: once in a while.
func (r *Recorder) refusalDue() bool {
	now := time.Now()
	if now.Sub(r.refusalLogged) < refusalLogPeriod {
		return false
	}
	r.refusalLogged = now
	return true
}

// databaseIs notes how the last contact with the database went, and logs when
// that has changed.
func (r *Recorder) databaseIs(err error) {
	was := r.away.Load()
	switch {
	case err == nil && was != nil:
		r.away.Store(nil)
		r.log.Info("telemetry reaches the database again", "away_for", time.Since(was.since), "waiting", r.Waiting())
	case err != nil && was == nil:
		r.away.Store(&outage{since: time.Now(), err: err})
		r.log.Warn("telemetry cannot reach the database, rows wait in the queue", "error", err, "waiting", r.Waiting())
	}
}

// keepPartitions makes the partitions of the coming days, at start and then
// once a period. When that fails it is tried again soon; an insert that finds
// its partition missing makes it, so rows do not wait for this.
func (r *Recorder) keepPartitions() {
	now := time.Now()
	if now.Before(r.partitionsDue) {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, insertTimeout)
	defer cancel()
	err := r.store.EnsurePartitions(ctx, now)
	if r.ctx.Err() != nil {
		return // given up, which says nothing about the database
	}
	r.databaseIs(err)
	r.partitionsDue = now.Add(partitionsPeriod)
	if err != nil {
		r.partitionsDue = now.Add(longestPause)
	}
}
