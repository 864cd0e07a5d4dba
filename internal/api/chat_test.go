package api_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

func panicking(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) { panic("kaboom") }

const (
	role = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n"
	hel  = "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n"
	lo   = "data: {\"choices\":[{\"delta\":{\"content\":\"lo\"}}]}\n\n"
	done = "data: [DONE]\n\n"
)

// streaming returns a handler that emits the events one by one and ends with an
// error, or well.
func streaming(end error, events ...string) api.Handler {
	return func(_ context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		reach(call, targetA)
		for _, raw := range events {
			if err := emit(llm.Event{Raw: []byte(raw), Kind: llm.EventContent}); err != nil {
				return nil, err
			}
		}
		return &llm.Result{Target: targetA, Streamed: true}, end
	}
}

func TestAWholeAnswerPassesUnchanged(t *testing.T) {
	t.Parallel()
	const body = `{"id":"x","choices":[],"unknown":{"kept":true}}`
	got := setup(t, answering(body)).chat(t, nil)
	if got.status != 200 || got.body != body {
		t.Errorf("status %d, body %s; want 200 and the body unchanged", got.status, got.body)
	}
	want := map[string]string{
		"Content-Type": "application/json", "X-Breakwater-Attempts": "1", "X-Breakwater-Target": "alpha/m1/r1",
		"Retry-After": "", "x-should-retry": "",
	}
	for name, value := range want {
		if got.header.Get(name) != value {
			t.Errorf("%s is %q, want %q", name, got.header.Get(name), value)
		}
	}
}

func TestTheCallHoldsWhatTheRequestSaid(t *testing.T) {
	t.Parallel()
	calls := make(chan llm.Call, 1)
	g := setup(t, func(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
		calls <- *call
		return &llm.Result{Body: []byte("{}")}, nil
	}, func(s *api.Snapshot) {
		route := s.Routes["chat"]
		route.Timeouts = llm.Timeouts{Idle: time.Minute}
		s.Routes["chat"] = route
	})
	answer := g.chat(t, http.Header{
		"X-Correlation-Id":     {"order-17"},
		"Traceparent":          {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		"X-Breakwater-Timeout": {"30s"},
	})
	got := <-calls

	want := llm.Call{
		CorrelationID: "order-17", TraceID: "0af7651916cd43dd8448eb211c80319c",
		Operation: llm.OperationChat, Dialect: llm.DialectOpenAI,
		Configuration: "chat", RequestedModel: "chat",
		Body: []byte(chatBody), Codec: openai.Codec{}, Targets: []llm.Target{targetA, targetB},
		FallbackOn: llm.DefaultFallback(), Timeouts: llm.Timeouts{Idle: time.Minute},
		Signals: &llm.Signals{},
	}
	ignored := cmpopts.IgnoreFields(llm.Call{}, "RunID", "Traceparent", "ReceivedAt", "Deadline", "Facts", "StatusOf", "Deliver")
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Errorf("call (-want +got):\n%s", diff)
	}
	if id := got.RunID.String(); got.RunID.Version() != 7 || answer.header.Get("X-Request-ID") != id || answer.header.Get("request-id") != id {
		t.Errorf("run id %s, headers %v; want a version 7 in both", id, answer.header)
	}
	if answer.header.Get("X-Correlation-ID") != "order-17" {
		t.Errorf("correlation id %q, want the caller's", answer.header.Get("X-Correlation-ID"))
	}
	if wait := got.Deadline.Sub(got.ReceivedAt); wait != 30*time.Second {
		t.Errorf("deadline after %v, want the caller's 30s", wait)
	}
	if got.Facts.Model != "chat" || got.Facts.TextBytes != len("hello") {
		t.Errorf("facts %+v; want the model and the bytes of the prompt", got.Facts)
	}
	checkTraceparent(t, got.Traceparent, "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
}

func checkTraceparent(t *testing.T, got, trace, callers string) {
	t.Helper()
	parts := strings.Split(got, "-")
	if len(parts) != 4 || parts[0] != "00" || parts[1] != trace || len(parts[2]) != 16 || parts[2] == callers || parts[3] != "01" {
		t.Errorf("traceparent %q; want the trace under a parent id of our own", got)
	}
}

func TestADirectTargetHasNoConfiguration(t *testing.T) {
	t.Parallel()
	calls := make(chan llm.Call, 1)
	g := setup(t, func(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
		calls <- *call
		return &llm.Result{Body: []byte("{}")}, nil
	})
	g.do(t, http.MethodPost, "/v1/chat/completions", strings.Replace(chatBody, "chat", "beta/vendor/m2", 1), nil)
	got := <-calls
	if got.Configuration != "" || got.RequestedModel != "beta/vendor/m2" || len(got.Targets) != 1 {
		t.Errorf("call of %q by configuration %q to %v; want the one target by none", got.RequestedModel, got.Configuration, got.Targets)
	}
}

func TestAStreamPassesUnchangedUnderItsHeaders(t *testing.T) {
	t.Parallel()
	got := setup(t, streaming(nil, role, hel, lo, done)).chat(t, nil)
	if want := role + hel + lo + done; got.body != want {
		t.Errorf("stream:\n%s\nwant:\n%s", got.body, want)
	}
	want := map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no",
		"X-Breakwater-Attempts": "1", "X-Breakwater-Target": "alpha/m1/r1", "Content-Length": "",
	}
	for name, value := range want {
		if got.header.Get(name) != value {
			t.Errorf("%s is %q, want %q", name, got.header.Get(name), value)
		}
	}
}

func TestAStreamIsFlushedUnlessMoreIsInHand(t *testing.T) {
	t.Parallel()
	proceed := make(chan struct{})
	g := setup(t, func(_ context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		reach(call, targetA)
		_ = emit(llm.Event{Raw: []byte(role), More: true})
		_ = emit(llm.Event{Raw: []byte(hel)})
		<-proceed
		return nil, emit(llm.Event{Raw: []byte(done), More: true})
	})
	resp := g.start(t, t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(chatBody), nil)
	defer func() { _ = resp.Body.Close() }()
	first := make([]byte, len(role+hel))
	if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != role+hel {
		t.Fatalf("before the stream went on: %q, %v", first, err)
	}
	close(proceed)
	if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != done {
		t.Errorf("the end of the stream: %q, %v", rest, err)
	}
}

// END-01, END-04: what was sent is followed by one error event, without [DONE].
func TestAStreamThatFailsEndsWithOneErrorEvent(t *testing.T) {
	t.Parallel()
	fixture, err := os.ReadFile(filepath.Join("testdata", "gateway_stream_error_openai.sse"))
	if err != nil {
		t.Fatal(err)
	}
	events := strings.Split(strings.TrimSpace(string(fixture)), "data: ")
	want := problemOf(t, events[len(events)-1])

	tests := map[string]api.Handler{
		"END-01 truncated":      streaming(failure(llm.ClassConnection, llm.ReasonTruncated), role, hel),
		"END-04 an error event": streaming(failure(llm.ClassServerError, llm.ReasonStreamError, status(500)), role, hel),
		"the end of draining":   streaming(failure(llm.ClassCancelled, llm.ReasonShutdown), role, hel),
		"max_stream":            streaming(failure(llm.ClassCancelled, llm.ReasonMaxStream), role, hel),
		"a panic": func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
			_, _ = streaming(nil, role, hel)(ctx, call, emit)
			panic("kaboom")
		},
	}
	for name, handle := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := setup(t, handle).chat(t, nil)
			event, ok := strings.CutPrefix(answer.body, role+hel+"data: ")
			if !ok || !strings.HasSuffix(event, "\n\n") || strings.Count(event, "\n") != 2 {
				t.Fatalf("stream:\n%s\nwant what was sent and one event", answer.body)
			}
			got := problemOf(t, strings.TrimSpace(event))
			if got.Message == "" || strings.Contains(got.Message, "kaboom") {
				t.Errorf("message %q", got.Message)
			}
			got.Message = want.Message
			if diff := cmp.Diff(want, got); diff != "" || answer.status != 200 {
				t.Errorf("status %d, event (-want +got):\n%s", answer.status, diff)
			}
		})
	}
}

func TestAStreamThatFailsBeforeItsFirstEventIsAnOrdinaryError(t *testing.T) {
	t.Parallel()
	got := setup(t, streaming(failure(llm.ClassConnection, llm.ReasonFirstTokenTimeout))).chat(t, nil)
	if got.status != 504 || got.header.Get("Content-Type") != "application/json" || problemOf(t, got.body).code() != "upstream_timeout" {
		t.Errorf("status %d, %s, body %s", got.status, got.header.Get("Content-Type"), got.body)
	}
}

func TestAPipelineThatReturnsNothingIsAnInternalError(t *testing.T) {
	t.Parallel()
	g := setup(t, func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) { return &llm.Result{}, nil })
	if got := g.chat(t, nil); got.status != 500 || problemOf(t, got.body).code() != "internal_error" {
		t.Errorf("status %d, body %s; want an internal error, not an empty success", got.status, got.body)
	}
}

func TestTelemetryLearnsTheStatusThatTheClientGot(t *testing.T) {
	t.Parallel()
	recorded := make(chan int, 1)
	record := func(handle api.Handler) api.Handler {
		return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
			result, err := handle(ctx, call, emit)
			recorded <- call.StatusOf(err)
			return result, err
		}
	}
	tests := []struct {
		name   string
		handle api.Handler
		want   int
	}{
		{"an answer", answering("{}"), 200},
		{"a failure", failing(failure(llm.ClassServerError, llm.ReasonUpstreamStatus, status(500))), 502},
		{"a relayed refusal", failing(failure(llm.ClassClientError, llm.ReasonInvalidRequest, status(422))), 422},
		{"a failure after the first byte", streaming(failure(llm.ClassConnection, llm.ReasonTruncated), hel), 200},
		{"the client left", failing(failure(llm.ClassCancelled, llm.ReasonClientLeft)), 499},
	}
	for _, tc := range tests {
		got := setup(t, record(tc.handle)).chat(t, nil)
		if told := <-recorded; told != tc.want || got.status != tc.want {
			t.Errorf("%s: recorded %d, answered %d, want %d", tc.name, told, got.status, tc.want)
		}
	}
}

// DIS-01: the caller leaves a call that is not answered yet.
func TestACallerWhoLeavesEndsTheCall(t *testing.T) {
	t.Parallel()
	causes, started := make(chan error, 1), make(chan struct{})
	g := setup(t, func(ctx context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
		close(started)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, llm.Cancelled(ctx, targetA)
	})
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-started
		leave()
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/v1/chat/completions", strings.NewReader(chatBody))
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := g.client.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Fatal("the client got an answer although it left")
	}
	if cause := <-causes; llm.CancelReason(cause) != llm.ReasonClientLeft || cause != llm.ErrClientLeft {
		t.Errorf("cause %v, want %v", cause, llm.ErrClientLeft)
	}
}

// waiting returns a handler that waits for the end of the call and returns it as
// the pipeline does; events go up first.
func waiting(events ...string) api.Handler {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		reach(call, targetA)
		for _, raw := range events {
			if err := emit(llm.Event{Raw: []byte(raw)}); err != nil {
				return nil, err
			}
		}
		<-ctx.Done()
		return nil, llm.Cancelled(ctx, targetA)
	}
}

func TestTheClocksOfACallEndIt(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		handle    api.Handler
		timeout   string
		wantAfter time.Duration
		wantIn    string
		wantCode  int
	}{
		"request_timeout":                              {waiting(), "", 10 * time.Minute, `"upstream_timeout"`, 504},
		"DIS-07 the caller's own limit":                {waiting(), "100ms", 100 * time.Millisecond, `"caller_timeout"`, 504},
		"the caller cannot lengthen":                   {waiting(), "20m", 10 * time.Minute, `"upstream_timeout"`, 504},
		"max_stream takes over when a stream commits":  {waiting(hel), "", time.Hour, "max_stream", 200},
		"the caller's own limit goes on in the stream": {waiting(hel), "15m", 15 * time.Minute, "X-Breakwater-Timeout", 200},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g, header := setup(t, tc.handle), http.Header{}
				if tc.timeout != "" {
					header.Set("X-Breakwater-Timeout", tc.timeout)
				}
				began := time.Now()
				got := g.chat(t, header)
				if took := time.Since(began); took != tc.wantAfter {
					t.Errorf("ended after %v, want %v", took, tc.wantAfter)
				}
				if got.status != tc.wantCode || !strings.Contains(got.body, tc.wantIn) {
					t.Errorf("status %d, body %s; want %d and %s", got.status, got.body, tc.wantCode, tc.wantIn)
				}
			})
		})
	}
}

func TestASlowReaderEndsTheCallAfterWriteTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ends := make(chan error, 2)
		g := setup(t, func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
			reach(call, targetA)
			for {
				if err := emit(llm.Event{Raw: []byte(hel)}); err != nil {
					ends <- err
					ends <- context.Cause(ctx)
					return nil, err
				}
			}
		})
		resp := g.start(t, t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(chatBody), nil)
		began := time.Now()
		for _, what := range []string{"emit returned", "the context ended by"} {
			if got := <-ends; got != llm.ErrSlowReader {
				t.Errorf("%s %v, want %v", what, got, llm.ErrSlowReader)
			}
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("ended after %v, want write_timeout", took)
		}
		_ = resp.Body.Close()
	})
}

// A client that takes every flush in time may be slow for as long as it likes.
func TestAReaderThatIsSlowButSteadyIsServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := setup(t, streaming(nil, role, hel, hel, hel, lo, done))
		resp := g.start(t, t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(chatBody), nil)
		defer func() { _ = resp.Body.Close() }()
		var got strings.Builder
		for buf := make([]byte, 1024); ; {
			<-time.After(14 * time.Second)
			n, err := resp.Body.Read(buf)
			got.Write(buf[:n])
			if err != nil {
				break
			}
		}
		if want := role + hel + hel + hel + lo + done; got.String() != want {
			t.Errorf("stream:\n%s\nwant:\n%s", got.String(), want)
		}
	})
}

func TestAConnectionServesTheNextRequestAfterAnyPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := setup(t, streaming(nil, hel, done))
		for range 2 {
			if got := g.chat(t, nil); got.body != hel+done {
				t.Errorf("stream %q", got.body)
			}
			<-time.After(time.Hour)
		}
	})
}

func TestARequestIdIsNewForEveryRequest(t *testing.T) {
	t.Parallel()
	g := setup(t, answering("{}"))
	seen := map[string]bool{}
	for range 3 {
		id := g.chat(t, nil).header.Get("X-Request-ID")
		if parsed, err := uuid.Parse(id); err != nil || parsed.Version() != 7 || seen[id] {
			t.Errorf("request id %q (%v) is no new version 7", id, err)
		}
		seen[id] = true
	}
}
