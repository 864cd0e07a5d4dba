package runs_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/runs"
	"github.com/breakwater-llm/breakwater/internal/telemetry"
)

// life is one run of a gateway that writes events.
type life struct {
	node string
	boot uuid.UUID
}

func begin(node string) life { return life{node, uuid.New()} }

func (l life) write(t *testing.T, db *pgxpool.Pool, events ...*breaker.Event) {
	t.Helper()
	if err := telemetry.NewRepository(db).InsertCircuitEvents(t.Context(), l.node, l.boot, events); err != nil {
		t.Fatal(err)
	}
}

// opening is the event of a circuit that opens so long after noon.
func opening(seq uint64, target llm.Target, after time.Duration) *breaker.Event {
	return &breaker.Event{
		Seq: seq, Key: target.Key(), From: breaker.Closed, To: breaker.Open, Reason: breaker.ReasonConsecutive,
		Counts:  breaker.Counts{Calls: 5, Failures: 5, ConsecutiveFailures: 5},
		OpenFor: 30*time.Second + time.Microsecond, At: noon.Add(after), Actor: breaker.ActorBreaker,
	}
}

// place says which event a reader sees.
type place struct {
	Node string
	Seq  int64
}

// pages reads a history to its end, so many events at a time.
func pages(t *testing.T, repo *runs.Repository, f runs.EventFilter) []place {
	t.Helper()
	var all []place
	for range 100 {
		page, err := repo.ListEvents(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Events) > f.Limit {
			t.Fatalf("a page of %d has %d events", f.Limit, len(page.Events))
		}
		for _, e := range page.Events {
			all = append(all, place{e.Node, e.Seq})
		}
		if page.NextCursor == nil {
			return all
		}
		f.Cursor, f.Before = *page.NextCursor, nil
	}
	t.Fatal("the history has no end")
	return nil
}

func TestEventsOfACircuitComeNewestFirst(t *testing.T) {
	t.Parallel()
	repo, db := setup(t)
	writer := begin("node-1")
	halfOpen := &breaker.Event{Seq: 2, Key: alpha.Key(), From: breaker.Open, To: breaker.HalfOpen, Reason: breaker.ReasonHalfOpen, At: noon.Add(time.Minute), Actor: breaker.ActorBreaker}
	writer.write(t, db, opening(1, alpha, 0), halfOpen, opening(3, beta, 0))

	got, err := repo.ListEvents(t.Context(), runs.EventFilter{Target: alpha})
	if err != nil {
		t.Fatal(err)
	}
	want := runs.EventPage{Events: []runs.Event{
		{
			Node: "node-1", BootID: writer.boot, Seq: 2, At: noon.Add(time.Minute), Provider: "alpha", Model: "m1", Region: "r1",
			FromState: "open", ToState: "half_open", Reason: "half_open",
			Counts: json.RawMessage(`{"slow": 0, "calls": 0, "failures": 0, "consecutive_failures": 0}`), Actor: "breaker",
		},
		{
			Node: "node-1", BootID: writer.boot, Seq: 1, At: noon, Provider: "alpha", Model: "m1", Region: "r1",
			FromState: "closed", ToState: "open", Reason: "consecutive",
			Counts: json.RawMessage(`{"slow": 0, "calls": 5, "failures": 5, "consecutive_failures": 5}`), OpenForMs: ptr(int64(30000)), Actor: "breaker",
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// Numbers begin anew with every start and on every node; the order and the pages
// do not care, whatever the length of a page.
func TestEventsOfAllNodesAndAllTheirLivesAreOneHistory(t *testing.T) {
	t.Parallel()
	repo, db := setup(t)
	before, after, other := begin("node-1"), begin("node-1"), begin("node-2")
	before.write(t, db, opening(1, alpha, 1*time.Minute), opening(2, alpha, 3*time.Minute), opening(3, beta, 4*time.Minute))
	other.write(t, db, opening(1, alpha, 2*time.Minute), opening(2, alpha, 6*time.Minute))
	after.write(t, db, opening(1, alpha, 5*time.Minute), opening(2, alpha, 7*time.Minute))

	want := []place{{"node-1", 2}, {"node-2", 2}, {"node-1", 1}, {"node-1", 2}, {"node-2", 1}, {"node-1", 1}}
	for limit := 1; limit <= len(want)+1; limit++ {
		if diff := cmp.Diff(want, pages(t, repo, runs.EventFilter{Target: alpha, Limit: limit})); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", limit, diff)
		}
	}
	for name, tc := range map[string]struct {
		before runs.EventID
		want   []place
	}{
		"a number of this life":     {runs.EventID{Node: "node-1", Boot: after.boot, Seq: 2}, want[1:]},
		"the same one of an older":  {runs.EventID{Node: "node-1", Boot: before.boot, Seq: 2}, want[4:]},
		"the same one of elsewhere": {runs.EventID{Node: "node-2", Boot: other.boot, Seq: 2}, want[2:]},
	} {
		if diff := cmp.Diff(tc.want, pages(t, repo, runs.EventFilter{Target: alpha, Limit: 2, Before: &tc.before})); diff != "" {
			t.Errorf("before %s (-want +got):\n%s", name, diff)
		}
	}
	for name, id := range map[string]runs.EventID{
		"another circuit's":      {Node: "node-1", Boot: before.boot, Seq: 3},
		"a number not given yet": {Node: "node-1", Boot: after.boot, Seq: 3},
		"a life that never was":  {Node: "node-1", Boot: uuid.New(), Seq: 1},
	} {
		if _, err := repo.ListEvents(t.Context(), runs.EventFilter{Target: alpha, Before: &id}); !errors.Is(err, runs.ErrNotFound) {
			t.Errorf("before %s: %v, want ErrNotFound", name, err)
		}
	}
}

// A storm puts many events into one microsecond, of several nodes at that; none
// is shown twice and none is left out where a page ends among them.
func TestEventsOfTheSameMomentAreAllListedOnce(t *testing.T) {
	t.Parallel()
	repo, db := setup(t)
	for _, writer := range []life{begin("node-1"), begin("node-1"), begin("node-2")} {
		writer.write(t, db, opening(1, alpha, 0), opening(2, alpha, 0), opening(3, alpha, 0))
	}
	want := pages(t, repo, runs.EventFilter{Target: alpha, Limit: 9})
	if len(want) != 9 {
		t.Fatalf("%d events, want 9", len(want))
	}
	for limit := 1; limit < 9; limit++ {
		if diff := cmp.Diff(want, pages(t, repo, runs.EventFilter{Target: alpha, Limit: limit})); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", limit, diff)
		}
	}
}

// Who is told an event as it happens and who reads it later are told the same.
func TestAnEventIsToldAsItWillBeWritten(t *testing.T) {
	t.Parallel()
	repo, db := setup(t)
	writer := begin("node-1")
	event := opening(7, alpha, 1234567*time.Nanosecond)
	event.Actor, event.Note = "anna", "new driver, back by noon"
	writer.write(t, db, event)
	page, err := repo.ListEvents(t.Context(), runs.EventFilter{Target: alpha})
	if err != nil || len(page.Events) != 1 {
		t.Fatalf("%d events, %v", len(page.Events), err)
	}
	told, ok := runs.EventOf(writer.node, writer.boot, *event)
	if !ok {
		t.Fatal("the event is not told")
	}
	written := page.Events[0]
	written.Counts, told.Counts = compact(t, written.Counts), compact(t, told.Counts)
	if diff := cmp.Diff(written, told); diff != "" {
		t.Errorf("told (-written +told):\n%s", diff)
	}
	if _, ok := runs.EventOf(writer.node, writer.boot, breaker.Event{Key: "no target"}); ok {
		t.Error("an event of what is no target is told, and never written")
	}
}

// compact writes JSON in one order and without blanks.
func compact(t *testing.T, raw json.RawMessage) json.RawMessage {
	t.Helper()
	var value map[string]uint64
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func TestACursorOfEventsNamesItsPlace(t *testing.T) {
	t.Parallel()
	want := runs.EventPosition{At: noon.Add(time.Microsecond), EventID: runs.EventID{Node: "node-1", Boot: uuid.New(), Seq: 7}}
	got, err := runs.ParseEventCursor(want.Cursor())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("position (-want +got):\n%s", diff)
	}
}

func TestForeignCursorsOfEventsAreRefused(t *testing.T) {
	t.Parallel()
	repo := runs.NewRepository(nil) // none of them gets as far as the database
	raw := func(b ...byte) string { return base64.RawURLEncoding.EncodeToString(append(make([]byte, 32), b...)) }
	for name, cursor := range map[string]string{
		"no base64":         "%",
		"too short":         raw(),
		"a name with a NUL": raw(0),
		"a name of no text": raw(0xff),
		"a time beyond all": base64.RawURLEncoding.EncodeToString(append([]byte{0xff}, make([]byte, 40)...)),
		"a number below 0":  base64.RawURLEncoding.EncodeToString(append(append(make([]byte, 8), 0xff), make([]byte, 32)...)),
		"that of a run":     base64.RawURLEncoding.EncodeToString(make([]byte, 24)),
	} {
		_, err := repo.ListEvents(t.Context(), runs.EventFilter{Target: alpha, Cursor: cursor})
		if !errors.Is(err, runs.ErrBadCursor) {
			t.Errorf("%s: %v, want ErrBadCursor", name, err)
		}
	}
}
