package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// uncalled fails the test when a request that must be refused becomes a call.
func uncalled(t *testing.T) api.Handler {
	return func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) {
		t.Error("the refused request became a call")
		return nil, nil
	}
}

func TestARefusedRequestIsToldWhyAndCounted(t *testing.T) {
	t.Parallel()
	const chat = "/v1/chat/completions"
	tests := map[string]struct {
		method, path, body string
		header             http.Header
		wantStatus         int
		wantType, wantCode string
		wantParam          string
		wantRetry          string
	}{
		"FAL-09 no JSON":          {"POST", chat, `{"model": "m1", messages: [`, nil, 400, "invalid_request_error", "invalid_json", "", ""},
		"an empty body":           {"POST", chat, ``, nil, 400, "invalid_request_error", "invalid_json", "", ""},
		"a duplicate key":         {"POST", chat, `{"model":"chat","model":"x","messages":[]}`, nil, 400, "invalid_request_error", "invalid_json", "model", ""},
		"nested too deep":         {"POST", chat, strings.Repeat("[", 500), nil, 400, "invalid_request_error", "invalid_json", "", ""},
		"a wrong type":            {"POST", chat, `{"model":7,"messages":[]}`, nil, 400, "invalid_request_error", "invalid_value", "model", ""},
		"no model":                {"POST", chat, `{"messages":[]}`, nil, 400, "invalid_request_error", "invalid_value", "model", ""},
		"an unknown model":        {"POST", chat, `{"model":"nope","messages":[]}`, nil, 404, "invalid_request_error", "model_not_found", "model", "false"},
		"a model of a URL":        {"POST", chat, `{"model":"http://evil.test/v1","messages":[]}`, nil, 404, "invalid_request_error", "model_not_found", "model", "false"},
		"over max_body":           {"POST", chat, strings.Repeat(" ", 1<<20+1), nil, 413, "invalid_request_error", "request_too_large", "", ""},
		"a malformed time limit":  {"POST", chat, chatBody, http.Header{"X-Breakwater-Timeout": {"30"}}, 400, "invalid_request_error", "invalid_value", "X-Breakwater-Timeout", ""},
		"a time limit of zero":    {"POST", chat, chatBody, http.Header{"X-Breakwater-Timeout": {"0s"}}, 400, "invalid_request_error", "invalid_value", "X-Breakwater-Timeout", ""},
		"two time limits":         {"POST", chat, chatBody, http.Header{"X-Breakwater-Timeout": {"30s", "1s"}}, 400, "invalid_request_error", "invalid_value", "X-Breakwater-Timeout", ""},
		"an unknown path":         {"POST", "/v1/nothing", `{}`, nil, 404, "invalid_request_error", "unknown_url", "", "false"},
		"the root":                {"GET", "/", ``, nil, 404, "invalid_request_error", "unknown_url", "", "false"},
		"ADM-08 no metrics here":  {"GET", "/metrics", ``, nil, 404, "invalid_request_error", "unknown_url", "", "false"},
		"a wrong method":          {"GET", chat, ``, nil, 405, "invalid_request_error", "method_not_allowed", "", ""},
		"an unknown model to get": {"GET", "/v1/models/nope", ``, nil, 404, "invalid_request_error", "model_not_found", "model", "false"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, uncalled(t))
			got := g.do(t, tc.method, tc.path, tc.body, tc.header)
			p := problemOf(t, got.body)
			if got.status != tc.wantStatus || p.Type != tc.wantType || p.code() != tc.wantCode || p.param() != tc.wantParam || p.Message == "" {
				t.Errorf("status %d, %s", got.status, got.body)
			}
			if retry := got.header.Get("x-should-retry"); retry != tc.wantRetry {
				t.Errorf("x-should-retry %q, want %q", retry, tc.wantRetry)
			}
			if diff := cmp.Diff(map[string]int{tc.wantCode: 1}, g.refusals.counts()); diff != "" {
				t.Errorf("counted (-want +got):\n%s", diff)
			}
			if !slices.Contains(api.RefusalCodes(), tc.wantCode) {
				t.Errorf("%s is not in RefusalCodes", tc.wantCode)
			}
			checkIDs(t, got.header)
		})
	}
}

// checkIDs fails unless the answer can be found again by its ids.
func checkIDs(t *testing.T, header http.Header) {
	t.Helper()
	id, err := uuid.Parse(header.Get("X-Request-ID"))
	if err != nil || id.Version() != 7 || header.Get("request-id") != id.String() || header.Get("X-Correlation-ID") == "" {
		t.Errorf("ids of the answer: %v", header)
	}
}

func TestABodyOfUnannouncedLengthIsBoundedToo(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		size int
		want int
	}{
		"at max_body":   {1 << 20, 200},
		"over max_body": {1<<20 + 1, 413},
		"far over":      {8 << 20, 413},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, answering("{}"))
			body := chatBody + strings.Repeat(" ", tc.size-len(chatBody))
			// Hiding the length makes the client send chunks.
			got := g.start(t, t.Context(), http.MethodPost, "/v1/chat/completions", io.MultiReader(strings.NewReader(body)), nil)
			defer func() { _ = got.Body.Close() }()
			if got.StatusCode != tc.want {
				t.Errorf("status %d, want %d", got.StatusCode, tc.want)
			}
		})
	}
}

func TestBodiesOfAllRequestsTogetherAreBounded(t *testing.T) {
	t.Parallel()
	started, proceed := make(chan struct{}), make(chan struct{})
	g := setup(t, func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) {
		started <- struct{}{}
		<-proceed
		return &llm.Result{Body: []byte("{}")}, nil
	}, func(s *api.Snapshot) { s.Limits.MaxInflightBytes = int64(len(chatBody)) * 3 / 2 })

	first := make(chan reply)
	go func() { first <- g.chat(t, nil) }()
	<-started
	got := g.chat(t, nil)
	if p := problemOf(t, got.body); got.status != 503 || p.Type != "service_unavailable_error" || p.code() != "overloaded" {
		t.Errorf("status %d, body %s; want 503 overloaded", got.status, got.body)
	}
	if got.header.Get("Retry-After") != "1" || got.header.Get("x-should-retry") != "" {
		t.Errorf("headers %v; want a wait of 1 s", got.header)
	}
	proceed <- struct{}{}
	if got := <-first; got.status != 200 {
		t.Errorf("the first call: status %d", got.status)
	}

	// Its bytes are given back, a little later than its answer may be here.
	for given := false; !given; {
		go func() { first <- g.chat(t, nil) }()
		select {
		case <-started:
			given = true
			proceed <- struct{}{}
			if got := <-first; got.status != 200 {
				t.Errorf("the next call: status %d", got.status)
			}
		case got := <-first:
			if got.status != 503 {
				t.Fatalf("the next call: status %d, body %s", got.status, got.body)
			}
		}
	}
}

// ADM-03: what a client writes about routing is not read.
func TestAClientCannotChooseWhereACallGoes(t *testing.T) {
	t.Parallel()
	targets := make(chan []llm.Target, 1)
	g := setup(t, func(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
		targets <- call.Targets
		return &llm.Result{Body: []byte("{}")}, nil
	})
	body := `{"model":"chat","messages":[],"api_base":"http://evil.test","base_url":"http://evil.test","api_key":"k","custom_llm_provider":"x"}`
	g.do(t, http.MethodPost, "/v1/chat/completions", body, http.Header{"X-Openai-Base-Url": {"http://evil.test"}})
	if diff := cmp.Diff([]llm.Target{targetA, targetB}, <-targets); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
}

// LIF-01: from the first sign of the end, readiness is 503, liveness 200, new
// calls are refused, and those inside go on to their end.
func TestDrainingRefusesNewCallsAndWaitsForThoseInside(t *testing.T) {
	t.Parallel()
	started, proceed := make(chan struct{}), make(chan struct{})
	g := setup(t, func(_ context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		close(started)
		<-proceed
		return nil, emit(llm.Event{Raw: []byte(hel + done)})
	})
	inside := make(chan reply)
	go func() { inside <- g.chat(t, nil) }()
	<-started
	g.gate.Close()

	drained := make(chan error)
	go func() { drained <- g.gate.Drain(t.Context()) }()
	refused := g.chat(t, nil)
	if problemOf(t, refused.body).code() != "shutting_down" || refused.status != 503 || refused.header.Get("Retry-After") != "1" {
		t.Errorf("a new call: status %d, body %s", refused.status, refused.body)
	}
	checkIDs(t, refused.header)
	if got := g.do(t, "GET", "/readyz", "", nil); got.status != 503 || got.body != `{"status":"draining","degraded":[]}`+"\n" {
		t.Errorf("readiness: status %d, body %s", got.status, got.body)
	}
	if got := g.do(t, "GET", "/healthz", "", nil); got.status != 200 {
		t.Errorf("liveness: status %d", got.status)
	}
	close(proceed)
	if got := <-inside; got.body != hel+done {
		t.Errorf("the call inside: %q", got.body)
	}
	if err := <-drained; err != nil {
		t.Errorf("drain: %v", err)
	}
}

func TestTheEndOfDrainingIsSaidToWhoeverIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := setup(t, waiting(hel))
		inside := make(chan reply)
		go func() { inside <- g.chat(t, nil) }()
		synctest.Wait()
		g.gate.Close()
		limited, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := g.gate.Drain(limited); err == nil || g.gate.Inside() != 1 {
			t.Errorf("draining ended with %v although a call is inside", err)
		}
		g.gate.Abort()
		if err := g.gate.Drain(t.Context()); err != nil {
			t.Errorf("after the abort: %v", err)
		}
		if got := <-inside; !strings.Contains(got.body, "shutting") {
			t.Errorf("the call inside ended with %q; want to be told of the shutdown", got.body)
		}
	})
}

func TestAClientThatStopsSendingIsNotWaitedForBeyondTheCall(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		end  func(g *gateway)
		want int
		code string
	}{
		"its time is up":      {func(*gateway) {}, 400, "invalid_json"},
		"the gateway stopped": {func(g *gateway) { g.gate.Abort() }, 503, "shutting_down"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := setup(t, uncalled(t))
				conn, err := g.dial()
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				_, _ = io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Breakwater-Timeout: 5s\r\nContent-Length: 100\r\n\r\n{")
				synctest.Wait()
				tc.end(g)
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != tc.want || problemOf(t, string(body)).code() != tc.code {
					t.Errorf("status %d, body %s", resp.StatusCode, body)
				}
			})
		})
	}
}

// sending opens a connection and sends the beginning of a chat request.
func (n *network) sending(t *testing.T, announced int, begun string) net.Conn {
	t.Helper()
	conn, err := n.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	head := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", announced)
	if _, err := io.WriteString(conn, head+begun); err != nil {
		t.Fatal(err)
	}
	return conn
}

// A length that is announced is a promise: who only promises takes no room from
// those who send.
func TestAnnouncedBytesAreCountedAsTheyCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := setup(t, answering("{}"), func(s *api.Snapshot) { s.Limits.MaxInflightBytes = 2 << 20 })
		for range 10 { // ten times 1 MiB would be five times the limit
			g.sending(t, 1<<20, "{")
		}
		synctest.Wait()
		large := chatBody + strings.Repeat(" ", 1<<20-len(chatBody))
		got := g.do(t, http.MethodPost, "/v1/chat/completions", large, nil)
		if got.status != 200 {
			t.Errorf("status %d, body %s; want the one who sends served", got.status, got.body)
		}
	})
}

func TestAClientThatStopsSendingIsRefusedAfterAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := setup(t, uncalled(t))
		conn := g.sending(t, len(chatBody), chatBody[:10])
		began := time.Now()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if p := problemOf(t, string(body)); resp.StatusCode != 400 || p.code() != "invalid_json" {
			t.Errorf("status %d, body %s", resp.StatusCode, body)
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("refused after %v, want 30 s", took)
		}
	})
}

// Slow is not silent: whoever goes on sending is served, and is waited for while
// the answer takes long.
func TestAClientThatSendsSlowlyIsServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := setup(t, func(ctx context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
			select {
			case <-ctx.Done():
				return nil, llm.Cancelled(ctx, targetA)
			case <-time.After(5 * time.Minute):
				return &llm.Result{Target: targetA, Status: 200, Body: []byte("{}")}, nil
			}
		})
		conn := g.sending(t, len(chatBody), "")
		for piece := range strings.SplitSeq(chatBody, ",") {
			<-time.After(25 * time.Second)
			_, _ = io.WriteString(conn, piece)
			if !strings.HasSuffix(chatBody, piece) {
				_, _ = io.WriteString(conn, ",")
			}
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("status %d, body %s", resp.StatusCode, body)
		}
	})
}
