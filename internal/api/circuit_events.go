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

// CircuitEvents reads the history of a circuit.
type CircuitEvents interface {
	// ListEvents returns a page of transitions, newest first. Returns
	// runs.ErrBadCursor, or runs.ErrNotFound when there is none to begin before.
	ListEvents(ctx context.Context, f runs.EventFilter) (runs.EventPage, error)
}

// Writer is under which name this process writes events.
type Writer struct {
	Node string
	Boot uuid.UUID // of this life of the process
}

// eventView is one transition as operators see it, in a history as in the live
// stream: its row, the circuit's key, and the cursor that what is older follows.
type eventView struct {
	Key    string `json:"key"`
	Cursor string `json:"cursor"`
	runs.Event
}

type eventList struct {
	Events     []eventView `json:"events"`
	NextCursor *string     `json:"next_cursor"`
}

func viewEvent(e runs.Event) eventView {
	return eventView{Key: e.Target().Key(), Cursor: e.Position().Cursor(), Event: e}
}

func viewEvents(events []runs.Event) []eventView {
	views := make([]eventView, len(events))
	for i, e := range events {
		views[i] = viewEvent(e)
	}
	return views
}

// listCircuitEvents serves GET /api/v1/circuits/{key}/events: a page of the
// transitions that all nodes have written, newest first; with a cursor, or with
// before=SEQ, of those that are older. A number alone means an event of the
// present life of this process, since every other has given it out as well.
func (a *admin) listCircuitEvents(c echo.Context) error {
	q := queryOf(c, "before", "cursor", "limit")
	before, cursor := q.number("before", 1, maxSeq, 0), q.text("cursor")
	limit := int(q.number("limit", 1, runs.MaxLimit, runs.DefaultLimit))
	if before > 0 && cursor != "" {
		q.fail("before", "Give a cursor or before, not both; a cursor says more.")
	}
	if q.err != nil {
		return q.err
	}
	_, target, err := a.circuit(c, a.Snapshot())
	if err != nil {
		return err
	}
	filter := runs.EventFilter{Target: target, Limit: limit, Cursor: cursor}
	if before > 0 {
		filter.Before = &runs.EventID{Node: a.Writer.Node, Boot: a.Writer.Boot, Seq: before}
	}
	page, err := a.Events.ListEvents(c.Request().Context(), filter)
	switch {
	case errors.Is(err, runs.ErrBadCursor):
		return invalidValue("cursor", "The cursor is none that events carry; start again without one.")
	case errors.Is(err, runs.ErrNotFound):
		return notFound("This gateway has written no event %d of this circuit since it started; page by the cursor of an event.", before)
	case err != nil:
		return err
	}
	return sendJSON(c, http.StatusOK, eventList{Events: viewEvents(page.Events), NextCursor: page.NextCursor})
}

// maxSeq is the largest number that JSON readers keep exact.
const maxSeq = 1<<53 - 1

// latestEvents are those that are shown with a circuit; nil while the database
// is away.
func (a *admin) latestEvents(ctx context.Context, target llm.Target) ([]eventView, error) {
	page, err := a.Events.ListEvents(ctx, runs.EventFilter{Target: target})
	switch {
	case err == nil:
		return viewEvents(page.Events), nil
	case a.DatabaseAway(err):
		return nil, nil
	default:
		return nil, err
	}
}
