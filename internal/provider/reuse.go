package provider

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// staleWithin is how soon after it was taken up again a connection must break
// to count as one that its server had closed before. The news needs no longer
// than a packet's way back; a server that breaks it later was at work.
const staleWithin = 2 * time.Second

// connection is what the transport tells of the connection a send goes out on.
type connection struct {
	mu    sync.Mutex
	kept  net.Conn  // nil unless it has served a request before
	taken time.Time // when it was taken up again
	heard bool      // the upstream has begun to answer
}

func (c *connection) got(info httptrace.GotConnInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept, c.heard = nil, false
	if info.Reused {
		c.kept, c.taken = info.Conn, time.Now()
	}
}

func (c *connection) hear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = true
}

// stale reports whether a connection that has just broken may have been closed
// by its server before the request came. Over HTTP/2 the server itself says
// which requests it has not taken, and net/http sends those again.
func (c *connection) stale(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept != nil && !c.heard && now.Sub(c.taken) < staleWithin && !speaksHTTP2(c.kept)
}

func speaksHTTP2(conn net.Conn) bool {
	secure, ok := conn.(*tls.Conn)
	return ok && secure.ConnectionState().NegotiatedProtocol == "h2"
}

// stale reports whether a send failed for no other reason than that its
// connection had been closed while nobody used it.
func (x *Exchange) stale(err error) bool {
	if x.upstream.fresh == nil || x.Ended() || x.parent.Err() != nil || !x.conn.stale(time.Now()) {
		return false
	}
	_, reason := nameFault(err)
	return reason == llm.ReasonReset || reason == llm.ReasonTruncated
}

// again sends a request anew, on a connection that has served no other, under
// the clocks that are running.
func (x *Exchange) again(req *http.Request) (*http.Response, error) {
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	req = req.WithContext(x.ctx)
	req.Body = body
	x.sent.Store(false)
	x.connecting()
	return x.upstream.fresh.RoundTrip(req)
}

// unshared returns a transport like another that uses each connection once, or
// nil for a transport that keeps none.
func unshared(transport http.RoundTripper) http.RoundTripper {
	shared, ok := transport.(*http.Transport)
	if !ok {
		return nil
	}
	fresh := shared.Clone()
	fresh.DisableKeepAlives = true
	return fresh
}
