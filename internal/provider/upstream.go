package provider

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

const (
	// drainTime and drainBytes bound what is read after the end of a stream so
	// that its connection can serve the next call.
	drainTime  = 100 * time.Millisecond
	drainBytes = 4 << 10
)

// Upstream is the HTTP end of one provider: its transport, its clocks, and the
// secrets that must not come back.
type Upstream struct {
	transport http.RoundTripper
	fresh     http.RoundTripper // takes up no connection again; nil = transport keeps none
	timeouts  llm.Timeouts
	secrets   []string

	mu     sync.Mutex
	closed bool
	drains sync.WaitGroup
}

// NewUpstream returns the HTTP end of a provider. The timeouts hold where a
// call does not set its own; the secrets are kept out of all that is passed on.
func NewUpstream(transport http.RoundTripper, timeouts llm.Timeouts, secrets []string) *Upstream {
	return &Upstream{transport: transport, fresh: unshared(transport), timeouts: timeouts, secrets: longestFirst(secrets)}
}

// Begin starts the clocks of one attempt. The caller must End it.
func (u *Upstream) Begin(parent context.Context, call *llm.Call) *Exchange {
	x := &Exchange{
		upstream: u,
		parent:   parent,
		target:   call.Target,
		timeouts: call.Timeouts.Or(u.timeouts),
		stream:   call.Facts.Stream,
		began:    time.Now(),
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	x.cancel = cancel
	x.detach = context.AfterFunc(parent, func() { cancel(context.Cause(parent)) })
	x.clock = newClock(cancel)
	x.ctx = x.trace(ctx)
	x.connecting()
	return x
}

// Close waits for the streams that are being drained and closes idle
// connections.
func (u *Upstream) Close() {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	u.drains.Wait()
	if t, ok := u.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// drain reads the little that may follow the end of a stream, in the
// background and for a moment only, and then lets go. Without it every stream
// would cost its connection; with it nobody waits for an upstream that keeps
// its connection open.
func (u *Upstream) drain(body io.ReadCloser, release func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		release()
		return
	}
	u.drains.Go(func() {
		defer release()
		_, _ = io.CopyN(io.Discard, body, drainBytes) // its outcome changes nothing
	})
}
