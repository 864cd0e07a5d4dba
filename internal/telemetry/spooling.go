package telemetry

import (
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/telemetry/spool"
)

var (
	// errSpooled is the good end of rows that the database did not take.
	errSpooled = errors.New("the rows are in the spool")
	errNoSpool = errors.New("there is no spool for these rows")
)

// blip is how long the database may be away before rows go to the spool. It
// bounds, with the flush interval and the patience for one batch, what a killed
// process loses.
const blip = time.Second

// sparesDatabase reports whether rows go to the spool without a try: the database
// may not be asked yet, or it is away, and for longer than a blip or while memory
// fills up, or it is so slow that memory is nearly full. From then on the replay
// finds out when it is back. At a stop the database is asked again, whatever was
// known of it: it may be the last that anyone hears of the rows.
func (r *Recorder) sparesDatabase() bool {
	if r.cfg.Spool == nil {
		return false
	}
	if !r.isReady() {
		return true
	}
	outage := r.away.Load()
	if outage == nil { // it may be too slow for what comes; what it gets at a stop needs no disk
		return r.crowded(4, 5) && !r.isStopping()
	}
	if r.isStopping() {
		return r.hopeless.Load()
	}
	return r.crowded(1, 2) || time.Since(outage.since) >= blip
}

// crowded reports whether a queue is full to that part.
func (r *Recorder) crowded(part, of int) bool {
	return of*max(r.runs.len(), r.usage.len(), r.events.len()) >= part*r.cfg.Queue
}

// patience is how long the writer waits for one batch.
func (r *Recorder) patience() time.Duration {
	if r.cfg.Spool != nil {
		return spoolTimeout
	}
	return insertTimeout
}

// spooled reports whether rows wait on disk, or are being replayed.
func (r *Recorder) spooled() bool { return r.cfg.Spool != nil && r.cfg.Spool.Bytes() > 0 }

// SpoolDegraded reports whether the spool takes no rows, since it is full or its
// disk fails. Then rows wait in the queue alone.
func (r *Recorder) SpoolDegraded() bool { return r.trouble.Load() != nil }

// SpoolTrouble returns why the spool takes no rows, and since when: spool.ErrFull
// or an error of its disk; nil while it takes them.
func (r *Recorder) SpoolTrouble() (since time.Time, err error) {
	if trouble := r.trouble.Load(); trouble != nil {
		return trouble.since, trouble.err
	}
	return time.Time{}, nil
}

func (r *Recorder) spoolRuns(runs []*llm.Run) error {
	return r.spool(&batch{Runs: r.forSpool(runs)})
}

func (r *Recorder) spoolUsage(runs []*llm.Run) error {
	return r.spool(&batch{Usage: r.forSpool(runs)})
}

func (r *Recorder) spoolEvents(events []*breaker.Event) error {
	return r.spool(&batch{Events: events, Node: r.cfg.Node, BootID: r.cfg.BootID})
}

// spool puts a batch on the disk. One that cannot be written down is refused: the
// rows at fault are found as those are that the database refuses.
func (r *Recorder) spool(b *batch) error {
	record, err := b.encode()
	if err == nil && len(record) > spool.MaxRecord {
		err = fmt.Errorf("%d bytes are too many for one batch", len(record))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	empty := !r.spooled()
	err = r.cfg.Spool.Append(record)
	if err == nil && empty {
		r.log.Warn("telemetry goes to the spool until the database takes it", "dir", r.cfg.Spool.Dir())
	}
	r.spoolIs(err)
	return err
}

// spoolIs notes whether the spool has taken the last batch, and logs when that
// has changed.
func (r *Recorder) spoolIs(err error) {
	if err == nil {
		if r.trouble.Swap(nil) != nil {
			r.log.Info("telemetry can be spooled again")
		}
		return
	}
	if r.trouble.CompareAndSwap(nil, &outage{time.Now(), err}) {
		r.log.Error("telemetry cannot be spooled, rows wait in memory and are dropped when that is full",
			"error", err, "dir", r.cfg.Spool.Dir(), "bytes", r.cfg.Spool.Bytes(), "spool_max", r.cfg.Spool.Max())
	}
}
