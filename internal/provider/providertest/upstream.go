package providertest

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Upstream is a scripted server that keeps what it was sent.
type Upstream struct {
	URL string

	mu       sync.Mutex
	requests []Request
}

// Request is one request as it arrived.
type Request struct {
	*http.Request
	Sent string // the body
}

// Serve starts an upstream whose every request is answered by handler. The
// body has been read when handler runs and is given to it again.
func Serve(t testing.TB, handler http.HandlerFunc) *Upstream {
	t.Helper()
	u := &Upstream{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the caller has gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		u.mu.Lock()
		u.requests = append(u.requests, Request{Request: r, Sent: string(body)})
		u.mu.Unlock()
		handler(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	u.URL = server.URL
	return u
}

// Requests returns what has arrived so far.
func (u *Upstream) Requests() []Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]Request(nil), u.requests...)
}

// Reset drops the connection with a RST, as a crashed server does.
func Reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err) // the server under test always allows it
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // the close below is all that matters
	}
	_ = conn.Close()
}

// Hang waits until the caller has gone.
func Hang(r *http.Request) { <-r.Context().Done() }

// Write sends pieces of a body, each in a network write of its own.
func Write(w http.ResponseWriter, pieces ...string) {
	for _, p := range pieces {
		_, _ = io.WriteString(w, p) // a caller that has gone ends the test elsewhere
		_ = http.NewResponseController(w).Flush()
	}
}

// Stream answers with an event stream.
func Stream(w http.ResponseWriter, pieces ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	Write(w, pieces...)
}

// JSON answers with a JSON body.
func JSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // as above
}

// Abort cuts the answer off in the middle.
func Abort() { panic(http.ErrAbortHandler) }
