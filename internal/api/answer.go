package api

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

// answer is the client's end of one call. Nothing is sent before the first
// event of a stream or the whole answer, so that a failure until then can still
// have its own status. It belongs to the goroutine that runs the call.
type answer struct {
	w       *echo.Response
	control *http.ResponseController
	clocks  *clocks
	call    *llm.Call

	committed bool // part of a stream was sent: an error is an event from now on
	dirty     bool // written since the last flush
	lost      error
}

func newAnswer(w *echo.Response, k *clocks, call *llm.Call) *answer {
	return &answer{w: w, control: controlOf(w), clocks: k, call: call}
}

// emit sends one event of a stream, flushing when no other is in hand already.
// Returns why the call must end when the client cannot be reached in time.
func (a *answer) emit(e llm.Event) error {
	if a.lost != nil {
		return a.lost
	}
	if !a.committed {
		if err := a.commit(); err != nil {
			return err
		}
	}
	if cause := context.Cause(a.clocks.ctx); cause != nil {
		return cause
	}
	return a.send(e.Raw, !e.More)
}

// commit sends the headers of a stream, unless the call has ended by then.
func (a *answer) commit() error {
	if err := a.clocks.commit(); err != nil {
		return err
	}
	a.committed = true
	header := a.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no") // proxies that buffer would hold the stream back
	sayServed(header, a.call.Signals.Reached(), a.inHand())
	return nil
}

// inHand is the target whose stream is being sent.
func (a *answer) inHand() llm.Target {
	if len(a.call.Signals.Attempts) == 0 {
		return llm.Target{}
	}
	return a.call.Signals.Attempt().Target
}

// send writes to the client within write_timeout per flush. The first failure
// is final and ends the call with its cause.
func (a *answer) send(raw []byte, flush bool) error {
	a.clocks.writing.Lock()
	defer a.clocks.writing.Unlock()
	if err := a.write(raw, flush); err != nil {
		a.lost = lostBecause(err)
		a.clocks.cancel(a.lost)
	}
	return a.lost
}

func (a *answer) write(raw []byte, flush bool) error {
	if len(raw) > 0 {
		if !a.dirty {
			// Without support for deadlines a write cannot time out, which the
			// server of the gateway always has.
			_ = a.control.SetWriteDeadline(time.Now().Add(a.clocks.limits.WriteTimeout))
			a.dirty = true
		}
		if _, err := a.w.Write(raw); err != nil {
			return err
		}
	}
	if !flush || !a.dirty {
		return nil
	}
	a.dirty = false
	return a.control.Flush()
}

func lostBecause(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return llm.ErrSlowReader
	}
	return llm.ErrClientLeft
}

// finish flushes what the last event left behind.
func (a *answer) finish() { _ = a.send(nil, true) }

// cut ends a committed stream with one error event and without the dialect's
// end mark, so that it cannot be taken for a whole answer.
func (a *answer) cut(err error) {
	if a.lost != nil {
		return
	}
	_ = a.send(openai.AppendErrorEvent(nil, openai.Error{
		Message: describeCut(err), Type: "server_error", Code: "upstream_stream_failed",
	}), true)
}

// statusOf says which status the client gets for an error; the status of a
// stream was sent at its first byte.
func (a *answer) statusOf(err error) int {
	if a.committed {
		return http.StatusOK
	}
	return statusOf(err)
}
