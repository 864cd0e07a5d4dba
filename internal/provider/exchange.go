package provider

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Exchange is one request to an upstream and its response, under the clocks of
// one attempt. It is used by one goroutine.
type Exchange struct {
	upstream *Upstream
	parent   context.Context // what the call was given; ends for its reasons
	target   llm.Target
	timeouts llm.Timeouts
	stream   bool
	began    time.Time

	ctx    context.Context // ends with the parent or by one of our clocks
	cancel context.CancelCauseFunc
	detach func() bool // stops the parent's end from ending ctx
	clock  *clock
	conn   connection
	sent   atomic.Bool // the request has been written, if only in part

	resp  *http.Response
	spare func() bool // stops the end of ctx from closing the body
	body  io.Reader   // decoded
	idle  bool        // the idle clock watches reads
	drain bool        // the body has ended but for a few bytes
	first time.Duration
}

// trace learns from the transport when a connection is there, when the request
// goes out and when an answer begins.
func (x *Exchange) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              x.connected,
		WroteHeaders:         func() { x.sent.Store(true) },
		GotFirstResponseByte: x.conn.hear,
	})
}

// budget is the clock that bounds the attempt until its first content, or as a
// whole when it is no stream.
func (x *Exchange) budget() timeoutError {
	if x.stream {
		return timeoutError{llm.ReasonFirstTokenTimeout, x.timeouts.FirstToken}
	}
	return timeoutError{llm.ReasonTotalTimeout, x.timeouts.Total}
}

func (x *Exchange) connecting() {
	limit := timeoutError{llm.ReasonConnectTimeout, x.timeouts.Connect}
	left := limit.after
	b := x.budget()
	if rest := b.after - time.Since(x.began); limit.after == 0 || b.after > 0 && rest < limit.after {
		limit, left = b, rest
	}
	x.clock.arm(left, limit)
}

func (x *Exchange) connected(info httptrace.GotConnInfo) {
	x.conn.got(info)
	limit := x.budget()
	x.clock.arm(limit.after-time.Since(x.began), limit)
}

// Do sends the request, whose GetBody must return its body anew: where it met
// only a connection that the server had closed, it goes out once more. The
// error is an *llm.Failure.
func (x *Exchange) Do(req *http.Request) (*http.Response, error) {
	if x.parent.Err() != nil {
		return nil, x.Failure(context.Cause(x.parent))
	}
	resp, err := x.upstream.transport.RoundTrip(req.WithContext(x.ctx))
	if err != nil && x.stale(err) {
		resp, err = x.again(req)
	}
	if err != nil {
		return nil, x.Failure(err)
	}
	x.take(resp)
	return resp, nil
}

// take binds the body of a response to the attempt: its end closes the body,
// so that no read outlasts it, whoever stands behind the body. A switch to a
// protocol that nobody asked for has none: what net/http hands over is the bare
// connection, which would stay open for as long as the upstream likes.
func (x *Exchange) take(resp *http.Response) {
	if resp.StatusCode < http.StatusOK {
		_ = resp.Body.Close() // nothing is written, nothing can be lost
		resp.Body = http.NoBody
	}
	x.resp = resp
	x.body = decoded(resp)
	x.spare = context.AfterFunc(x.ctx, func() { _ = resp.Body.Close() })
}

// Read reads the decoded body of the response. Once the first content has
// come, the idle clock runs during the read, and only then: the time that a
// slow client takes is not the upstream's.
func (x *Exchange) Read(p []byte) (int, error) {
	if !x.idle {
		return x.body.Read(p)
	}
	limit := timeoutError{llm.ReasonIdleTimeout, x.timeouts.Idle}
	x.clock.arm(limit.after, limit)
	n, err := x.body.Read(p)
	x.clock.stop()
	return n, err
}

// errTooLarge says that a body is over its bound.
var errTooLarge = errors.New("the body is too large")

// ReadAll reads the whole body, up to a bound.
func (x *Exchange) ReadAll(bound int64) ([]byte, error) {
	var buf bytes.Buffer
	if n := x.resp.ContentLength; n > 0 && n <= bound {
		buf.Grow(int(n) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(x, bound+1))
	if err == nil && n > bound {
		err = errTooLarge
	}
	return buf.Bytes(), err
}

// FirstContent says that the first content of the stream has come: from here
// on only reads are timed.
func (x *Exchange) FirstContent() {
	if x.idle {
		return
	}
	x.idle = true
	x.first = time.Since(x.began)
	x.clock.stop()
}

// Finished says that the stream has reached its end mark, so that nothing more
// need be read.
func (x *Exchange) Finished() { x.drain = true }

// Result returns what the exchange brought so far.
func (x *Exchange) Result() *llm.Result {
	return &llm.Result{
		Target: x.target, Status: x.resp.StatusCode,
		SentAt: x.began, Latency: time.Since(x.began), FirstToken: x.first,
	}
}

// End lets go of the response. It must be called on every path.
func (x *Exchange) End() {
	x.detach()
	switch {
	case x.resp == nil:
		x.release()
	case x.drain:
		x.clock.arm(drainTime, timeoutError{llm.ReasonIdleTimeout, drainTime})
		x.upstream.drain(x.resp.Body, x.release)
	default:
		x.release()
	}
}

func (x *Exchange) release() {
	x.clock.end()
	if x.resp != nil {
		x.spare()
		_ = x.resp.Body.Close() // as above
	}
	x.cancel(nil)
}

// Ended reports whether a clock or the caller has ended the attempt.
func (x *Exchange) Ended() bool { return x.ctx.Err() != nil }
