package telemetry

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// longestRest bounds how long a replay leaves the database to live rows: as long
// as its last batch has taken, so that they have half of the time.
const longestRest = time.Second

// replay brings what is in the spool into the database, oldest first, and so
// finds out when the database is back. Rows that are there already stay as they
// are and count no second time, so a replay may end anywhere and begin again.
func (r *Recorder) replay() {
	ctx := r.replaying
	if !received(ctx, r.ready) {
		return
	}
	for replayed := 0; ; {
		batches, read, err := r.gather()
		r.unreadIs(err)
		if !read {
			r.cfg.Spool.Done() // with what could not be read
			if replayed > 0 {
				r.log.Info("telemetry from the spool is in the database", "rows", replayed)
			}
			replayed = 0
			if !r.more(ctx, err) {
				return
			}
			continue
		}
		begun := time.Now()
		n, whole := r.restore(ctx, batches)
		if !whole {
			return
		}
		replayed += n
		r.cfg.Spool.Done()
		if r.isStopping() {
			continue // there are no live rows any more
		}
		if !received(ctx, time.After(min(time.Since(begun), longestRest))) {
			return
		}
	}
}

// received waits for a channel, and reports false when ctx ends first.
func received[T any](ctx context.Context, c <-chan T) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}

// more waits until there is more to replay, or until what could not be read is to
// be tried again, and reports false when ctx ends first.
func (r *Recorder) more(ctx context.Context, unread error) bool {
	if unread != nil {
		return received(ctx, time.After(longestPause))
	}
	return received(ctx, r.cfg.Spool.Filled())
}

// unreadIs logs when it changes whether the spool can be read.
func (r *Recorder) unreadIs(err error) {
	if err != nil && !r.unread {
		r.log.Error("telemetry cannot be read from the spool, it is tried again", "error", err)
	}
	r.unread = err != nil
}

// gather takes batches from the spool until they are worth a transaction, and
// reports whether there was anything, and why there was no more if that may pass.
// What cannot be read is left behind.
func (r *Recorder) gather() (batches []*batch, read bool, err error) {
	for rows := 0; rows < batchSize; {
		record, err := r.cfg.Spool.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return batches, read, err
		}
		read = true
		b, err := decodeBatch(record)
		if err != nil {
			r.cfg.Spool.Reject(err)
			continue
		}
		batches = append(batches, b)
		rows += b.rows()
	}
	return batches, read, nil
}

// restore writes batches, and reports how many rows they had and whether it has
// not been cut short.
func (r *Recorder) restore(ctx context.Context, batches []*batch) (rows int, whole bool) {
	var runs, usage []*llm.Run
	for _, b := range batches {
		runs, usage = append(runs, b.Runs...), append(usage, b.Usage...)
	}
	if !restoreRows(ctx, r, once(runs), onlyInto(r.runsWay())) || !restoreRows(ctx, r, once(usage), onlyInto(r.usageWay())) {
		return 0, false
	}
	for _, b := range batches {
		if !restoreRows(ctx, r, b.Events, onlyInto(r.eventsWayOf(b.Node, b.BootID))) {
			return 0, false
		}
		rows += b.rows()
	}
	return rows, true
}

func restoreRows[T any](ctx context.Context, r *Recorder, rows []T, to way[T]) (whole bool) {
	if len(rows) == 0 {
		return true
	}
	all := writeRows(ctx, r, rows, to)
	r.settled(all)
	return all.known() == len(rows)
}

// onlyInto is a way that does not end in the spool.
func onlyInto[T any](to way[T]) way[T] {
	to.spool = nil
	return to
}

// once leaves out runs that were spooled twice, as when nobody could tell whether
// the disk had taken them: a statement counts what it is given.
func once(runs []*llm.Run) []*llm.Run {
	seen, all := make(map[uuid.UUID]bool, len(runs)), runs[:0]
	for _, run := range runs {
		if !seen[run.RunID] {
			seen[run.RunID] = true
			all = append(all, run)
		}
	}
	return all
}
