package api

import (
	"context"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// clocks bound the life of one call. Its context ends with the cause that tells
// why: the client left, its own limit, request_timeout until the answer or the
// commit of a stream, max_stream after it, or the end of draining. A call that is
// detached from its client outlives the first two.
type clocks struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	received time.Time
	limits   Limits
	caller   time.Duration // X-Breakwater-Timeout; 0 = none

	// writing is held while the answer is written: the server ends the
	// request's context when a write fails, and only the writer knows whether
	// the client left or read too slowly.
	writing sync.Mutex

	stopWatch func() bool // the watch for the client's leaving
	whole     *time.Timer // request_timeout, then max_stream
	callers   *time.Timer // nil without a limit of the caller's

	leaving sync.Mutex
	left    chan struct{} // closed when the client of a detached call has left; nil while it is attached
	why     error
}

// startClocks starts the clocks of a request received at a time.
func startClocks(request context.Context, received time.Time, limits Limits, caller time.Duration) *clocks {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(request))
	k := &clocks{ctx: ctx, cancel: cancel, received: received, limits: limits, caller: caller}
	k.stopWatch = context.AfterFunc(request, k.clientLeft)
	k.whole = k.endAfter(limits.RequestTimeout, llm.ErrRequestTimeout)
	if caller > 0 {
		k.callers = time.AfterFunc(time.Until(received.Add(caller)), func() { k.leave(llm.ErrCallerTimeout) })
	}
	return k
}

// detach lets the call go on without its client from here on: a client that lost
// its connection comes back for the answer. What it returns tells that it has
// left.
func (k *clocks) detach() *llm.Departure {
	k.leaving.Lock()
	defer k.leaving.Unlock()
	k.left, k.caller = make(chan struct{}), 0
	return &llm.Departure{Done: k.left, Cause: k.cause}
}

func (k *clocks) cause() error {
	k.leaving.Lock()
	defer k.leaving.Unlock()
	return k.why
}

// leave says that nobody waits for the answer any more, which ends the call
// unless it is detached. The first cause is kept.
func (k *clocks) leave(cause error) {
	k.leaving.Lock()
	defer k.leaving.Unlock()
	switch {
	case k.left == nil:
		k.cancel(cause)
	case k.why == nil:
		k.why = cause
		close(k.left)
	}
}

// deadline is when request_timeout or the caller's own limit ends the call.
func (k *clocks) deadline() time.Time {
	limit := k.limits.RequestTimeout
	if k.caller > 0 {
		limit = min(limit, k.caller)
	}
	return k.received.Add(limit)
}

// commit exchanges request_timeout for max_stream. Returns the cause when the
// call has ended already: then nothing may be sent.
func (k *clocks) commit() error {
	k.whole.Stop()
	k.whole = k.endAfter(k.limits.MaxStream, llm.ErrMaxStream)
	return context.Cause(k.ctx)
}

// stop ends the clocks with the request.
func (k *clocks) stop() {
	k.stopWatch()
	k.whole.Stop()
	if k.callers != nil {
		k.callers.Stop()
	}
	k.cancel(nil)
}

func (k *clocks) endAfter(limit time.Duration, cause error) *time.Timer {
	return time.AfterFunc(time.Until(k.received.Add(limit)), func() { k.cancel(cause) })
}

func (k *clocks) clientLeft() {
	k.writing.Lock()
	defer k.writing.Unlock()
	k.leave(llm.ErrClientLeft)
}
