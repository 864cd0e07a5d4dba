package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/runs"
)

// Runs reads what telemetry has recorded of calls.
type Runs interface {
	// List returns a page of runs, newest first.
	List(ctx context.Context, f runs.Filter) (runs.Page, error)
	// ListCorrelated returns a page of the runs of a correlation id, oldest
	// first.
	ListCorrelated(ctx context.Context, correlationID string, f runs.Filter) (runs.Page, error)
	// Find returns a run with its attempts, or runs.ErrNotFound.
	Find(ctx context.Context, id uuid.UUID) (runs.Run, []runs.Attempt, error)
}

// listRuns serves GET /api/v1/runs.
func (a *admin) listRuns(c echo.Context) error {
	q := queryOf(c, "from", "to", "operation", "outcome", "class", "configuration", "provider", "key", "correlation_id", "limit", "cursor")
	filter := runs.Filter{
		From:          q.instant("from"),
		To:            q.instant("to"),
		Operation:     q.oneOf("operation", operations()),
		Outcome:       q.oneOf("outcome", runOutcomes()),
		Class:         q.oneOf("class", failureClasses()),
		Configuration: q.text("configuration"),
		Provider:      q.text("provider"),
		Key:           q.text("key"),
		Limit:         int(q.number("limit", 1, runs.MaxLimit, runs.DefaultLimit)),
		Cursor:        q.text("cursor"),
	}
	if q.err != nil {
		return q.err
	}
	page, err := a.runsPage(c.Request().Context(), q.text("correlation_id"), filter)
	if errors.Is(err, runs.ErrBadCursor) {
		return invalidValue("cursor", "The cursor is none that this list has given; start again without one.")
	}
	if err != nil {
		return err
	}
	return sendJSON(c, http.StatusOK, page)
}

func (a *admin) runsPage(ctx context.Context, correlationID string, filter runs.Filter) (runs.Page, error) {
	if correlationID != "" {
		return a.Runs.ListCorrelated(ctx, correlationID, filter)
	}
	return a.Runs.List(ctx, filter)
}

// runDetail is one run with its attempts in order.
type runDetail struct {
	Run      runs.Run       `json:"run"`
	Attempts []runs.Attempt `json:"attempts"`
}

// getRun serves GET /api/v1/runs/{run_id}.
func (a *admin) getRun(c echo.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	id, err := uuid.Parse(c.Param("run_id"))
	if err != nil {
		return invalidValue("run_id", "A run id is a UUID, as in the X-Request-ID of an answer.")
	}
	run, attempts, err := a.Runs.Find(c.Request().Context(), id)
	if errors.Is(err, runs.ErrNotFound) {
		return notFound("There is no run %s; it may be too young to be written yet, or expired.", id)
	}
	if err != nil {
		return err
	}
	return sendJSON(c, http.StatusOK, runDetail{Run: run, Attempts: attempts})
}

// operations are what runs can be of. Those of the gateway's own are listed only
// when they are asked for.
func operations() []string {
	return []string{string(llm.OperationChat), string(llm.OperationCanary), string(llm.OperationHealthCheck)}
}

func runOutcomes() []string {
	return []string{string(llm.RunSuccess), string(llm.RunFailure), string(llm.RunDenied), string(llm.RunCancelled)}
}

func failureClasses() []string {
	classes := llm.Classes()
	words := make([]string, len(classes))
	for i, class := range classes {
		words[i] = string(class)
	}
	return words
}
