package runs

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// EventID names one event for good: the numbers of a node begin anew each time
// that it starts, which is what Boot tells apart.
type EventID struct {
	Node string
	Boot uuid.UUID
	Seq  int64
}

// EventPosition is the place of an event among those of all nodes: they are
// ordered by time and, within a microsecond, by id.
type EventPosition struct {
	At time.Time
	EventID
}

// EventFilter says which events of a circuit to list.
type EventFilter struct {
	Target llm.Target
	Limit  int      // DefaultLimit when 0, at most MaxLimit
	Cursor string   // that of an event, or of a page: what is older follows
	Before *EventID // the same by number, when there is no cursor; nil = from the newest on
}

// EventPage is one page of events, newest first.
type EventPage struct {
	Events     []Event
	NextCursor *string // nil on the last page
}

func (f EventFilter) limit() int { return Filter{Limit: f.Limit}.limit() }

// EventOf is what the row of an event will say that a node's breaker tells. It
// returns false for the circuit of something that is no target.
func EventOf(node string, boot uuid.UUID, e breaker.Event) (Event, bool) {
	target, ok := llm.ParseTarget(e.Key)
	if !ok {
		return Event{}, false
	}
	counts, err := json.Marshal(e.Counts)
	if err != nil {
		return Event{}, false // four numbers always can be
	}
	event := Event{
		Node: node, BootID: boot, Seq: int64(e.Seq), At: e.At.UTC().Truncate(time.Microsecond),
		Provider: target.Provider, Model: target.Model, Region: target.Region,
		FromState: e.From.String(), ToState: e.To.String(), Reason: e.Reason, Counts: counts, Actor: e.Actor,
	}
	if e.OpenFor > 0 {
		event.OpenForMs = new(e.OpenFor.Milliseconds())
	}
	if e.Note != "" {
		event.Note = new(e.Note)
	}
	return event, true
}

// Target is whose circuit moved.
func (e Event) Target() llm.Target {
	return llm.Target{Provider: e.Provider, Model: e.Model, Region: e.Region}
}

// Position is where the event stands.
func (e Event) Position() EventPosition {
	return EventPosition{At: e.At, EventID: EventID{Node: e.Node, Boot: e.BootID, Seq: e.Seq}}
}

// A cursor is a position in bytes: microseconds, as exact as the database keeps
// a time, number, boot, and the node's name to the end. Its form is nobody's
// business but ours.

const eventCursorBytes = 8 + 8 + len(uuid.UUID{})

// Cursor names the position in a URL or a header.
func (p EventPosition) Cursor() string {
	raw := binary.BigEndian.AppendUint64(nil, uint64(p.At.UnixMicro()))
	raw = binary.BigEndian.AppendUint64(raw, uint64(p.Seq))
	raw = append(raw, p.Boot[:]...)
	return base64.RawURLEncoding.EncodeToString(append(raw, p.Node...))
}

// ParseEventCursor reads a cursor. Returns an error that wraps ErrBadCursor if it
// is none of ours.
func ParseEventCursor(s string) (EventPosition, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(raw) <= eventCursorBytes {
		return EventPosition{}, fmt.Errorf("read a cursor of events: %w", ErrBadCursor)
	}
	micros, seq := binary.BigEndian.Uint64(raw), binary.BigEndian.Uint64(raw[8:])
	node := string(raw[eventCursorBytes:])
	if micros > uint64(endOfTime().UnixMicro()) || seq > math.MaxInt64 || !storable(node) {
		return EventPosition{}, fmt.Errorf("read a cursor of events: %w", ErrBadCursor)
	}
	return EventPosition{
		At:      time.UnixMicro(int64(micros)).UTC(),
		EventID: EventID{Node: node, Boot: uuid.UUID(raw[16:eventCursorBytes]), Seq: int64(seq)},
	}, nil
}

// storable reports whether Postgres can compare a text with what it keeps.
func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
