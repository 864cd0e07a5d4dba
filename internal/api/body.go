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

// firstRead is how much room a body of unannounced length gets at first.
const firstRead = 8 << 10

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
	// A client that stops sending must not hold the call beyond its end.
	defer context.AfterFunc(ctx, func() {
		_ = http.NewResponseController(w).SetReadDeadline(longAgo)
	})()

	h := &held{from: b}
	err := h.fill(http.MaxBytesReader(w, r.Body, limits.MaxBody), r.ContentLength, limits.MaxInflightBytes)
	if err == nil {
		return h, nil
	}
	h.release()
	return nil, unread(ctx, err, limits)
}

// longAgo is a deadline that ends a read at once.
var longAgo = time.Unix(1, 0)

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

// fill reads to the end. An announced length gets its room at once; without one
// the room doubles as the bytes come.
func (h *held) fill(body io.Reader, announced, limit int64) error {
	room := announced
	if announced < 0 {
		room = firstRead
	}
	if err := h.grow(room, limit); err != nil {
		return err
	}
	for {
		if len(h.bytes) == cap(h.bytes) {
			if int64(len(h.bytes)) == announced {
				return nil
			}
			if err := h.grow(int64(cap(h.bytes)), limit); err != nil {
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
