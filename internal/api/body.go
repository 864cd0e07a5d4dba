package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// How much room a body gets before a byte of it is there. What is announced is
// a promise: many who promise much and send nothing must not take the room of
// those who send.
const (
	firstRead     = 8 << 10  // of unannounced length
	mostAnnounced = 64 << 10 // of announced length, at most
)

// bodyIdle is how long a client may pause within its body.
const bodyIdle = 30 * time.Second

// bodies reads request bodies and counts the bytes that all requests hold
// together, so that many large ones cannot exhaust the memory.
type bodies struct{ held atomic.Int64 }

// held is one body in memory. Whoever has read it releases it when the call is
// over.
type held struct {
	bytes []byte
	taken int64
	from  *bodies
}

// release gives the body's bytes back. The zero value holds nothing.
func (h *held) release() {
	if h.from != nil {
		h.from.held.Add(-h.taken)
	}
	h.from, h.taken = nil, 0
}

// read reads a whole body, once, while ctx lasts. Returns the fault that the
// client gets when the body is too large, when too much is held already, or when
// it cannot be read.
func (b *bodies) read(ctx context.Context, w http.ResponseWriter, r *http.Request, limits Limits) (*held, error) {
	if r.ContentLength > limits.MaxBody {
		return nil, bodyTooLarge(limits.MaxBody)
	}
	if b.held.Load()+r.ContentLength > limits.MaxInflightBytes {
		return nil, tooManyBytes(limits.MaxInflightBytes) // it would be refused on the way
	}
	steady := newSteady(ctx, w, http.MaxBytesReader(w, r.Body, limits.MaxBody))
	defer steady.stop()

	h := &held{from: b}
	err := h.fill(steady, r.ContentLength, limits.MaxInflightBytes)
	if err == nil {
		steady.rest()
		return h, nil
	}
	h.release()
	return nil, unread(ctx, err, limits)
}

// steady reads a body whose sender pauses for bodyIdle at most, and not beyond
// the life of a context: who stops sending must not hold the request for ever.
type steady struct {
	ctx     context.Context
	body    io.Reader
	control *http.ResponseController
	unwatch func() bool
}

func newSteady(ctx context.Context, w http.ResponseWriter, body io.Reader) *steady {
	s := &steady{ctx: ctx, body: body, control: http.NewResponseController(w)}
	s.unwatch = context.AfterFunc(ctx, s.end)
	return s
}

// Read reads what has come, or waits for more.
func (s *steady) Read(p []byte) (int, error) {
	_ = s.control.SetReadDeadline(time.Now().Add(bodyIdle))
	if s.ctx.Err() != nil {
		s.end() // the deadline just set may have hidden that
	}
	return s.body.Read(p)
}

// longAgo is a deadline that ends a read at once.
var longAgo = time.Unix(1, 0)

func (s *steady) end() { _ = s.control.SetReadDeadline(longAgo) }

// rest takes the deadline off a connection whose body was read: it goes on to
// tell whether the client has left.
func (s *steady) rest() {
	s.stop()
	_ = s.control.SetReadDeadline(time.Time{})
}

// stop ends the watch over the context. It may be called twice.
func (s *steady) stop() { s.unwatch() }

// unread says what a client is told about a body that was not read.
func unread(ctx context.Context, err error, limits Limits) error {
	var tooLarge *http.MaxBytesError
	var told *fault
	switch {
	case errors.As(err, &told):
		return told
	case errors.As(err, &tooLarge):
		return bodyTooLarge(limits.MaxBody)
	case errors.Is(context.Cause(ctx), llm.ErrShutdown):
		return shuttingDown()
	default:
		return bodyUnreadable()
	}
}

// fill reads to the end. The room doubles as the bytes come, up to the length
// that was announced.
func (h *held) fill(body io.Reader, announced, limit int64) error {
	room := int64(firstRead)
	if announced >= 0 {
		room = min(announced, mostAnnounced)
	}
	if err := h.grow(room, limit); err != nil {
		return err
	}
	for {
		if len(h.bytes) == cap(h.bytes) {
			if int64(len(h.bytes)) == announced {
				return nil
			}
			more := int64(cap(h.bytes))
			if announced >= 0 {
				more = min(more, announced-more)
			}
			if err := h.grow(more, limit); err != nil {
				return err
			}
		}
		n, err := body.Read(h.bytes[len(h.bytes):cap(h.bytes)])
		h.bytes = h.bytes[:len(h.bytes)+n]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// grow makes room for more bytes, if all requests together may hold them.
func (h *held) grow(more, limit int64) error {
	if h.from.held.Add(more) > limit {
		h.from.held.Add(-more)
		return tooManyBytes(limit)
	}
	h.taken += more
	grown := make([]byte, len(h.bytes), h.taken)
	copy(grown, h.bytes)
	h.bytes = grown
	return nil
}
