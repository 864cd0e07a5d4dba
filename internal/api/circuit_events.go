package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/runs"
)

// CircuitEvents reads the history of a circuit.
type CircuitEvents interface {
	// Events returns the latest transitions, newest first.
	Events(ctx context.Context, t llm.Target, limit int) ([]runs.Event, error)
}

const (
	eventsPage = 50   // transitions on one page
	eventsKept = 1000 // how far back pages go
)

type eventList struct {
	Events []runs.Event `json:"events"`
}

// listCircuitEvents serves GET /api/v1/circuits/{key}/events?before=SEQ: a page
// of transitions, newest first, from the one after SEQ on.
func (a *admin) listCircuitEvents(c echo.Context) error {
	q := queryOf(c, "before")
	before := q.number("before", 1, maxSeq, 0)
	if q.err != nil {
		return q.err
	}
	_, target, err := a.circuit(c, a.Snapshot())
	if err != nil {
		return err
	}
	events, err := a.eventsBefore(c.Request().Context(), target, before)
	if err != nil {
		return err
	}
	return sendJSON(c, http.StatusOK, eventList{Events: events})
}

// maxSeq is the largest number that JSON readers keep exact.
const maxSeq = 1<<53 - 1

func (a *admin) eventsBefore(ctx context.Context, target llm.Target, before int64) ([]runs.Event, error) {
	if before == 0 {
		return a.Events.Events(ctx, target, eventsPage)
	}
	events, err := a.Events.Events(ctx, target, eventsKept)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(events, func(e runs.Event) bool { return e.Seq == before })
	if at < 0 {
		return nil, notFound("This circuit has no event %d among its latest %d.", before, eventsKept)
	}
	older := events[at+1:]
	return older[:min(len(older), eventsPage)], nil
}
