// Package apptest runs the whole gateway in a test: real listeners, a real
// Postgres, and upstream models that are scripted byte by byte.
package apptest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Upstream is a model server that answers as a test scripts it.
type Upstream struct {
	URL string // ends in /v1

	mu       sync.Mutex
	script   Script
	requests []Request
	aborted  int
}

// Request is one request that an upstream received.
type Request struct {
	At     time.Time
	Path   string
	Query  string
	Header http.Header
	Body   string
}

// Script answers the n-th request (from 1) of an upstream.
type Script func(w http.ResponseWriter, r *http.Request, n int)

// NewUpstream starts a model server; it stops with the test.
func NewUpstream(t testing.TB, script Script) *Upstream {
	t.Helper()
	u := &Upstream{script: script}
	server := httptest.NewServer(http.HandlerFunc(u.serve))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	u.URL = server.URL + "/v1"
	return u
}

func (u *Upstream) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	u.mu.Lock()
	u.requests = append(u.requests, Request{At: time.Now(), Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone(), Body: string(body)})
	n, script := len(u.requests), u.script
	u.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body)) // for scripts that answer by it

	script(w, r, n)
	if r.Context().Err() != nil {
		u.mu.Lock()
		u.aborted++
		u.mu.Unlock()
	}
}

// SetScript changes how the next requests are answered.
func (u *Upstream) SetScript(script Script) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.script = script
}

// Calls returns how many requests have come in.
func (u *Upstream) Calls() int { return len(u.Requests()) }

// Aborted returns how many requests the gateway gave up before their answer
// was complete.
func (u *Upstream) Aborted() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.aborted
}

// Requests returns a copy of everything received so far.
func (u *Upstream) Requests() []Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]Request(nil), u.requests...)
}

// OKBody is the answer of a healthy model: content "ok", 10 prompt and 2
// completion tokens.
const OKBody = `{"id":"c1","object":"chat.completion","created":1,"model":"m1","choices":[{"index":0,"message":{"role":"assistant","content":"ok","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}`

// OK answers every request with OKBody.
func OK() Script { return JSON(http.StatusOK, OKBody) }

// JSON answers with a status, a JSON body and header pairs.
func JSON(status int, body string, headers ...string) Script {
	return Body(status, "application/json", body, headers...)
}

// Body answers with a status, a content type, a body and header pairs.
func Body(status int, contentType, body string, headers ...string) Script {
	return func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", contentType)
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// Status answers with an OpenAI error of that status and header pairs.
func Status(status int, headers ...string) Script {
	body := fmt.Sprintf(`{"error":{"message":"scripted %d","type":"scripted_error","param":null,"code":null}}`, status)
	return JSON(status, body, headers...)
}

// Sequence answers the first request with the first script and so on; the last
// one goes on for ever.
func Sequence(scripts ...Script) Script {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		scripts[min(n, len(scripts))-1](w, r, n)
	}
}

// After waits before it answers, unless the gateway gives up first.
func After(delay time.Duration, script Script) Script {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		if pause(r, delay) {
			script(w, r, n)
		}
	}
}

// Held waits until release is closed before it answers, unless the gateway
// gives up first.
func Held(release <-chan struct{}, script Script) Script {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		select {
		case <-release:
			script(w, r, n)
		case <-r.Context().Done():
		}
	}
}

// Then answers with the one script and goes on with the other, unless the gateway
// has given up.
func Then(first, second Script) Script {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		if first(w, r, n); r.Context().Err() == nil {
			second(w, r, n)
		}
	}
}

// When answers with the first script a request whose body holds text, and with
// the second any other.
func When(text string, script, otherwise Script) Script {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body)) // for scripts within
		if err == nil && strings.Contains(string(body), text) {
			script(w, r, n)
			return
		}
		otherwise(w, r, n)
	}
}

// Hang never answers.
func Hang() Script {
	return func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() }
}

// Reset reads the request and resets the connection without an answer.
func Reset() Script {
	return func(w http.ResponseWriter, _ *http.Request, _ int) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}

// Stream answers 200 text/event-stream and writes the parts one by one, each
// with a flush. A part that is a time.Duration is a pause, a string is written
// as it is.
func Stream(parts ...any) Script {
	return func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w)
		for _, part := range parts {
			switch part := part.(type) {
			case time.Duration:
				if !pause(r, part) {
					return
				}
			case string:
				_, _ = io.WriteString(w, part)
				flush(w)
			default:
				panic(fmt.Sprintf("apptest.Stream: a part is %T, want string or time.Duration", part))
			}
		}
	}
}

// Chunk is one streamed delta with text.
func Chunk(content string) string {
	return fmt.Sprintf("data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":null}]}\n\n", content)
}

// Parts of a stream that a healthy model sends around its content.
const (
	RoleChunk   = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n"
	FinishChunk = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
	UsageChunk  = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m1\",\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":2,\"total_tokens\":12}}\n\n"
	Done        = "data: [DONE]\n\n"
)

// OKStream is a healthy model's stream of "ok".
func OKStream() Script {
	return Stream(RoleChunk, Chunk("ok"), FinishChunk, UsageChunk, Done)
}

func flush(w http.ResponseWriter) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

// pause waits and reports false when the gateway gave up meanwhile.
func pause(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}
