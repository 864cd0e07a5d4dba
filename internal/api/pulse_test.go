package api_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

const (
	ping       = ": ping\n"
	streamBody = `{"model":"chat","stream":true,"messages":[]}`
)

// keepingAlive is a snapshot's limits with a stream_keepalive and a
// stream_commit_after.
func keepingAlive(every, commitAfter time.Duration) func(*api.Snapshot) {
	return func(s *api.Snapshot) {
		s.Limits.StreamKeepalive, s.Limits.StreamCommitAfter = every, commitAfter
	}
}

// paced returns a handler that does its parts in order: a duration is silence of
// the upstream, a string is one event, an error the end.
func paced(parts ...any) api.Handler {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		reach(call, targetA)
		for _, part := range parts {
			switch part := part.(type) {
			case time.Duration:
				select {
				case <-time.After(part):
				case <-ctx.Done():
					return nil, llm.Cancelled(ctx, targetA)
				}
			case string:
				if err := emit(llm.Event{Raw: []byte(part), Kind: llm.EventContent}); err != nil {
					return nil, err
				}
			case error:
				return nil, part
			}
		}
		return &llm.Result{Target: targetA, Streamed: true}, nil
	}
}

func TestASilentStreamIsKeptAlive(t *testing.T) {
	t.Parallel()
	const every = 15 * time.Second
	tests := map[string]struct {
		every  time.Duration
		handle api.Handler
		want   string
	}{
		"SSE-05 one line per interval, no blank line": {every, paced(hel, 50*time.Second, lo, done), hel + ping + ping + ping + lo + done},
		"silence begins with the last event":          {every, paced(hel, 10*time.Second, lo, 14*time.Second, done), hel + lo + done},
		"and with the last ping":                      {every, paced(hel, 29*time.Second, lo, done), hel + ping + lo + done},
		"before the error event too":                  {every, paced(hel, 20*time.Second, failure(llm.ClassConnection, llm.ReasonTruncated)), hel + ping + "data: {"},
		"never before the first event":                {every, paced(time.Minute, hel, done), hel + done},
		"never when it is off":                        {0, paced(hel, time.Hour/2, done), hel + done},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				got := setup(t, tt.handle, keepingAlive(tt.every, 0)).chat(t, nil)
				if !strings.HasPrefix(got.body, tt.want) || strings.Count(got.body, ping) != strings.Count(tt.want, ping) {
					t.Errorf("stream:\n%s\nwant:\n%s", got.body, tt.want)
				}
			})
		})
	}
}

// Pings and events come from different goroutines; whatever the timing, no ping
// stands inside an event.
func TestAPingNeverStandsInsideAnEvent(t *testing.T) {
	t.Parallel()
	const event = "event: x\ndata: {\"a\":1,\ndata: \"b\":2}\n\n"
	parts := make([]any, 3000)
	for i := range parts {
		parts[i] = event
		if i%3 == 0 {
			parts[i] = 50 * time.Microsecond
		}
	}
	got := setup(t, paced(parts...), keepingAlive(time.Nanosecond, 0)).chat(t, nil)
	pings := 0
	for rest := got.body; rest != ""; {
		after, isPing := strings.CutPrefix(rest, ping)
		if !isPing {
			var whole bool
			if after, whole = strings.CutPrefix(rest, event); !whole {
				t.Fatalf("neither a ping nor an event: %.80q", rest)
			}
		} else {
			pings++
		}
		rest = after
	}
	if pings == 0 {
		t.Error("no ping was sent")
	}
}

func TestAPingThatCannotBeWrittenEndsTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		causes := make(chan error, 1)
		g := setup(t, func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
			reach(call, targetA)
			if err := emit(llm.Event{Raw: []byte(hel)}); err != nil {
				return nil, err
			}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil, llm.Cancelled(ctx, targetA)
		}, keepingAlive(15*time.Second, 0))
		resp := g.start(t, t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(streamBody), nil)
		defer func() { _ = resp.Body.Close() }()
		began := time.Now()
		if cause := <-causes; cause != llm.ErrSlowReader {
			t.Errorf("ended by %v, want %v", cause, llm.ErrSlowReader)
		}
		// The client took the headers and nothing else: its first flush ends it.
		if took := time.Since(began); took > 45*time.Second {
			t.Errorf("ended after %v, want a ping and write_timeout at most", took)
		}
	})
}

func TestHeadersMayGoBeforeTheFirstContent(t *testing.T) {
	t.Parallel()
	const after = 20 * time.Second
	tests := map[string]struct {
		handle api.Handler
		status int
		served string // X-Breakwater-Attempts and Target
		body   string // a prefix
	}{
		"content in time": {paced(19*time.Second, hel, done), 200, "1 alpha/m1/r1", hel + done},
		"content later":   {paced(60*time.Second, hel, done), 200, " ", ping + ping + hel + done},
		"a failure in time is an ordinary error": {
			paced(19*time.Second, failure(llm.ClassRateLimit, llm.ReasonRateLimited, status(429))), 429, "1 ", `{"error":{"message":"Every target`},
		"a failure later is an event": {
			paced(60*time.Second, failure(llm.ClassRateLimit, llm.ReasonRateLimited, status(429))), 200, " ", ping + ping + `data: {"error":{"message":"Every target`},
		"a refusal of the request later is an event": {
			paced(60*time.Second, failure(llm.ClassClientError, llm.ReasonInvalidRequest, status(400))), 200, " ", ping + ping + `data: {"error":{"message":"alpha/m1/r1 refused`},
		"a pipeline that returns nothing is an event, too": {
			paced(60 * time.Second), 200, " ", ping + ping + `data: {"error":{"message":"The gateway failed`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				recorded := make(chan int, 1)
				g := setup(t, func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
					result, err := tt.handle(ctx, call, emit)
					recorded <- call.StatusOf(err)
					return result, err
				}, keepingAlive(15*time.Second, after))
				got := g.do(t, http.MethodPost, "/v1/chat/completions", streamBody, nil)

				served := got.header.Get("X-Breakwater-Attempts") + " " + got.header.Get("X-Breakwater-Target")
				if got.status != tt.status || served != tt.served || !strings.HasPrefix(got.body, tt.body) {
					t.Errorf("status %d, served %q, body:\n%s\nwant %d, %q, beginning with:\n%s", got.status, served, got.body, tt.status, tt.served, tt.body)
				}
				if told := <-recorded; told != tt.status {
					t.Errorf("recorded %d, answered %d", told, tt.status)
				}
				if strings.Contains(got.body, "error") && strings.Contains(got.body, "[DONE]") {
					t.Errorf("a failure ends as a whole answer: %s", got.body)
				}
			})
		})
	}
}

// What is asked for as a whole has its headers with its body, however long it
// takes; so has a stream whose headers are early, but nothing can be sent then.
func TestEarlyHeadersAreForStreamsOnly(t *testing.T) {
	t.Parallel()
	slow := func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		<-time.After(time.Minute)
		return answering("{}")(ctx, call, emit)
	}
	synctest.Test(t, func(t *testing.T) {
		g := setup(t, slow, keepingAlive(15*time.Second, 20*time.Second))
		if got := g.chat(t, nil); got.status != 200 || got.body != "{}" || got.header.Get("X-Breakwater-Attempts") != "1" {
			t.Errorf("status %d, body %s, header %v", got.status, got.body, got.header)
		}
		got := g.do(t, http.MethodPost, "/v1/chat/completions", streamBody, nil)
		if problem := problemOf(t, strings.TrimPrefix(strings.TrimPrefix(got.body, ping+ping), "data: ")); problem.code() != "upstream_stream_failed" {
			t.Errorf("a whole answer after the headers of a stream: %s", got.body)
		}
	})
}

// The headers arrive when they are sent, not with the first content.
func TestEarlyHeadersAreFlushed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := setup(t, paced(time.Minute, hel, done), keepingAlive(0, 20*time.Second))
		began := time.Now()
		resp := g.start(t, t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(streamBody), nil)
		defer func() { _ = resp.Body.Close() }()
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("headers after %v, want 20s", took)
		}
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != hel+done {
			t.Errorf("stream %q, %v", body, err)
		}
	})
}
