package api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/api"
)

func TestModelsListWhatMayBeNamed(t *testing.T) {
	t.Parallel()
	g := setup(t, uncalled(t))
	const (
		chat   = `{"id":"chat","object":"model","created":1800000000,"owned_by":"breakwater"}`
		direct = `{"id":"beta/vendor/m2","object":"model","created":1800000000,"owned_by":"beta"}`
	)
	tests := map[string]string{
		"/v1/models":                    `{"object":"list","data":[` + chat + `,` + direct + `]}`,
		"/v1/models/chat":               chat,
		"/v1/models/beta/vendor/m2":     direct,
		"/v1/models/beta%2Fvendor%2Fm2": direct,
		"/v1/models/%62eta/vendor%2Fm2": direct,
	}
	for path, want := range tests {
		got := g.do(t, http.MethodGet, path, "", nil)
		if got.status != 200 || got.body != want+"\n" || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("GET %s: status %d, %s\nwant %s", path, got.status, got.body, want)
		}
		checkIDs(t, got.header)
	}
}

// Whoever reads how many upstreams were asked finds it on every answer.
func TestWhatTheDataPlaneAnswersByItselfHasAskedNobody(t *testing.T) {
	t.Parallel()
	g := setup(t, uncalled(t))
	for name, tc := range map[string]struct {
		method, path, body string
		header             http.Header
		want               int
	}{
		"a list":          {"GET", "/v1/models", "", nil, 200},
		"no such model":   {"GET", "/v1/models/none", "", nil, 404},
		"no such path":    {"POST", "/v1/nothing", "{}", nil, 404},
		"a wrong method":  {"GET", "/v1/chat/completions", "", nil, 405},
		"another host":    {"POST", "/v1/chat/completions", chatBody, http.Header{"Host": {"evil.test"}}, 421},
		"another origin":  {"POST", "/v1/chat/completions", chatBody, http.Header{"Origin": {"https://evil.test"}}, 403},
		"no JSON":         {"POST", "/v1/chat/completions", "{", nil, 400},
		"a wrong timeout": {"POST", "/v1/chat/completions", chatBody, http.Header{"X-Breakwater-Timeout": {"soon"}}, 400},
	} {
		got := g.do(t, tc.method, tc.path, tc.body, tc.header)
		if attempts := got.header.Get("X-Breakwater-Attempts"); got.status != tc.want || attempts != "0" || got.header.Get("X-Breakwater-Target") != "" {
			t.Errorf("%s: status %d, attempts %q, want %d and 0", name, got.status, attempts, tc.want)
		}
	}
}

func TestReadinessSaysWhatIsAway(t *testing.T) {
	t.Parallel()
	g := setup(t, uncalled(t))
	g.degraded = []string{"database"}
	got := g.do(t, http.MethodGet, "/readyz", "", nil)
	if want := `{"status":"ready","degraded":["database"]}` + "\n"; got.status != 200 || got.body != want {
		t.Errorf("status %d, body %s, want 200 and %s", got.status, got.body, want)
	}
}

func TestAStartingGatewayIsAliveButNotReady(t *testing.T) {
	t.Parallel()
	gate := api.NewGate()
	n := serve(t, api.NewData(api.Data{
		Snapshot: func() *api.Snapshot { return snapshot(uncalled(t)) }, Gate: gate,
		Degraded: func() []string { return nil }, Refusals: &counter{}, Log: (&logBuffer{}).logger(),
	}))
	if got := n.do(t, http.MethodGet, "/readyz", "", nil); got.status != 503 || !strings.Contains(got.body, "starting") {
		t.Errorf("readiness: status %d, body %s", got.status, got.body)
	}
	if got := n.do(t, http.MethodGet, "/healthz", "", nil); got.status != 200 {
		t.Errorf("liveness: status %d", got.status)
	}
	gate.Open()
	if got := n.do(t, http.MethodGet, "/readyz", "", nil); got.status != 200 {
		t.Errorf("after opening: status %d, body %s", got.status, got.body)
	}
}

// SEC-07, over a raw socket: an id that could forge a line is replaced.
func TestACorrelationIdIsTakenOverOnlyWhenItIsHarmless(t *testing.T) {
	t.Parallel()
	g := setup(t, answering("{}"))
	server := httptest.NewServer(api.NewData(api.Data{
		Snapshot: func() *api.Snapshot { return g.snapshot }, Gate: g.gate,
		Degraded: func() []string { return nil }, Refusals: g.refusals, Log: g.log.logger(),
	}))
	t.Cleanup(server.Close)

	const own = "0f3c1b8e-7a53-4b7e-9a0e-2d6c1f6f5a11"
	tests := map[string]struct {
		line       string // as it goes over the wire
		wantStatus int
		wantID     string // empty = a new one
	}{
		"a uuid":                 {own, 200, own},
		"128 visible characters": {strings.Repeat("~", 128), 200, strings.Repeat("~", 128)},
		"129 characters":         {strings.Repeat("a", 129), 200, ""},
		"10 kB":                  {strings.Repeat("a", 10_000), 200, ""},
		"a tab and JSON":         {"a\tb{\"level\":\"error\"}", 200, ""},
		"a space":                {"a b", 200, ""},
		"beyond ASCII":           {"caf\u00e9", 200, ""},
		"folded over two lines":  {"a\r\n {\"level\":\"error\"}", 200, ""},
		"empty":                  {"", 200, ""},
		"two of them":            {"a\r\nX-Correlation-ID: b", 200, ""},
		"a bare CR":              {"a\rb", 400, ""},
		"a line of its own":      {"a\r\n{\"level\" \"error\"}", 400, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := raw(t, server.Listener.Addr().String(), tc.line)
			if got.StatusCode != tc.wantStatus {
				t.Fatalf("status %d, want %d", got.StatusCode, tc.wantStatus)
			}
			id := got.Header.Get("X-Correlation-ID")
			if tc.wantID != "" && id != tc.wantID {
				t.Errorf("correlation id %q, want it taken over", id)
			}
			if minted, err := uuid.Parse(id); tc.wantID == "" && tc.wantStatus == 200 && (err != nil || minted.Version() != 7) {
				t.Errorf("correlation id %q, want a new one", id)
			}
		})
	}
	server.Close()
	checkLog(t, g.log.String(), 10)
}

// raw sends a chat request with a correlation header that no client would send.
func raw(t *testing.T, addr, line string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Correlation-ID: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", line, len(chatBody), chatBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp
}

// checkLog fails unless the log is one valid JSON line per request.
func checkLog(t *testing.T, log string, want int) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(log), "\n")
	if len(lines) != want {
		t.Errorf("%d log lines, want %d:\n%s", len(lines), want, log)
	}
	for _, line := range lines {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("a log line is no JSON: %v\n%s", err, line)
		}
		keys := []string{"time", "level", "msg", "run_id", "correlation_id", "method", "route", "status", "took_us"}
		for _, key := range keys {
			delete(entry, key)
		}
		if diff := cmp.Diff(map[string]any{}, entry); diff != "" {
			t.Errorf("the line holds more than it should:\n%s", diff)
		}
	}
}

// SEC-01: the pipeline gets a call without any of the request's headers, so no
// credential of a client can reach an upstream.
func TestNoHeaderOfTheClientIsLogged(t *testing.T) {
	t.Parallel()
	g := setup(t, answering("{}"))
	header := http.Header{
		"Authorization": {"Bearer gk-t1"}, "X-Api-Key": {"gk-t2"}, "Api-Key": {"gk-t3"}, "Cookie": {"s=gk-t4"},
		"Proxy-Authorization": {"Basic gk-t5"},
	}
	got := g.chat(t, header)
	if strings.Contains(g.log.String(), "gk-t") || strings.Contains(got.body+fmt.Sprint(got.header), "gk-t") {
		t.Errorf("a credential shows:\n%s\n%v", g.log.String(), got)
	}
}
