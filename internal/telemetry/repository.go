package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/postgres"
	"github.com/breakwater-llm/breakwater/internal/postgres/dbgen"
)

// DB is a pool, or a transaction, of the gateway's database.
type DB interface {
	dbgen.DBTX
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Repository writes and purges the telemetry tables, and the sums of usage that
// come with them.
type Repository struct {
	db      DB
	queries *dbgen.Queries

	writer string    // who adds to usage_daily
	boot   uuid.UUID // of that process
	zone   *atomic.Pointer[time.Location]
}

// NewRepository returns a Repository over a migrated database. It sums usage by
// UTC days, under nobody's name.
func NewRepository(db DB) *Repository {
	r := &Repository{db: db, queries: dbgen.New(), zone: new(atomic.Pointer[time.Location])}
	r.zone.Store(time.UTC)
	return r
}

// Named returns the same Repository for one process: what it adds to usage_daily
// are rows of its own.
func (r *Repository) Named(node string, bootID uuid.UUID) *Repository {
	named := *r
	named.writer, named.boot = node, bootID
	return &named
}

// Zone is that in which the days of usage begin.
func (r *Repository) Zone() *time.Location { return r.zone.Load() }

// SetZone says in which time zone the days of usage begin.
func (r *Repository) SetZone(zone *time.Location) { r.zone.Store(zone) }

// InsertRuns writes runs, their attempts and what they used in one transaction.
// Rows that are there already are left alone, and count no second time, so a
// batch whose answer was lost may be written again.
func (r *Repository) InsertRuns(ctx context.Context, runs []*llm.Run) error {
	insert := func() error {
		return postgres.InTx(ctx, r.db, func(tx pgx.Tx) error {
			if _, err := r.queries.InsertRuns(ctx, tx, runColumns(runs)); err != nil {
				return err
			}
			attempts := attemptColumns(runs)
			r.countColumns(&attempts, runs)
			return r.queries.InsertAttempts(ctx, tx, attempts)
		})
	}
	return r.insert(ctx, "insert runs", insert, func() []time.Time { return daysOfRuns(runs) })
}

// InsertUsage writes what runs used and leaves nothing else of them but, for a
// while, their ids. A run that was written before counts no second time.
func (r *Repository) InsertUsage(ctx context.Context, runs []*llm.Run) error {
	insert := func() error { return r.queries.InsertUsage(ctx, r.db, r.usageColumns(runs)) }
	return r.insert(ctx, "insert usage", insert, func() []time.Time { return nil })
}

// ForgetUsageRuns lets go of the ids of runs that no writer can bring again. It
// is for the writer, between two batches.
func (r *Repository) ForgetUsageRuns(ctx context.Context) error {
	if _, err := r.queries.DeleteUsageRuns(ctx, r.db, r.boot); err != nil {
		return fmt.Errorf("forget runs without rows: %w", postgres.Translate(err))
	}
	return nil
}

// InsertCircuitEvents writes the events of one process. Rows that are there
// already are left alone.
func (r *Repository) InsertCircuitEvents(ctx context.Context, node string, bootID uuid.UUID, events []*breaker.Event) error {
	insert := func() error {
		columns, err := eventColumns(node, bootID, events)
		if err != nil {
			return err
		}
		_, err = r.queries.InsertCircuitEvents(ctx, r.db, columns)
		return err
	}
	return r.insert(ctx, "insert circuit events", insert, func() []time.Time { return daysOfEvents(events) })
}

// insert runs an insert, and once more when a partition was missing: after a
// long outage rows may be older than the days that are kept ready.
func (r *Repository) insert(ctx context.Context, action string, insert func() error, days func() []time.Time) error {
	err := insert()
	if partitionMissing(err) {
		if err := r.createPartitions(ctx, days()); err != nil {
			return fmt.Errorf("%s: %w", action, err)
		}
		err = insert()
	}
	switch {
	case err == nil:
		return nil
	case refused(err):
		return fmt.Errorf("%s: %w: %w", action, errRefused, err)
	default:
		return fmt.Errorf("%s: %w", action, postgres.Translate(err))
	}
}

// partitionMissing recognises a row that belongs to no partition: a check
// violation that no declared constraint is named in.
func partitionMissing(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23514" && pg.ConstraintName == ""
}

// refused reports whether the rows themselves are at fault: a data exception, a
// broken constraint or a value over a limit of the server. Everything else may
// pass: a network, a restart, a table that is not migrated yet.
func refused(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return errors.Is(err, errRefused)
	}
	return strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23") || strings.HasPrefix(pg.Code, "54")
}

// inUse reports whether somebody else held a lock for too long.
func inUse(err error) bool { return errors.Is(err, postgres.ErrUnavailable) }

func runColumns(runs []*llm.Run) dbgen.InsertRunsParams {
	var c dbgen.InsertRunsParams
	for _, run := range runs {
		t := totalsOf(run)
		c.RunID = append(c.RunID, run.RunID)
		c.StartedAt = append(c.StartedAt, run.StartedAt)
		c.FinishedAt = append(c.FinishedAt, run.FinishedAt)
		c.CorrelationID = append(c.CorrelationID, clean(run.CorrelationID, maxID))
		c.TraceID = append(c.TraceID, clean(run.TraceID, maxID))
		c.APIKeyID = append(c.APIKeyID, clean(run.APIKeyID, maxName))
		c.Operation = append(c.Operation, string(run.Operation))
		c.Dialect = append(c.Dialect, string(run.Dialect))
		c.Configuration = append(c.Configuration, clean(run.Configuration, maxName))
		c.RequestedModel = append(c.RequestedModel, clean(run.RequestedModel, maxName))
		c.ServedProvider = append(c.ServedProvider, clean(run.Served.Provider, maxName))
		c.ServedModel = append(c.ServedModel, clean(run.Served.Model, maxName))
		c.ServedRegion = append(c.ServedRegion, clean(run.Served.Region, maxName))
		c.Outcome = append(c.Outcome, string(run.Outcome))
		c.FailureClass = append(c.FailureClass, string(run.FailureClass))
		c.FailureReason = append(c.FailureReason, string(run.FailureReason))
		c.HTTPStatus = append(c.HTTPStatus, int32(run.HTTPStatus))
		c.LatencyMs = append(c.LatencyMs, millis(run.Latency))
		c.OverheadUs = append(c.OverheadUs, max(0, run.Overhead.Microseconds()))
		c.TTFTMs = append(c.TTFTMs, millisOrNull(run.TTFT))
		c.Streamed = append(c.Streamed, run.Streamed)
		c.CacheHit = append(c.CacheHit, run.CacheHit)
		c.IdempotentReplay = append(c.IdempotentReplay, run.IdempotentReplay)
		c.Degraded = append(c.Degraded, string(run.Degraded))
		c.Attempts = append(c.Attempts, int32(t.reached))
		c.Fallbacks = append(c.Fallbacks, int32(fallbacks(run.Attempts)))
		c.InputTokens = append(c.InputTokens, countOrNull(t.usage.Input))
		c.CachedTokens = append(c.CachedTokens, countOrNull(t.usage.Cached))
		c.CacheWriteTokens = append(c.CacheWriteTokens, countOrNull(t.usage.CacheWrite))
		c.OutputTokens = append(c.OutputTokens, countOrNull(t.usage.Output))
		c.ReasoningTokens = append(c.ReasoningTokens, countOrNull(t.usage.Reasoning))
		c.UsageEstimated = append(c.UsageEstimated, t.usage.Estimated)
		c.UsageAnomaly = append(c.UsageAnomaly, t.usage.Anomaly)
		c.CostUSD = append(c.CostUSD, t.cost)
		c.Unpriced = append(c.Unpriced, t.unpriced)
	}
	return c
}

func attemptColumns(runs []*llm.Run) dbgen.InsertAttemptsParams {
	var c dbgen.InsertAttemptsParams
	for _, run := range runs {
		for i := range run.Attempts {
			a := &run.Attempts[i]
			c.RunID = append(c.RunID, run.RunID)
			c.Seq = append(c.Seq, int32(i+1))
			c.StartedAt = append(c.StartedAt, a.StartedAt)
			c.FinishedAt = append(c.FinishedAt, a.FinishedAt)
			c.Provider = append(c.Provider, clean(a.Target.Provider, maxName))
			c.Model = append(c.Model, clean(a.Target.Model, maxName))
			c.Region = append(c.Region, clean(a.Target.Region, maxName))
			c.Outcome = append(c.Outcome, string(a.Outcome))
			c.FailureClass = append(c.FailureClass, string(a.FailureClass))
			c.FailureReason = append(c.FailureReason, string(a.FailureReason))
			c.UpstreamStatus = append(c.UpstreamStatus, int32(a.UpstreamStatus))
			c.LatencyMs = append(c.LatencyMs, millisOrNull(a.Latency))
			c.TTFTMs = append(c.TTFTMs, millisOrNull(a.TTFT))
			c.Slow = append(c.Slow, a.Slow)
			c.Retries = append(c.Retries, int32(a.Retries))
			c.CircuitState = append(c.CircuitState, a.CircuitState)
			c.CircuitGeneration = append(c.CircuitGeneration, generationOrNull(a))
			c.Probe = append(c.Probe, string(a.Probe))
			c.InputTokens = append(c.InputTokens, countOrNull(a.Usage.Input))
			c.CachedTokens = append(c.CachedTokens, countOrNull(a.Usage.Cached))
			c.CacheWriteTokens = append(c.CacheWriteTokens, countOrNull(a.Usage.CacheWrite))
			c.OutputTokens = append(c.OutputTokens, countOrNull(a.Usage.Output))
			c.ReasoningTokens = append(c.ReasoningTokens, countOrNull(a.Usage.Reasoning))
			c.UsageEstimated = append(c.UsageEstimated, a.Usage.Estimated)
			c.UsageAnomaly = append(c.UsageAnomaly, a.Usage.Anomaly)
			c.CostUSD = append(c.CostUSD, costOrNull(a.Cost))
			c.Unpriced = append(c.Unpriced, a.Unpriced)
		}
	}
	return c
}

// countColumns tells the statement that inserts attempts which of them count, and
// where.
func (r *Repository) countColumns(c *dbgen.InsertAttemptsParams, runs []*llm.Run) {
	zone := r.zone.Load()
	c.Writer, c.MaxTokens = clean(r.writer, maxName), maxUsageTokens
	counted(runs, func(run *llm.Run, seq int, requests int32) {
		c.CountedRunID = append(c.CountedRunID, run.RunID)
		c.CountedSeq = append(c.CountedSeq, int32(seq))
		c.CountedDay = append(c.CountedDay, usageDay(run, zone))
		c.CountedAPIKeyID = append(c.CountedAPIKeyID, clean(run.APIKeyID, maxName))
		c.CountedConfiguration = append(c.CountedConfiguration, clean(run.Configuration, maxName))
		c.CountedRequests = append(c.CountedRequests, requests)
		tokens, cost := unreported(&run.Attempts[seq-1])
		c.CountedUnreportedTokens = append(c.CountedUnreportedTokens, tokens)
		c.CountedUnreportedUSD = append(c.CountedUnreportedUSD, cost)
	})
}

func (r *Repository) usageColumns(runs []*llm.Run) dbgen.InsertUsageParams {
	zone := r.zone.Load()
	c := dbgen.InsertUsageParams{Writer: clean(r.writer, maxName), BootID: r.boot}
	counted(runs, func(run *llm.Run, seq int, requests int32) {
		a := &run.Attempts[seq-1]
		c.RunID = append(c.RunID, run.RunID)
		c.Day = append(c.Day, usageDay(run, zone))
		c.APIKeyID = append(c.APIKeyID, clean(run.APIKeyID, maxName))
		c.Configuration = append(c.Configuration, clean(run.Configuration, maxName))
		c.Provider = append(c.Provider, clean(a.Target.Provider, maxName))
		c.Model = append(c.Model, clean(a.Target.Model, maxName))
		c.Region = append(c.Region, clean(a.Target.Region, maxName))
		c.Requests = append(c.Requests, requests)
		c.Failures = append(c.Failures, one(a.Outcome == llm.OutcomeFailure))
		c.InputTokens = append(c.InputTokens, usageTokens(a.Usage.Input))
		c.CachedTokens = append(c.CachedTokens, usageTokens(a.Usage.Cached))
		c.CacheWriteTokens = append(c.CacheWriteTokens, usageTokens(a.Usage.CacheWrite))
		c.OutputTokens = append(c.OutputTokens, usageTokens(a.Usage.Output))
		c.ReasoningTokens = append(c.ReasoningTokens, usageTokens(a.Usage.Reasoning))
		c.CostUSD = append(c.CostUSD, costOrZero(a.Cost))
		c.Unpriced = append(c.Unpriced, one(a.Unpriced))
		c.Estimated = append(c.Estimated, one(a.Usage.Estimated))
		tokens, cost := unreported(a)
		c.UnreportedTokens = append(c.UnreportedTokens, tokens)
		c.UnreportedUSD = append(c.UnreportedUSD, cost)
	})
	return c
}

func eventColumns(node string, bootID uuid.UUID, events []*breaker.Event) (dbgen.InsertCircuitEventsParams, error) {
	c := dbgen.InsertCircuitEventsParams{Node: clean(node, maxName), BootID: bootID}
	for _, e := range events {
		target, ok := llm.ParseTarget(e.Key)
		if !ok {
			return c, fmt.Errorf("%w: %q is no circuit key", errRefused, e.Key)
		}
		counts, err := json.Marshal(e.Counts)
		if err != nil {
			return c, fmt.Errorf("%w: encode counts: %w", errRefused, err)
		}
		c.Seq = append(c.Seq, int64(e.Seq))
		c.At = append(c.At, e.At)
		c.Provider = append(c.Provider, target.Provider)
		c.Model = append(c.Model, target.Model)
		c.Region = append(c.Region, target.Region)
		c.FromState = append(c.FromState, e.From.String())
		c.ToState = append(c.ToState, e.To.String())
		c.Reason = append(c.Reason, e.Reason)
		c.Counts = append(c.Counts, counts)
		c.OpenForMs = append(c.OpenForMs, openForOrNull(e.OpenFor))
		c.Actor = append(c.Actor, clean(e.Actor, maxName))
		c.Note = append(c.Note, clean(e.Note, maxNote))
	}
	return c, nil
}

// table is one of the telemetry tables and what is done to it as a whole.
type table struct {
	name   string
	count  func(ctx context.Context, db DB, from, to time.Time) (int64, error)
	remove func(ctx context.Context, db DB, olderThan time.Time, limit int32) (int64, error)
}

func (r *Repository) tables() []table {
	q := r.queries
	return []table{
		{
			name: "telemetry_runs",
			count: func(ctx context.Context, db DB, from, to time.Time) (int64, error) {
				return q.CountRuns(ctx, db, dbgen.CountRunsParams{FromAt: from, ToAt: to})
			},
			remove: func(ctx context.Context, db DB, olderThan time.Time, limit int32) (int64, error) {
				return q.DeleteRuns(ctx, db, dbgen.DeleteRunsParams{OlderThan: olderThan, RowLimit: limit})
			},
		},
		{
			name: "telemetry_attempts",
			count: func(ctx context.Context, db DB, from, to time.Time) (int64, error) {
				return q.CountAttempts(ctx, db, dbgen.CountAttemptsParams{FromAt: from, ToAt: to})
			},
			remove: func(ctx context.Context, db DB, olderThan time.Time, limit int32) (int64, error) {
				return q.DeleteAttempts(ctx, db, dbgen.DeleteAttemptsParams{OlderThan: olderThan, RowLimit: limit})
			},
		},
		{
			name: "circuit_events",
			count: func(ctx context.Context, db DB, from, to time.Time) (int64, error) {
				return q.CountCircuitEvents(ctx, db, dbgen.CountCircuitEventsParams{FromAt: from, ToAt: to})
			},
			remove: func(ctx context.Context, db DB, olderThan time.Time, limit int32) (int64, error) {
				return q.DeleteCircuitEvents(ctx, db, dbgen.DeleteCircuitEventsParams{OlderThan: olderThan, RowLimit: limit})
			},
		},
	}
}

// changePartitions runs a change in a transaction in which no other process
// changes partitions, and which does not wait long for a table's lock. For its
// turn it waits as long as ctx lasts: a server that is busy with another process's
// change is there, and must not be taken for away.
func (r *Repository) changePartitions(ctx context.Context, change func(tx pgx.Tx) error) error {
	return postgres.InTx(ctx, r.db, func(tx pgx.Tx) error {
		if err := r.queries.LockPartitions(ctx, tx); err != nil {
			return err
		}
		if err := r.queries.LimitLockWait(ctx, tx); err != nil {
			return err
		}
		return change(tx)
	})
}

// usageTable is the sums of usage, whose rows go by their day.
func (r *Repository) usageTable() table {
	return table{
		name: "usage_daily",
		count: func(ctx context.Context, db DB, _, to time.Time) (int64, error) {
			return r.queries.CountUsage(ctx, db, localDay(to, r.zone.Load()))
		},
		remove: func(ctx context.Context, db DB, olderThan time.Time, limit int32) (int64, error) {
			return r.queries.DeleteUsage(ctx, db, dbgen.DeleteUsageParams{Before: localDay(olderThan, r.zone.Load()), RowLimit: limit})
		},
	}
}
