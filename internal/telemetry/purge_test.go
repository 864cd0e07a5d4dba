package telemetry

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// history stores one run, with its attempt, and one event at each moment.
func history(t *testing.T, repo *Repository, moments ...time.Time) {
	t.Helper()
	for i, at := range moments {
		run, event := answered(at), opened(uint64(i+1), at)
		if err := repo.InsertRuns(t.Context(), []*llm.Run{&run}); err != nil {
			t.Fatal(err)
		}
		if err := repo.InsertCircuitEvents(t.Context(), "node-1", uuid.Nil, []*breaker.Event{&event}); err != nil {
			t.Fatal(err)
		}
	}
}

func purged(rows int64) []Purged {
	return []Purged{{"telemetry_runs", rows}, {"telemetry_attempts", rows}, {"circuit_events", rows}}
}

func TestPurgeDeletesOnlyWhatIsOlder(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	repo := NewRepository(db)
	cutoff := noon
	history(t, repo,
		cutoff.AddDate(0, 0, -40), cutoff.AddDate(0, 0, -1), // whole days
		cutoff.Add(-time.Microsecond),                          // on the day of the cutoff
		cutoff, cutoff.Add(time.Hour), cutoff.AddDate(0, 0, 2)) // not older

	for _, dryRun := range []bool{true, true, false} {
		got, err := repo.Purge(t.Context(), cutoff, dryRun)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(purged(3), got); diff != "" {
			t.Errorf("CF-T24: purge, dry run %t (-want +got):\n%s", dryRun, diff)
		}
	}
	for _, table := range []string{"telemetry_runs", "telemetry_attempts", "circuit_events"} {
		if got := count(t, db, "SELECT count(*) FROM "+table); got != 3 {
			t.Errorf("CF-T24: %d rows left in %s, want 3", got, table)
		}
	}
	got, err := repo.Purge(t.Context(), cutoff, false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(purged(0), got); diff != "" {
		t.Errorf("CF-T25: a second purge (-want +got):\n%s", diff)
	}
}

func TestPurgeGivesWholeDaysBack(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	repo := NewRepository(db)
	midnight := dayOf(noon)
	history(t, repo, midnight.Add(-time.Microsecond), midnight)
	if _, err := repo.Purge(t.Context(), midnight, false); err != nil {
		t.Fatal(err)
	}
	got, err := repo.queries.ListPartitions(t.Context(), db, "telemetry_runs")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"telemetry_runs_20260314"}, got); diff != "" {
		t.Errorf("partitions left (-want +got):\n%s", diff)
	}
}

func TestPurgeLeavesForeignTablesAlone(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	_, err := db.Exec(t.Context(), `CREATE TABLE telemetry_runs_archive PARTITION OF telemetry_runs FOR VALUES FROM ('2020-01-01 00:00Z') TO ('2020-02-01 00:00Z')`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewRepository(db).Purge(t.Context(), noon, false); err != nil {
		t.Fatal(err)
	}
	if got := count(t, db, "SELECT count(*) FROM pg_class WHERE relname = 'telemetry_runs_archive'"); got != 1 {
		t.Error("a partition that is none of ours was dropped")
	}
}

// heldDeletes is a database in which every delete stays open until held has
// returned.
type heldDeletes struct {
	*pgxpool.Pool
	held func(deleted int64)
}

func (h *heldDeletes) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = pgx.BeginFunc(ctx, h.Pool, func(tx pgx.Tx) error {
		tag, err = tx.Exec(ctx, sql, args...)
		if err == nil && tag.Delete() {
			h.held(tag.RowsAffected())
		}
		return err
	})
	return tag, err
}

// TEL-05: 200,000 old rows, half of them beside younger ones of the same day,
// go while calls are recorded, and no insert waits for them: each statement deletes
// a few, and whoever inserts need not wait for its end.
func TestPurgeOfManyRowsDoesNotHoldInsertsUp(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	repo := NewRepository(db)
	history(t, repo, noon.AddDate(0, 0, -1), noon)
	const many = `INSERT INTO telemetry_runs (run_id, started_at, finished_at, correlation_id, operation, dialect, requested_model,
			outcome, http_status, latency_ms, streamed, attempts, fallbacks)
		SELECT gen_random_uuid(), $1::timestamptz + i * interval '1 ms', $1, 'c', 'chat', 'openai', 'chat', 'success', 200, 1, false, 1, 0
		FROM generate_series(1, $2::int) i`
	for _, block := range []struct {
		at   time.Time
		rows int
	}{{noon.AddDate(0, 0, -1), 100_000}, {noon.Add(-time.Hour), 100_000}, {noon.Add(time.Hour), 1000}} {
		if _, err := db.Exec(t.Context(), many, block.at, block.rows); err != nil {
			t.Fatal(err)
		}
	}

	var inserted atomic.Int64
	insert := func(ctx context.Context) error {
		run := answered(noon.Add(time.Minute))
		err := repo.InsertRuns(ctx, []*llm.Run{&run})
		if err == nil {
			inserted.Add(1)
		}
		return err
	}
	ctx, purgeDone := context.WithCancel(t.Context())
	defer purgeDone()
	var inserts sync.WaitGroup
	inserts.Go(func() {
		for ctx.Err() == nil {
			if err := insert(t.Context()); err != nil {
				t.Errorf("TEL-05: insert while purging: %v", err)
				return
			}
		}
	})
	statements := 0
	got, err := NewRepository(&heldDeletes{Pool: db, held: func(deleted int64) {
		statements++
		if deleted > deleteBatch {
			t.Errorf("TEL-05: one statement deletes %d rows, want %d at most", deleted, deleteBatch)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := insert(ctx); err != nil {
			t.Errorf("TEL-05: insert in the middle of a delete: %v", err)
		}
	}}).Purge(t.Context(), noon, false)
	purgeDone()
	inserts.Wait()
	if err != nil {
		t.Fatal(err)
	}

	if want := 100_000/deleteBatch + 3; statements != want { // one more of each table ends it
		t.Errorf("TEL-05: %d statements deleted rows, want %d", statements, want)
	}
	if got[0].Rows != 200_001 {
		t.Errorf("TEL-05: %d runs purged, want 200001", got[0].Rows)
	}
	if old := count(t, db, "SELECT count(*) FROM telemetry_runs WHERE started_at < $1", noon); old != 0 {
		t.Errorf("TEL-05: %d old runs left", old)
	}
	if young, want := count(t, db, "SELECT count(*) FROM telemetry_runs"), 1001+int(inserted.Load()); young != want {
		t.Errorf("TEL-05: %d young runs left, want %d", young, want)
	}
}

// A month's budget outlives the calls of its first days.
func TestUsageHasAnAgeOfItsOwn(t *testing.T) {
	t.Parallel()
	repo := NewRepository(postgrestest.New(t))
	history(t, repo, noon.AddDate(0, 0, -2), noon.AddDate(0, 0, -1), noon)

	if _, err := repo.Purge(t.Context(), noon.AddDate(0, 0, 1), false); err != nil {
		t.Fatal(err)
	}
	if got := len(sums(t, repo.db)); got != 3 {
		t.Errorf("a purge of telemetry leaves usage of %d days, want 3", got)
	}
	for _, dryRun := range []bool{true, true, false} {
		got, err := repo.PurgeUsage(t.Context(), noon, dryRun)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Purged{"usage_daily", 2}, got); diff != "" {
			t.Errorf("purge, dry run %t (-want +got):\n%s", dryRun, diff)
		}
	}
	if got := len(sums(t, repo.db)); got != 1 {
		t.Errorf("usage of %d days left, want that of the last", got)
	}
}
