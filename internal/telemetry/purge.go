package telemetry

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	deleteBatch  = 5000 // rows that one statement deletes
	dropAttempts = 5    // tries to get at a partition that others are using
)

// Purged is what a purge deleted from one table, or would delete.
type Purged struct {
	Table string
	Rows  int64
}

// Purge deletes what began before a moment from every telemetry table: whole
// days by dropping their partitions, the rest in bounded batches, so that
// writers are never kept waiting for long. With dryRun it only counts. When it
// fails, what it had deleted until then stays deleted and is in the answer.
func (r *Repository) Purge(ctx context.Context, olderThan time.Time, dryRun bool) ([]Purged, error) {
	purge := r.purgeTable
	if dryRun {
		purge = r.countTable
	}
	var all []Purged
	for _, t := range r.tables() {
		rows, err := purge(ctx, t, olderThan)
		all = append(all, Purged{Table: t.name, Rows: rows})
		if err != nil {
			return all, fmt.Errorf("purge %s: %w", t.name, err)
		}
	}
	return all, nil
}

func (r *Repository) countTable(ctx context.Context, t table, olderThan time.Time) (int64, error) {
	return t.count(ctx, r.db, time.Time{}, olderThan)
}

func (r *Repository) purgeTable(ctx context.Context, t table, olderThan time.Time) (int64, error) {
	dropped, err := r.dropDays(ctx, t, olderThan)
	if err != nil {
		return dropped, err
	}
	deleted, err := r.deleteRows(ctx, t, olderThan)
	return dropped + deleted, err
}

// dropDays drops the partitions that hold nothing younger.
func (r *Repository) dropDays(ctx context.Context, t table, olderThan time.Time) (rows int64, err error) {
	names, err := r.queries.ListPartitions(ctx, r.db, t.name)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		day, ours := partitionDay(t.name, name)
		if !ours || day.AddDate(0, 0, 1).After(olderThan) {
			continue
		}
		n, err := r.dropDay(ctx, t, day)
		if err != nil {
			return rows, err
		}
		rows += n
	}
	return rows, nil
}

// dropDay drops one partition and returns how many rows it held. A partition
// in use is tried again a few times.
func (r *Repository) dropDay(ctx context.Context, t table, day time.Time) (rows int64, err error) {
	for range dropAttempts {
		err = r.changePartitions(ctx, func(tx pgx.Tx) (err error) {
			if rows, err = t.count(ctx, tx, day, day.AddDate(0, 0, 1)); err != nil {
				return err
			}
			return dropPartition(ctx, tx, t.name, day)
		})
		if !inUse(err) || ctx.Err() != nil {
			break
		}
	}
	return rows, err
}

func (r *Repository) deleteRows(ctx context.Context, t table, olderThan time.Time) (rows int64, err error) {
	for {
		n, err := t.remove(ctx, r.db, olderThan, deleteBatch)
		rows += n
		if err != nil || n < deleteBatch {
			return rows, err
		}
	}
}

// PurgeUsage deletes the sums of days that ended before a moment. Purge leaves
// them: they outlive the rows that they are made of, since budgets need them.
func (r *Repository) PurgeUsage(ctx context.Context, olderThan time.Time, dryRun bool) (Purged, error) {
	purge := r.deleteRows
	if dryRun {
		purge = r.countTable
	}
	usage := r.usageTable()
	rows, err := purge(ctx, usage, olderThan)
	if err != nil {
		err = fmt.Errorf("purge %s: %w", usage.name, err)
	}
	return Purged{Table: usage.name, Rows: rows}, err
}
