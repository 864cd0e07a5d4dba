package telemetry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// daysAhead is for how many days after today partitions are kept ready.
const daysAhead = 3

// EnsurePartitions makes the day partitions of today and the days after it
// that are not there yet, in every telemetry table. Several processes may do so
// at once.
func (r *Repository) EnsurePartitions(ctx context.Context, now time.Time) error {
	days := make([]time.Time, daysAhead+1)
	for i := range days {
		days[i] = dayOf(now).AddDate(0, 0, i)
	}
	return r.createPartitions(ctx, days)
}

func (r *Repository) createPartitions(ctx context.Context, days []time.Time) error {
	for _, t := range r.tables() {
		if err := r.createMissing(ctx, t.name, days); err != nil {
			return fmt.Errorf("create partitions of %s: %w", t.name, err)
		}
	}
	return nil
}

// createMissing looks before it takes any lock, since nearly always nothing is
// missing, and looks again when it holds the lock. Each day stands for itself: what
// a slow database has made when its time is over need not be made again.
func (r *Repository) createMissing(ctx context.Context, table string, days []time.Time) error {
	missing, err := r.missing(ctx, r.db, table, days)
	if err != nil {
		return err
	}
	for _, day := range missing {
		err := r.changePartitions(ctx, func(tx pgx.Tx) error {
			still, err := r.missing(ctx, tx, table, []time.Time{day})
			if err != nil || len(still) == 0 {
				return err
			}
			return createPartition(ctx, tx, table, day)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Repository) missing(ctx context.Context, db DB, table string, days []time.Time) ([]time.Time, error) {
	there, err := r.queries.ListPartitions(ctx, db, table)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(days), func(day time.Time) bool {
		return slices.Contains(there, partitionName(table, day))
	}), nil
}

// createPartition attaches a new table instead of creating it as a partition,
// because that does not lock out those who write to the other partitions. The
// statements take no parameters, so they cannot be among the generated queries;
// they are made of names and dates of ours only.
func createPartition(ctx context.Context, tx pgx.Tx, table string, day time.Time) error {
	name := partitionName(table, day)
	create := fmt.Sprintf("CREATE TABLE %s (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS)", name, table)
	if _, err := tx.Exec(ctx, create); err != nil {
		return err
	}
	attach := fmt.Sprintf("ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')",
		table, name, day.Format(time.RFC3339), day.AddDate(0, 0, 1).Format(time.RFC3339))
	_, err := tx.Exec(ctx, attach)
	return err
}

// dropPartition gives a whole day back at once.
func dropPartition(ctx context.Context, tx pgx.Tx, table string, day time.Time) error {
	_, err := tx.Exec(ctx, "DROP TABLE IF EXISTS "+partitionName(table, day))
	return err
}

// partitionName is the table's name and the UTC day.
func partitionName(table string, day time.Time) string {
	return table + "_" + day.Format("20060102")
}

// partitionDay reads a partition's name back; a table that somebody else
// attached is none of ours.
func partitionDay(table, name string) (time.Time, bool) {
	suffix, ok := strings.CutPrefix(name, table+"_")
	if !ok {
		return time.Time{}, false
	}
	day, err := time.Parse("20060102", suffix)
	return day, err == nil
}

func dayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

func daysOfRuns(runs []*llm.Run) []time.Time {
	days := map[time.Time]bool{}
	for _, run := range runs {
		days[dayOf(run.StartedAt)] = true
		for i := range run.Attempts {
			days[dayOf(run.Attempts[i].StartedAt)] = true
		}
	}
	return slices.SortedFunc(maps.Keys(days), time.Time.Compare)
}

func daysOfEvents(events []*breaker.Event) []time.Time {
	days := map[time.Time]bool{}
	for _, e := range events {
		days[dayOf(e.At)] = true
	}
	return slices.SortedFunc(maps.Keys(days), time.Time.Compare)
}
