package runs

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/google/uuid"
)

// ErrBadCursor says that a cursor is none that a page has given.
var ErrBadCursor = errors.New("not a cursor of this list")

const (
	// DefaultLimit is the length of a page when the caller gives none.
	DefaultLimit = 50
	// MaxLimit is the longest page.
	MaxLimit = 500
)

// Filter says which runs to list; a zero field matches everything.
type Filter struct {
	From, To      time.Time // started_at, To excluded
	Operation     string    // empty: every one that callers ask for, none of the gateway's own
	Outcome       string
	Class         string
	Configuration string
	Key           string // id of an API key, or a name that it has or had
	Provider      string // some attempt went to it or was refused for it
	Limit         int    // DefaultLimit when 0, at most MaxLimit
	Cursor        string // NextCursor of the page before
}

// Page is one page of runs.
type Page struct {
	Runs       []Run   `json:"runs"`
	NextCursor *string `json:"next_cursor"` // nil on the last page
}

// position is a place in the list: behind the run that it names.
type position struct {
	at time.Time
	id uuid.UUID
}

func (f Filter) to() time.Time {
	if f.To.IsZero() {
		return endOfTime()
	}
	return f.To
}

func (f Filter) limit() int {
	if f.Limit <= 0 {
		return DefaultLimit
	}
	return min(f.Limit, MaxLimit)
}

// after returns where the page begins: at the start unless there is a cursor.
func (f Filter) after(start position) (position, error) {
	if f.Cursor == "" {
		return start, nil
	}
	return decodeCursor(f.Cursor)
}

// first and last are the ends of every list.
func first() position { return position{} }

func last() position { return position{at: endOfTime(), id: uuid.Max} }

// endOfTime is later than every run.
func endOfTime() time.Time { return time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC) }

// A cursor is a time in microseconds, as exact as the database keeps it, and a
// run id. Its form is nobody's business but ours.

const cursorBytes = 8 + len(uuid.UUID{})

func encodeCursor(p position) string {
	raw := binary.BigEndian.AppendUint64(nil, uint64(p.at.UnixMicro()))
	return base64.RawURLEncoding.EncodeToString(append(raw, p.id[:]...))
}

func decodeCursor(s string) (position, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(raw) != cursorBytes {
		return position{}, ErrBadCursor
	}
	micros := binary.BigEndian.Uint64(raw)
	if micros > math.MaxInt64 || int64(micros) > endOfTime().UnixMicro() {
		return position{}, ErrBadCursor
	}
	return position{at: time.UnixMicro(int64(micros)).UTC(), id: uuid.UUID(raw[8:])}, nil
}
