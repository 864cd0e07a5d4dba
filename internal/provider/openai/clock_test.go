package openai_test

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/provider/openai"
	"github.com/breakwater-llm/breakwater/internal/provider/providertest"
)

// script is a transport whose answer comes in pieces, each some time after the
// one before. Under synctest that time is exact.
type script struct {
	connect time.Duration
	header  time.Duration
	pieces  []piece
	silent  bool // says nothing after the last piece instead of ending
	kind    string
}

type piece struct {
	after time.Duration
	text  string
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := s.wait(req, s.connect); err != nil {
		return nil, err
	}
	trace := httptrace.ContextClientTrace(req.Context())
	trace.GotConn(httptrace.GotConnInfo{})
	trace.WroteHeaders()
	if err := s.wait(req, s.header); err != nil {
		return nil, err
	}
	kind := s.kind
	if kind == "" {
		kind = "text/event-stream"
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}},
		Body: &scripted{script: s, req: req, pieces: s.pieces}, ContentLength: -1,
	}, nil
}

func (s *script) wait(req *http.Request, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-req.Context().Done():
		return req.Context().Err()
	}
}

type scripted struct {
	script *script
	req    *http.Request
	pieces []piece
}

func (b *scripted) Read(p []byte) (int, error) {
	if len(b.pieces) == 0 {
		if !b.script.silent {
			return 0, io.EOF
		}
		<-b.req.Context().Done()
		return 0, b.req.Context().Err()
	}
	next := b.pieces[0]
	b.pieces = b.pieces[1:]
	if err := b.script.wait(b.req, next.after); err != nil {
		return 0, err
	}
	return copy(p, next.text), nil
}

func (b *scripted) Close() error { return nil }

// every repeats a piece n times, d apart.
func every(d time.Duration, n int, text string) []piece {
	var all []piece
	for range n {
		all = append(all, piece{d, text})
	}
	return all
}

func join(lists ...[]piece) []piece {
	var all []piece
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

const ms = time.Millisecond

func TestClocks(t *testing.T) {
	t.Parallel()
	timeouts := llm.Timeouts{Connect: 100 * ms, FirstToken: 500 * ms, Idle: 300 * ms, Total: 1000 * ms}
	end := []piece{{0, finishEvent + doneEvent}}
	tests := map[string]struct {
		script script
		body   string
		pause  time.Duration // the client takes this long for each event
		reason llm.Reason    // empty = it goes well
		after  time.Duration
	}{
		"idle, not total, bounds a live stream (TRA-05)": {
			script: script{pieces: join(every(100*ms, 30, textEvent("a")), end)},
			body:   providertest.Streamed, after: 3000 * ms,
		},
		"no header in time (TRA-07)": {
			script: script{header: 5 * time.Second},
			body:   providertest.Streamed, reason: llm.ReasonFirstTokenTimeout, after: 500 * ms,
		},
		"pings are no token": {
			script: script{pieces: every(100*ms, 50, ": ping\n\n")},
			body:   providertest.Streamed, reason: llm.ReasonFirstTokenTimeout, after: 500 * ms,
		},
		"a role is no token": {
			script: script{pieces: every(100*ms, 50, roleEvent)},
			body:   providertest.Streamed, reason: llm.ReasonFirstTokenTimeout, after: 500 * ms,
		},
		"silence after the first token": {
			script: script{pieces: []piece{{0, textEvent("a")}}, silent: true},
			body:   providertest.Streamed, reason: llm.ReasonIdleTimeout, after: 300 * ms,
		},
		"pings keep a committed stream alive": {
			script: script{pieces: join([]piece{{0, textEvent("a")}}, every(200*ms, 10, ": ping\n\n"), end)},
			body:   providertest.Streamed, after: 2000 * ms,
		},
		"a slow client is not the upstream's silence": {
			script: script{pieces: join(every(0, 3, textEvent("a")), end)},
			body:   providertest.Streamed, pause: time.Minute, after: 5 * time.Minute,
		},
		"total bounds what is no stream": {
			script: script{kind: "application/json", pieces: every(100*ms, 50, " ")},
			body:   providertest.Plain, reason: llm.ReasonTotalTimeout, after: 1000 * ms,
		},
		"a slow dial": {
			script: script{connect: time.Minute},
			body:   providertest.Streamed, reason: llm.ReasonConnectTimeout, after: 100 * ms,
		},
		"the dial is part of the first token's time": {
			script: script{connect: 90 * ms, header: time.Minute},
			body:   providertest.Streamed, reason: llm.ReasonFirstTokenTimeout, after: 500 * ms,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := open(t, openai.Config{BaseURL: "http://scripted.invalid/v1", Timeouts: timeouts, Transport: &tt.script})
				result, err := client.Send(t.Context(), providertest.Call(t, tt.body), func(llm.Event) error {
					return tt.script.wait(new(http.Request), tt.pause)
				})
				if tt.reason == "" {
					if err != nil {
						t.Fatal(err)
					}
					providertest.Equal(t, "duration", tt.after, result.Latency)
					return
				}
				f := llm.AsFailure(err)
				if f.Class != llm.ClassConnection || f.Reason != tt.reason {
					t.Errorf("got %v, want %s", f, tt.reason)
				}
				providertest.Equal(t, "duration", tt.after, f.Latency)
				providertest.Equal(t, "unsent", tt.reason == llm.ReasonConnectTimeout, f.Unsent)
			})
		})
	}
}

func TestTimeToTheFirstToken(t *testing.T) { // SSE-03
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		script := &script{header: 50 * ms, pieces: join(every(100*ms, 3, ": PROCESSING\n\n"), []piece{{0, roleEvent}, {10 * ms, textEvent("a")}, {40 * ms, doneEvent}})}
		client := open(t, openai.Config{BaseURL: "http://scripted.invalid/v1", Timeouts: patient, Transport: script})
		result, err := client.Send(t.Context(), providertest.Call(t, providertest.Streamed), (&providertest.Log{}).Emit)
		if err != nil {
			t.Fatal(err)
		}
		providertest.Equal(t, "first token", 360*ms, result.FirstToken)
		providertest.Equal(t, "latency", 400*ms, result.Latency)
	})
}

func TestNoClockAtAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		script := &script{connect: time.Hour, header: time.Hour, pieces: []piece{{time.Hour, textEvent("a")}, {time.Hour, doneEvent}}}
		client := open(t, openai.Config{BaseURL: "http://scripted.invalid/v1", Transport: script})
		result, err := client.Send(t.Context(), providertest.Call(t, providertest.Streamed), (&providertest.Log{}).Emit)
		if err != nil {
			t.Fatal(err)
		}
		providertest.Equal(t, "latency", 4*time.Hour, result.Latency)
	})
}
