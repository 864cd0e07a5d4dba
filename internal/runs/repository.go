package runs

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

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
		Operation: f.Operation, Outcome: f.Outcome, FailureClass: f.Class, Configuration: f.Configuration, APIKey: f.Key, Provider: f.Provider,
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
		Operation: f.Operation, Outcome: f.Outcome, FailureClass: f.Class, Configuration: f.Configuration, APIKey: f.Key, Provider: f.Provider,
		RowLimit: int32(f.limit() + 1),
	})
	if err != nil {
		return Page{}, fmt.Errorf("list runs of a correlation id: %w", postgres.Translate(err))
	}
	return page(rows, f.limit()), nil
}

// LatestOwn returns the latest call that the gateway has made on its own account
// under a correlation id. Returns ErrNotFound if there is none.
func (r *Repository) LatestOwn(ctx context.Context, operation, correlationID string) (Run, error) {
	rows, err := r.queries.ListOwnRuns(ctx, r.db, dbgen.ListOwnRunsParams{CorrelationID: correlationID, Operation: operation, RowLimit: 1})
	switch {
	case err != nil:
		return Run{}, fmt.Errorf("find the latest %s: %w", operation, postgres.Translate(err))
	case len(rows) == 0:
		return Run{}, ErrNotFound
	}
	return runOf(rows[0]), nil
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

// KeyNames returns the names of the API keys with these ids, by id. An id that is
// no key's has none.
func (r *Repository) KeyNames(ctx context.Context, ids []string) (map[string]string, error) {
	wanted := make([]uuid.UUID, 0, len(ids))
	for _, text := range ids {
		if id, err := uuid.Parse(text); err == nil {
			wanted = append(wanted, id)
		}
	}
	if len(wanted) == 0 {
		return map[string]string{}, nil
	}
	rows, err := r.queries.ListAPIKeyNames(ctx, r.db, wanted)
	if err != nil {
		return nil, fmt.Errorf("list names of api keys: %w", postgres.Translate(err))
	}
	names := make(map[string]string, len(rows))
	for _, row := range rows {
		names[row.ID.String()] = row.Name
	}
	return names, nil
}

// ListEvents returns one page of the transitions of a circuit, newest first, of
// every node that has written some. Returns ErrBadCursor if the cursor is none of
// ours, and ErrNotFound if there is no event with the number to begin before.
func (r *Repository) ListEvents(ctx context.Context, f EventFilter) (EventPage, error) {
	before, err := r.before(ctx, f)
	if err != nil {
		return EventPage{}, err
	}
	rows, err := r.queries.ListCircuitEvents(ctx, r.db, dbgen.ListCircuitEventsParams{
		Provider: f.Target.Provider, Model: f.Target.Model, Region: f.Target.Region,
		BeforeAt: before.At, BeforeNode: before.Node, BeforeBoot: before.Boot, BeforeSeq: before.Seq,
		RowLimit: int32(f.limit() + 1),
	})
	if err != nil {
		return EventPage{}, fmt.Errorf("list circuit events: %w", postgres.Translate(err))
	}
	return eventPage(rows, f.limit()), nil
}

// before is where a page of events begins.
func (r *Repository) before(ctx context.Context, f EventFilter) (EventPosition, error) {
	switch {
	case f.Cursor != "":
		return ParseEventCursor(f.Cursor)
	case f.Before == nil:
		return EventPosition{At: endOfTime()}, nil
	}
	at, err := r.queries.FindCircuitEventTime(ctx, r.db, dbgen.FindCircuitEventTimeParams{
		Node: f.Before.Node, BootID: f.Before.Boot, Seq: f.Before.Seq,
		Provider: f.Target.Provider, Model: f.Target.Model, Region: f.Target.Region,
	})
	switch err = postgres.Translate(err); {
	case errors.Is(err, postgres.ErrNotFound):
		return EventPosition{}, ErrNotFound
	case err != nil:
		return EventPosition{}, fmt.Errorf("find circuit event: %w", err)
	}
	return EventPosition{At: at, EventID: *f.Before}, nil
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

// eventPage cuts like page.
func eventPage(rows []dbgen.CircuitEvent, limit int) EventPage {
	p := EventPage{Events: make([]Event, min(len(rows), limit))}
	for i := range p.Events {
		p.Events[i] = eventOf(rows[i])
	}
	if len(rows) > limit {
		p.NextCursor = new(p.Events[limit-1].Position().Cursor())
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
