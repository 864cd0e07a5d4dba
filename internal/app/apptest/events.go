package apptest

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// CircuitEvent is one event as the operator API tells and lists it; of a gap in
// the stream, Reason alone.
type CircuitEvent struct {
	Cursor, Key string
	BootID      string `json:"boot_id"`
	Seq         int64
	At          time.Time
	FromState   string `json:"from_state"`
	ToState     string `json:"to_state"`
	Reason      string
	Raw         json.RawMessage `json:"-"`
}

// Step is from which state to which the event leads.
func (e CircuitEvent) Step() string { return e.FromState + " " + e.ToState }

// EventPage is one page of a circuit's history.
type EventPage struct {
	Events     []json.RawMessage
	NextCursor string `json:"next_cursor"`
}

// Parsed returns the events of a page.
func (p EventPage) Parsed(t testing.TB) []CircuitEvent {
	t.Helper()
	var events []CircuitEvent
	for _, raw := range p.Events {
		events = append(events, parseEvent(t, raw))
	}
	return events
}

func parseEvent(t testing.TB, raw json.RawMessage) CircuitEvent {
	t.Helper()
	e := CircuitEvent{Raw: raw}
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// History reads one page of a circuit's events.
func (g *Gateway) History(t testing.TB, circuit, query string) EventPage {
	t.Helper()
	answer := Read(t, g.AdminURL+"/api/v1/circuits/"+url.PathEscape(circuit)+"/events"+query)
	var page EventPage
	if err := json.Unmarshal([]byte(answer.Body), &page); err != nil || answer.Status != http.StatusOK {
		t.Fatalf("history %s: %d %s", query, answer.Status, answer.Body)
	}
	return page
}

// Follower reads the stream of circuit events.
type Follower struct {
	t     testing.TB
	body  io.Closer
	lines *bufio.Scanner
}

// Follow begins to read, behind the event of an id unless that is empty. What
// happens from its return on is told.
func (g *Gateway) Follow(t testing.TB, lastEventID string) *Follower {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	var headers []string
	if lastEventID != "" {
		headers = []string{"Last-Event-ID", lastEventID}
	}
	resp, err := send(ctx, http.MethodGet, g.AdminURL+"/api/v1/events", "", headers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("follow the events: %s", resp.Status)
	}
	return &Follower{t: t, body: resp.Body, lines: bufio.NewScanner(resp.Body)}
}

// Next waits for the next event and returns what it is, circuit or gap; empty
// when the stream has ended.
func (f *Follower) Next() (kind string, e CircuitEvent) {
	f.t.Helper()
	for f.lines.Scan() {
		name, value, _ := strings.Cut(f.lines.Text(), ": ")
		switch name {
		case "event":
			kind = value
		case "data":
			e = parseEvent(f.t, json.RawMessage(value))
		case "":
			if kind != "" && value == "" {
				return kind, e
			}
		}
	}
	return "", CircuitEvent{}
}

// Steps reads n events of circuits.
func (f *Follower) Steps(n int) []CircuitEvent {
	f.t.Helper()
	var events []CircuitEvent
	for range n {
		kind, e := f.Next()
		if kind != "circuit" {
			f.t.Fatalf("an event %q after %d of %d: %v", kind, len(events), n, f.lines.Err())
		}
		events = append(events, e)
	}
	return events
}

// Leave ends the stream from the reader's side.
func (f *Follower) Leave() { _ = f.body.Close() }
