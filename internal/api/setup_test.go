package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/leaktest"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// The server lingers for half a second on a connection whose request it did not
// read to the end.
func TestMain(m *testing.M) {
	leaktest.Main(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

var (
	targetA = llm.Target{Provider: "alpha", Model: "m1", Region: "r1"}
	targetB = llm.Target{Provider: "beta", Model: "vendor/m2", Region: "r2"}
)

const chatBody = `{"model":"chat","messages":[{"role":"user","content":"hello"}]}`

// gateway is the data plane behind an in-memory network, with a handler of the
// test's own in the pipeline's place.
type gateway struct {
	*network
	gate     *api.Gate
	refusals *counter
	log      *logBuffer
	degraded []string
	snapshot *api.Snapshot
}

// setup serves the data plane; change may alter the snapshot before it starts.
func setup(t *testing.T, handle api.Handler, change ...func(*api.Snapshot)) *gateway {
	t.Helper()
	g := &gateway{gate: api.NewGate(), refusals: &counter{}, log: &logBuffer{}, snapshot: snapshot(handle)}
	for _, alter := range change {
		alter(g.snapshot)
	}
	g.gate.Open()
	g.network = serve(t, api.NewData(api.Data{
		Snapshot: func() *api.Snapshot { return g.snapshot },
		Gate:     g.gate,
		Degraded: func() []string { return g.degraded },
		Refusals: g.refusals,
		Log:      g.log.logger(),
	}))
	return g
}

func snapshot(handle api.Handler) *api.Snapshot {
	return &api.Snapshot{
		Handle:      handle,
		Middlewares: []api.Middleware{{Name: "telemetry", Priority: 110}, {Name: "fallback", Priority: 50}},
		Routes: map[string]api.Route{
			"chat":           {Configuration: "chat", Targets: []llm.Target{targetA, targetB}, FallbackOn: llm.DefaultFallback()},
			"beta/vendor/m2": {Targets: []llm.Target{targetB}},
		},
		Limits: api.Limits{
			MaxBody: 1 << 20, MaxInflightBytes: 1 << 30,
			RequestTimeout: 10 * time.Minute, MaxStream: time.Hour, WriteTimeout: 30 * time.Second,
		},
		LoadedAt: time.Unix(1_800_000_000, 0),
	}
}

// answering returns a handler that answers every call from alpha.
func answering(body string) api.Handler {
	return func(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
		reach(call, targetA)
		return &llm.Result{Target: targetA, Status: 200, Body: []byte(body)}, nil
	}
}

// failing returns a handler that asks alpha and fails.
func failing(err error) api.Handler {
	return func(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
		reach(call, targetA)
		return nil, err
	}
}

func reach(call *llm.Call, target llm.Target) {
	call.Signals.Open(target, time.Now()).Reached = true
}

// network carries HTTP over pipes, so that a test in a bubble of fake time can
// wait for whole timeouts.
type network struct {
	conns  chan net.Conn
	closed chan struct{}
	client *http.Client
}

func serve(t *testing.T, handler http.Handler) *network {
	t.Helper()
	n := &network{conns: make(chan net.Conn), closed: make(chan struct{})}
	transport := &http.Transport{
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return n.dial() },
		DisableCompression: true,
	}
	n.client = &http.Client{Transport: transport}
	server := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = server.Serve(n)
	}()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		<-stopped
	})
	return n
}

func (n *network) dial() (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case n.conns <- far:
		return near, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *network) Accept() (net.Conn, error) {
	select {
	case conn := <-n.conns:
		return conn, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error {
	close(n.closed)
	return nil
}

func (n *network) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// reply is a whole answer.
type reply struct {
	status int
	header http.Header
	body   string
}

// do sends a request and reads its whole answer.
func (n *network) do(t *testing.T, method, path, body string, header http.Header) reply {
	t.Helper()
	resp := n.start(t, t.Context(), method, path, strings.NewReader(body), header)
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read the answer of %s %s: %v", method, path, err)
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: string(got)}
}

// start sends a request and returns when its headers are there.
func (n *network) start(t *testing.T, ctx context.Context, method, path string, body io.Reader, header http.Header) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(req.Header, header)
	if host := header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := n.client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp
}

func (n *network) chat(t *testing.T, header http.Header) reply {
	t.Helper()
	return n.do(t, http.MethodPost, "/v1/chat/completions", chatBody, header)
}

// problem is an error in OpenAI's envelope.
type problem struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// problemOf reads the envelope strictly: one member, an object of four.
func problemOf(t *testing.T, body string) problem {
	t.Helper()
	var envelope struct {
		Error *problem `json:"error"`
	}
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&envelope); err != nil || envelope.Error == nil {
		t.Fatalf("the body is no error envelope: %v\n%s", err, body)
	}
	return *envelope.Error
}

func (p problem) code() string {
	if p.Code == nil {
		return ""
	}
	return *p.Code
}

func (p problem) param() string {
	if p.Param == nil {
		return ""
	}
	return *p.Param
}

// counter counts refusals by code.
type counter struct {
	mu    sync.Mutex
	codes map[string]int
}

func (c *counter) Refused(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.codes == nil {
		c.codes = map[string]int{}
	}
	c.codes[code]++
}

func (c *counter) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.codes)
}

// logBuffer keeps what was logged, as JSON lines.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
