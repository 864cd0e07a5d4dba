// Package sse reads and writes event streams (server-sent events) as bytes.
// It knows lines, events and comments; it must not know what an event means,
// which dialect it belongs to, or where the bytes come from.
package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxEvent is the size of the largest event a Reader hands out unless told
// otherwise. There is no limit on a line below it.
const MaxEvent = 32 << 20

const (
	firstBuffer = 4 << 10
	// keepBuffer is the largest buffer that Reset keeps, so that one huge event
	// does not stay in a pool for ever.
	keepBuffer = 64 << 10
	// emptyReads is how many reads without a byte and without an error a
	// source may answer in a row.
	emptyReads = 100
)

// An OversizedError says that an event is larger than the reader's limit.
type OversizedError struct{ Limit int }

func (e *OversizedError) Error() string {
	return fmt.Sprintf("event is larger than %d bytes", e.Limit)
}

// Event is one event of a stream. Its bytes are valid until the next call of
// Next or Reset.
type Event struct {
	// Raw is the event as it came, closing blank line included. Comments
	// before it are left out.
	Raw []byte
	// Name is the type that the event was given, if any.
	Name []byte
	// Data is the payload: the values of its data lines, joined by newlines.
	// It is never empty: an event without data is not dispatched.
	Data []byte
	// More reports that another whole event has been read already.
	More bool
}

// Reader cuts a byte stream into events by the rules of the WHATWG standard:
// lines end in LF, CRLF or CR, a byte order mark at the start is dropped, so
// are comments and events without data. It looks at bytes only, so a character
// may be cut anywhere. A Reader is not safe for concurrent use.
type Reader struct {
	src   io.Reader
	limit int
	err   error // what the source ended with, once everything before it is handed out

	buf    []byte
	parsed int // everything before it has been handed out or dropped
	joined []byte

	cur   parser
	ahead span
	ready bool // ahead holds the next event
	began bool // the first bytes have been seen
}

// NewReader returns a Reader of src with the limit MaxEvent.
func NewReader(src io.Reader) *Reader {
	r := &Reader{limit: MaxEvent}
	r.Reset(src)
	return r
}

// Limit sets the size of the largest event, in bytes.
func (r *Reader) Limit(n int) { r.limit = n }

// Reset makes the Reader read from another source. Its buffer is kept unless
// it has grown large, so Readers are worth pooling.
func (r *Reader) Reset(src io.Reader) {
	buf, joined := r.buf, r.joined
	if cap(buf) > keepBuffer || cap(joined) > keepBuffer {
		buf, joined = nil, nil
	}
	*r = Reader{src: src, limit: r.limit, buf: buf[:0], joined: joined[:0]}
}

// Next returns the next event. It returns io.EOF at the end of the stream,
// io.ErrUnexpectedEOF when the stream ends inside a line, an *OversizedError
// for an event over the limit, or the error of the source. An event whose
// lines are whole but whose blank line is missing at the end of the stream is
// handed out with one: many servers leave it out after their last event.
func (r *Reader) Next() (Event, error) {
	s, ok := r.take()
	for !ok {
		if err := r.fill(); err != nil {
			return r.last(err)
		}
		s, ok = r.take()
	}
	r.ahead, r.ready = r.parse()
	return r.event(s), nil
}

func (r *Reader) take() (span, bool) {
	if r.ready {
		r.ready = false
		return r.ahead, true
	}
	return r.parse()
}

func (r *Reader) event(s span) Event {
	return Event{Raw: r.buf[s.start:s.end], Name: r.buf[s.name.start:s.name.end], Data: r.data(s), More: r.ready}
}

// data returns the payload of an event. One data line, as nearly every event
// has, is a slice of the buffer; several are joined in a buffer of their own.
func (r *Reader) data(s span) []byte {
	if !s.several {
		return r.buf[s.data.start:s.data.end]
	}
	r.joined = r.joined[:0]
	for raw := r.buf[s.start:s.end]; len(raw) > 0; {
		end, next, _ := lineEnd(raw, true)
		if value, ok := fieldValue(raw[:end], dataField); ok {
			r.joined = append(append(r.joined, value...), '\n')
		}
		raw = raw[next:]
	}
	return r.joined[:len(r.joined)-1]
}

// fill reads more bytes behind those not yet handed out, making room first.
func (r *Reader) fill() error {
	if r.err != nil {
		return r.err
	}
	r.makeRoom()
	if len(r.buf)-r.parsed > r.limit {
		r.err = &OversizedError{Limit: r.limit}
		return r.err
	}
	for range emptyReads {
		n, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		r.err = err
		if n > 0 {
			return r.dropMark()
		}
		if err != nil {
			return err
		}
	}
	r.err = io.ErrNoProgress
	return r.err
}

func (r *Reader) makeRoom() {
	if r.parsed > 0 {
		n := copy(r.buf, r.buf[r.parsed:])
		r.buf = r.buf[:n]
		r.cur.shift(r.parsed)
		r.parsed = 0
	}
	if len(r.buf) == cap(r.buf) {
		grown := make([]byte, len(r.buf), min(max(firstBuffer, 2*cap(r.buf)), r.limit+1))
		copy(grown, r.buf)
		r.buf = grown
	}
}

var byteOrderMark = []byte("\xEF\xBB\xBF")

// dropMark drops a byte order mark at the very start. A mark that is still
// incomplete keeps the parser waiting; at the end of a stream it is no event.
func (r *Reader) dropMark() error {
	if r.began {
		return nil
	}
	if len(r.buf) < len(byteOrderMark) && bytes.HasPrefix(byteOrderMark, r.buf) && r.err == nil {
		return r.fill()
	}
	r.began = true
	if bytes.HasPrefix(r.buf, byteOrderMark) {
		r.parsed = len(byteOrderMark)
		r.cur.reset(r.parsed)
	}
	return nil
}

// last hands out what is whole at the end of the source, then the error.
func (r *Reader) last(err error) (Event, error) {
	if !errors.Is(err, io.EOF) {
		return Event{}, err
	}
	if s, ok := r.parse(); ok { // now a CR at the very end is a line end
		return r.event(s), nil
	}
	s, whole := r.cur.finish(r.buf)
	r.parsed = len(r.buf)
	r.cur.reset(r.parsed)
	switch {
	case !whole:
		return Event{}, io.ErrUnexpectedEOF
	case s.empty():
		return Event{}, io.EOF
	}
	r.buf = append(r.buf, '\n')
	s.end = len(r.buf)
	r.parsed = len(r.buf)
	r.cur.reset(r.parsed)
	return r.event(s), nil
}
