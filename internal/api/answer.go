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
// have its own status; only stream_commit_after gives that up. The goroutine
// that runs the call sends the answer, and a pulse keeps a silent stream alive.
type answer struct {
	w       *echo.Response
	control *http.ResponseController
	clocks  *clocks
	call    *llm.Call

	// For the call's goroutine.
	committed bool // part of a stream was sent
	delivered bool // all of the answer was sent, or as much as the client took

	// Guarded by clocks.writing.
	begun   bool      // the headers of a stream are fixed: an error is an event from now on
	dirty   bool      // written since the last flush
	wrote   time.Time // when that was begun last
	lost    error     // why the client cannot be reached any more
	pulse   *time.Timer
	settled bool // the pulse is over
}

func newAnswer(w *echo.Response, k *clocks, call *llm.Call) *answer {
	a := &answer{w: w, control: controlOf(w), clocks: k, call: call}
	if call.Facts.Stream && k.limits.StreamCommitAfter > 0 {
		a.startPulse(time.Until(k.received.Add(k.limits.StreamCommitAfter)))
	}
	return a
}

// emit sends one event of a stream, flushing when no other is in hand already.
// Returns why the call must end when the client cannot be reached in time.
func (a *answer) emit(e llm.Event) error {
	if !a.committed {
		if err := a.commit(); err != nil {
			return err
		}
	}
	if cause := context.Cause(a.clocks.ctx); cause != nil {
		return cause
	}
	return a.missed(a.send(e.Raw, !e.More))
}

// missed is why the call must end when a part of its answer did not reach the
// client: not at all while the call goes on without it.
func (a *answer) missed(lost error) error {
	if a.call.Left != nil {
		return nil
	}
	return lost
}

// commit settles that this stream is the answer, unless the call has ended by
// then. Its headers name the target if they have not gone before.
func (a *answer) commit() error {
	if err := a.clocks.commit(); err != nil {
		return err
	}
	a.committed = true
	a.clocks.writing.Lock()
	defer a.clocks.writing.Unlock()
	if !a.begun {
		sayServed(a.w.Header(), a.call.Signals.Reached(), a.call.Signals.InHand())
		sayRateLimits(a.w.Header(), a.call.Signals.Standings)
		sayCache(a.w.Header(), a.call.Signals.CacheResult)
		sayDegraded(a.w.Header(), a.call.Signals.Degraded)
		sayReplayed(a.w.Header(), a.call.Signals)
		a.begin()
	}
	return nil
}

// begin fixes the headers of a stream; they go out with its first bytes. The
// caller holds clocks.writing.
func (a *answer) begin() {
	a.begun = true
	header := a.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no") // proxies that buffer would hold the stream back
	a.keepAlive()
}

// send writes to the client within write_timeout per flush. The first failure
// is final: its client has left.
func (a *answer) send(raw []byte, flush bool) error {
	a.clocks.writing.Lock()
	defer a.clocks.writing.Unlock()
	if a.lost == nil {
		a.lose(a.write(raw, flush))
	}
	return a.lost
}

// lose gives the client up when a write failed. The caller holds clocks.writing.
func (a *answer) lose(err error) {
	if err != nil {
		a.lost = lostBecause(err)
		a.clocks.leave(a.lost)
	}
}

func (a *answer) write(raw []byte, flush bool) error {
	if len(raw) > 0 {
		a.beginWrite()
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

// beginWrite starts write_timeout for all that is written until the next flush.
// Without support for deadlines a write cannot time out, which the server of
// the gateway always has.
func (a *answer) beginWrite() {
	if a.dirty {
		return
	}
	a.dirty, a.wrote = true, time.Now()
	_ = a.control.SetWriteDeadline(a.wrote.Add(a.clocks.limits.WriteTimeout))
}

func lostBecause(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return llm.ErrSlowReader
	}
	return llm.ErrClientLeft
}

// deliver sends what a call that has succeeded owes its client still: a whole
// answer, or what the last event of a stream left behind. Returns the failure of
// a client that cannot be reached, so that it is recorded as what it is. Nothing
// is sent twice, and nothing of what is no answer.
func (a *answer) deliver(result *llm.Result) error {
	a.settle()
	switch {
	case a.delivered:
		return nil
	case a.committed:
		a.delivered = true
		return a.undelivered(a.missed(a.send(nil, true)))
	case a.begun || result == nil || result.Body == nil:
		return nil
	}
	if err := a.clocks.commit(); err != nil {
		return a.undelivered(err)
	}
	a.delivered = true
	return a.undelivered(a.sendAnswer(result))
}

// sendAnswer sends a whole answer. Returns why the call has ended before it was
// sent.
func (a *answer) sendAnswer(result *llm.Result) error {
	a.clocks.writing.Lock()
	defer a.clocks.writing.Unlock()
	sayServed(a.w.Header(), a.call.Signals.Reached(), result.Target)
	sayRateLimits(a.w.Header(), a.call.Signals.Standings)
	sayCache(a.w.Header(), a.call.Signals.CacheResult)
	sayReplayed(a.w.Header(), a.call.Signals)
	body := result.Body
	if d := a.call.Signals.Degraded; d != "" {
		sayDegraded(a.w.Header(), d)
		body = openai.MarkDegraded(body)
	}
	err := sendWhole(a.clocks.ctx, a.w, a.clocks.limits.WriteTimeout, http.StatusOK, contentTypeOf(result), body)
	if err == nil {
		return nil
	}
	if cause := context.Cause(a.clocks.ctx); cause != nil {
		return cause
	}
	a.lose(err)
	return a.missed(a.lost)
}

// undelivered is the failure of a call whose client was not reached, or nil.
func (a *answer) undelivered(cause error) error {
	if cause == nil {
		return nil
	}
	return &llm.Failure{Class: llm.ClassCancelled, Reason: llm.CancelReason(cause), Target: a.call.Signals.InHand(), Err: cause}
}

// cut ends a stream with one error event and without the dialect's end mark, so
// that it cannot be taken for a whole answer.
func (a *answer) cut(message string) {
	_ = a.send(openai.AppendErrorEvent(nil, openai.Error{
		Message: message, Type: "server_error", Code: "upstream_stream_failed",
	}), true)
}

// statusOf says which status the client gets for an error; that of an answer
// which has begun went with its headers. Who asks has to be told the truth, so it is
// settled from here on.
func (a *answer) statusOf(err error) int {
	a.settle()
	if a.begun || a.delivered {
		return http.StatusOK
	}
	return statusOf(err)
}
