package runs

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/postgres"
	"github.com/breakwater-llm/breakwater/internal/postgres/dbgen"
)

// Repository reads runs, attempts and circuit events.
type Repository struct {
	db      dbgen.DBTX
	queries *dbgen.Queries
}

// NewRepository returns a Repository over a pool or a transaction.
func NewRepository(db dbgen.DBTX) *Repository {
	return &Repository{db: db, queries: dbgen.New()}
}

// List returns one page of the runs that match, newest first. Returns
// ErrBadCursor if the cursor is none of ours.
func (r *Repository) List(ctx context.Context, f Filter) (Page, error) {
	after, err := f.after(last())
	if err != nil {
		return Page{}, err
	}
	rows, err := r.queries.ListRuns(ctx, r.db, dbgen.ListRunsParams{
		FromAt: f.From, ToAt: f.to(), AfterAt: after.at, AfterID: after.id,
		Outcome: f.Outcome, FailureClass: f.Class, Configuration: f.Configuration, Provider: f.Provider,
		RowLimit: int32(f.limit() + 1),
	})
	if err != nil {
		return Page{}, fmt.Errorf("list runs: %w", postgres.Translate(err))
	}
	return page(rows, f.limit()), nil
}

// ListCorrelated returns one page of the runs of a correlation id that match,
// in the order in which they came. No run has an empty one. Returns
// ErrBadCursor if the cursor is none of ours.
func (r *Repository) ListCorrelated(ctx context.Context, correlationID string, f Filter) (Page, error) {
	after, err := f.after(first())
	if err != nil {
		return Page{}, err
	}
	rows, err := r.queries.ListCorrelatedRuns(ctx, r.db, dbgen.ListCorrelatedRunsParams{
		CorrelationID: correlationID,
		FromAt:        f.From, ToAt: f.to(), AfterAt: after.at, AfterID: after.id,
		Outcome: f.Outcome, FailureClass: f.Class, Configuration: f.Configuration, Provider: f.Provider,
		RowLimit: int32(f.limit() + 1),
	})
	if err != nil {
		return Page{}, fmt.Errorf("list runs of a correlation id: %w", postgres.Translate(err))
	}
	return page(rows, f.limit()), nil
}

// Find returns a run and its attempts in their order. Returns ErrNotFound if
// there is no such run.
func (r *Repository) Find(ctx context.Context, id uuid.UUID) (Run, []Attempt, error) {
	row, err := r.queries.FindRun(ctx, r.db, id)
	switch err = postgres.Translate(err); {
	case errors.Is(err, postgres.ErrNotFound):
		return Run{}, nil, ErrNotFound
	case err != nil:
		return Run{}, nil, fmt.Errorf("find run: %w", err)
	}
	rows, err := r.queries.ListAttempts(ctx, r.db, id)
	if err != nil {
		return Run{}, nil, fmt.Errorf("list attempts: %w", postgres.Translate(err))
	}
	attempts := make([]Attempt, len(rows))
	for i, row := range rows {
		attempts[i] = attemptOf(row)
	}
	return runOf(row), attempts, nil
}

// Events returns the latest transitions of a target's circuit, newest first.
func (r *Repository) Events(ctx context.Context, t llm.Target, limit int) ([]Event, error) {
	rows, err := r.queries.ListCircuitEvents(ctx, r.db, dbgen.ListCircuitEventsParams{
		Provider: t.Provider, Model: t.Model, Region: t.Region, RowLimit: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("list circuit events: %w", postgres.Translate(err))
	}
	events := make([]Event, len(rows))
	for i, row := range rows {
		events[i] = eventOf(row)
	}
	return events, nil
}

// page cuts the one row more that was read to see whether there is a next page.
func page(rows []dbgen.TelemetryRun, limit int) Page {
	p := Page{Runs: make([]Run, min(len(rows), limit))}
	for i := range p.Runs {
		p.Runs[i] = runOf(rows[i])
	}
	if len(rows) > limit {
		end := p.Runs[limit-1]
		cursor := encodeCursor(position{at: end.StartedAt, id: end.RunID})
		p.NextCursor = &cursor
	}
	return p
}

// A row converts as a whole, so that a column that comes or goes is an error of
// the compiler. Times are UTC, whatever the server's time zone.

func runOf(row dbgen.TelemetryRun) Run {
	run := Run(row)
	run.StartedAt, run.FinishedAt = run.StartedAt.UTC(), run.FinishedAt.UTC()
	return run
}

func attemptOf(row dbgen.TelemetryAttempt) Attempt {
	attempt := Attempt(row)
	attempt.StartedAt, attempt.FinishedAt = attempt.StartedAt.UTC(), attempt.FinishedAt.UTC()
	return attempt
}

func eventOf(row dbgen.CircuitEvent) Event {
	event := Event(row)
	event.At = event.At.UTC()
	return event
}
