package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/runs"
)

// writer is who writes events in these tests.
var writer = api.Writer{Node: "n1", Boot: uuid.MustParse("0192f0c1-7e7e-4000-8000-000000000001")}

const historyPath = "/api/v1/circuits/alpha%2Fm1%2Fr1/events"

// eventPage is a page of events as its reader sees it.
type eventPage struct {
	Events []struct {
		Seq         int64
		Key, Cursor string
	}
	NextCursor *string `json:"next_cursor"`
}

func (p eventPage) seqs() []int64 {
	seqs := []int64{}
	for _, e := range p.Events {
		seqs = append(seqs, e.Seq)
	}
	return seqs
}

func historyPage(t *testing.T, c *console, query string) eventPage {
	t.Helper()
	got := c.get(t, historyPath+query)
	if got.status != 200 {
		t.Fatalf("%s: status %d, body %s", query, got.status, got.body)
	}
	var page eventPage
	if err := json.Unmarshal([]byte(got.body), &page); err != nil {
		t.Fatal(err)
	}
	return page
}

func down(from, to int64) []int64 {
	var seqs []int64
	for ; from >= to; from-- {
		seqs = append(seqs, from)
	}
	return seqs
}

func TestTheHistoryOfACircuitIsReadPageByPage(t *testing.T) {
	t.Parallel()
	c := setupAdmin(t, withCircuit(&history{events: eventsDown(120)}))
	page := historyPage(t, c, "")
	for _, want := range [][]int64{down(120, 71), down(70, 21), down(20, 1)} {
		if diff := cmp.Diff(want, page.seqs()); diff != "" {
			t.Fatalf("page (-want +got):\n%s", diff)
		}
		if page.NextCursor == nil {
			break
		}
		page = historyPage(t, c, "?cursor="+*page.NextCursor)
	}
	if page.NextCursor != nil {
		t.Errorf("the last page names a next one")
	}
}

// Where to go on can be said by the cursor of any event, and by its number when
// this life of the process has given it out.
func TestTheHistoryGoesOnFromAnyEvent(t *testing.T) {
	t.Parallel()
	events := eventsDown(9)
	c := setupAdmin(t, withCircuit(&history{events: events}))
	first := historyPage(t, c, "")
	for query, want := range map[string][]int64{
		"?limit=2":                               down(9, 8),
		"?before=7":                              down(6, 1),
		"?before=7&limit=2":                      down(6, 5),
		"?cursor=" + first.Events[2].Cursor:      down(6, 1),
		"?before=1":                              {},
		"?limit=500&before=9":                    down(8, 1),
		"?limit=1&cursor=" + cursorOf(events, 5): {4},
	} {
		if diff := cmp.Diff(want, historyPage(t, c, query).seqs()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

func cursorOf(events []runs.Event, seq int64) string {
	at := slices.IndexFunc(events, func(e runs.Event) bool { return e.Seq == seq })
	return events[at].Position().Cursor()
}

func TestAPlaceThatNoEventHasIsRefused(t *testing.T) {
	t.Parallel()
	c := setupAdmin(t, withCircuit(&history{events: eventsDown(3)}))
	for query, want := range map[string]struct {
		status int
		param  string
	}{
		"?before=4": {404, ""},
		"?before=0": {400, "before"},
		"?before=x": {400, "before"},
		"?before=2&cursor=" + cursorOf(eventsDown(3), 2): {400, "before"},
		"?cursor=x":  {400, "cursor"},
		"?limit=501": {400, "limit"},
		"?after=1":   {400, "after"},
	} {
		got := c.get(t, historyPath+query)
		if got.status != want.status || problemOf(t, got.body).param() != want.param {
			t.Errorf("%s: status %d, body %s; want %d %s", query, got.status, got.body, want.status, want.param)
		}
	}
}

// history is a scripted history of one circuit, newest first.
type history struct {
	events []runs.Event
	err    error
}

func (h *history) ListEvents(_ context.Context, f runs.EventFilter) (runs.EventPage, error) {
	if h.err != nil {
		return runs.EventPage{}, h.err
	}
	events, before := h.events, f.Before
	if f.Cursor != "" {
		position, err := runs.ParseEventCursor(f.Cursor)
		if err != nil {
			return runs.EventPage{}, err
		}
		before = &position.EventID
	}
	if before != nil {
		at := slices.IndexFunc(events, func(e runs.Event) bool { return e.Position().EventID == *before })
		if at < 0 {
			return runs.EventPage{}, runs.ErrNotFound
		}
		events = events[at+1:]
	}
	limit := f.Limit
	if limit == 0 {
		limit = runs.DefaultLimit
	}
	page := runs.EventPage{Events: events[:min(limit, len(events))]}
	if len(events) > limit {
		page.NextCursor = new(page.Events[limit-1].Position().Cursor())
	}
	return page, nil
}

// eventsDown returns the events n to 1.
func eventsDown(n int64) []runs.Event {
	events := make([]runs.Event, 0, n)
	for ; n > 0; n-- {
		events = append(events, runs.Event{
			Node: writer.Node, BootID: writer.Boot, Seq: n, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Provider: "alpha", Model: "m1", Region: "r1",
			FromState: "closed", ToState: "open", Reason: "consecutive", Counts: json.RawMessage(`{"calls":9}`),
			OpenForMs: ptr(int64(30_000)), Actor: "breaker",
		})
	}
	return events
}

func eventView(seq int64) string {
	return fmt.Sprintf(`{"key":"alpha/m1/r1","cursor":%q,"node":"n1","boot_id":"0192f0c1-7e7e-4000-8000-000000000001","seq":%d,"at":"2026-01-02T03:04:05Z","provider":"alpha","model":"m1","region":"r1",`+
		`"from_state":"closed","to_state":"open","reason":"consecutive","counts":{"calls":9},"open_for_ms":30000,"actor":"breaker","note":null}`, cursorOf(eventsDown(seq), seq), seq)
}
