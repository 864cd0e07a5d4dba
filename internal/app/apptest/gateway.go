package apptest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-llm/breakwater/internal/app"
	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// patience bounds every wait of a test; a slow machine needs most of it.
const patience = 20 * time.Second

// Gateway is a running gateway with a database of its own.
type Gateway struct {
	URL      string // data plane
	AdminURL string
	DB       *pgxpool.Pool
	Logs     *Logs

	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// Start runs the gateway with a configuration until the test ends. The text
// holds everything but listeners, database and auth, which Start adds.
func Start(t testing.TB, text string) *Gateway {
	t.Helper()
	return StartWith(t, text, postgrestest.URL(t))
}

// StartWith is Start on a database of the test's choice.
func StartWith(t testing.TB, text, databaseURL string) *Gateway {
	t.Helper()
	cfg := parse(t, text, databaseURL)
	pool, err := pgxpool.New(context.Background(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	g := &Gateway{DB: pool, Logs: &Logs{}, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel

	listening := make(chan struct{})
	go func() {
		defer close(g.done)
		g.err = app.Run(ctx, cfg, app.Options{
			Version: "test", Commit: "test",
			Log: slog.New(slog.NewJSONHandler(g.Logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
			Listening: func(data, admin string) {
				g.URL, g.AdminURL = "http://"+data, "http://"+admin
				close(listening)
			},
		})
	}()
	t.Cleanup(func() {
		if err := g.Stop(); err != nil {
			t.Errorf("stop the gateway: %v", err)
		}
		pool.Close()
	})
	select {
	case <-listening:
	case <-g.done:
		t.Fatalf("the gateway did not start: %v", g.err)
	}
	return g
}

// Terminate tells the gateway to stop, as SIGTERM does, without waiting.
func (g *Gateway) Terminate() { g.cancel() }

// Stop ends the gateway and returns what Run returned. It may be called twice.
func (g *Gateway) Stop() error {
	g.cancel()
	<-g.done
	return g.err
}

// Done is closed when the gateway has stopped.
func (g *Gateway) Done() <-chan struct{} { return g.done }

func parse(t testing.TB, text, databaseURL string) *config.Config {
	t.Helper()
	var frame strings.Builder
	sections := map[string]string{
		"server":    "server: {listen: \"127.0.0.1:0\", admin_listen: \"127.0.0.1:0\"}\n",
		"database":  fmt.Sprintf("database: {url: %q}\n", databaseURL),
		"auth":      "auth: {mode: open}\n",
		"telemetry": "telemetry: {flush_interval: 20ms}\n",
	}
	for name, section := range sections {
		if !strings.Contains("\n"+text, "\n"+name+":") {
			frame.WriteString(section)
		}
	}
	cfg, err := config.Parse("test.yaml", []byte(frame.String()+text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatalf("configuration:\n%s\n%v", text, err)
	}
	return cfg
}

// Provider describes one openai provider in a configuration made by Config.
type Provider struct {
	Name, Region string
	Upstream     *Upstream
	Extra        string // further keys of the provider, in flow style, such as "retry: {max: 2}"
}

// TwoTargets returns the setting of the cases: upstreams A = alpha/m1/r1 and
// B = beta/m1/r2 behind the configuration chat, no retries, short clocks, a
// breaker that opens at the tenth failure in a row for one second.
func TwoTargets(a, b *Upstream, more ...string) string {
	return Configuration(strings.Join(more, "\n"),
		Provider{Name: "alpha", Region: "r1", Upstream: a},
		Provider{Name: "beta", Region: "r2", Upstream: b})
}

// OneTarget is TwoTargets with A alone.
func OneTarget(a *Upstream, more ...string) string {
	return Configuration(strings.Join(more, "\n"), Provider{Name: "alpha", Region: "r1", Upstream: a})
}

// Configuration writes a configuration whose `chat` walks the providers in
// order; more holds further top-level sections, of which circuit_breaker
// replaces the cases' own.
func Configuration(more string, providers ...Provider) string {
	var text strings.Builder
	if !strings.Contains("\n"+more, "\ncircuit_breaker:") {
		text.WriteString("circuit_breaker: {failure_threshold: 10, cooldown: 1s, cooldown_jitter: 0}\n")
	}
	text.WriteString("providers:\n")
	for _, p := range providers {
		fmt.Fprintf(&text, "  %s:\n    kind: openai\n    base_url: %s\n    api_key: sk-%s-secret\n    region: %s\n", p.Name, p.Upstream.URL, p.Name, p.Region)
		if !strings.Contains(p.Extra, "timeouts:") {
			text.WriteString("    timeouts: {connect: 1s, first_token: 1s, idle: 500ms, total: 10s}\n")
		}
		if !strings.Contains(p.Extra, "retry:") {
			text.WriteString("    retry: {max: 0, base: 10ms}\n")
		}
		if !strings.Contains(p.Extra, "models:") {
			text.WriteString("    models: {m1: {input: 1, cached_input: 0.1, output: 5}, m2: {input: 1, output: 5}}\n")
		}
		for line := range strings.Lines(p.Extra) {
			text.WriteString("    " + line)
		}
		text.WriteString("\n")
	}
	if !strings.Contains("\n"+more, "\nconfigurations:") {
		text.WriteString("configurations:\n  chat:\n    targets:\n")
		for _, p := range providers {
			fmt.Fprintf(&text, "      - {provider: %s, model: m1}\n", p.Name)
		}
	}
	return text.String() + more + "\n"
}

// Answer is a whole response.
type Answer struct {
	Status int
	Header http.Header
	Body   string
	Err    error // of reading the body
	Took   time.Duration
}

// ChatBody is a small chat request for the configuration chat.
const ChatBody = `{"model":"chat","messages":[{"role":"user","content":"say ok"}]}`

// StreamBody is ChatBody streamed.
const StreamBody = `{"model":"chat","stream":true,"messages":[{"role":"user","content":"say ok"}]}`

// Post sends a body to the chat endpoint and reads the whole answer.
func (g *Gateway) Post(t testing.TB, body string, headers ...string) Answer {
	t.Helper()
	answer, err := g.TryPost(t.Context(), body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// TryPost is Post for a request that may fail or be given up.
func (g *Gateway) TryPost(ctx context.Context, body string, headers ...string) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return do(req)
}

// Get reads a URL of the data plane or, with AdminURL in front, of the admin
// plane.
func Get(t testing.TB, url string) Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := do(req)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func do(req *http.Request) (Answer, error) {
	begun := time.Now()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(body), Err: err, Took: time.Since(begun)}, nil
}

// DataEvents returns the payloads of the data lines of a stream.
func (a Answer) DataEvents() []string {
	var events []string
	for line := range strings.Lines(a.Body) {
		if data, ok := strings.CutPrefix(line, "data:"); ok {
			events = append(events, strings.TrimSpace(data))
		}
	}
	return events
}

// Content joins the text that a stream's chunks carry.
func (a Answer) Content(t testing.TB) string {
	t.Helper()
	var text strings.Builder
	for _, data := range a.DataEvents() {
		if data == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("event %q is not JSON: %v", data, err)
		}
		for _, choice := range chunk.Choices {
			text.WriteString(choice.Delta.Content)
		}
	}
	return text.String()
}

// Row is one row of a telemetry table, by column.
type Row map[string]any

// Runs waits for n runs and returns them, oldest first. More than n fail the
// test.
func (g *Gateway) Runs(t testing.TB, n int) []Row {
	t.Helper()
	return g.rows(t, n, "SELECT * FROM telemetry_runs ORDER BY started_at, run_id")
}

// Attempts waits for n attempts over all runs and returns them in order.
func (g *Gateway) Attempts(t testing.TB, n int) []Row {
	t.Helper()
	return g.rows(t, n, "SELECT * FROM telemetry_attempts ORDER BY started_at, run_id, seq")
}

// CircuitEvents waits for n circuit events and returns them in order.
func (g *Gateway) CircuitEvents(t testing.TB, n int) []Row {
	t.Helper()
	return g.rows(t, n, "SELECT * FROM circuit_events ORDER BY seq")
}

func (g *Gateway) rows(t testing.TB, n int, query string) []Row {
	t.Helper()
	var rows []Row
	Eventually(t, func() string {
		found, err := g.DB.Query(context.Background(), query)
		if err != nil {
			return err.Error()
		}
		maps, err := pgx.CollectRows(found, pgx.RowToMap)
		if err != nil {
			return err.Error()
		}
		rows = rows[:0]
		for _, m := range maps {
			rows = append(rows, Row(m))
		}
		if len(rows) < n {
			return fmt.Sprintf("%d rows, want %d: %s", len(rows), n, query)
		}
		return ""
	})
	if len(rows) > n {
		t.Fatalf("%d rows, want %d: %s\n%v", len(rows), n, query, rows)
	}
	return rows
}

// Circuit returns one circuit from the operator API; nil while it is unknown.
func (g *Gateway) Circuit(t testing.TB, key string) map[string]any {
	t.Helper()
	var list struct{ Circuits []map[string]any }
	if err := json.Unmarshal([]byte(Get(t, g.AdminURL+"/api/v1/circuits").Body), &list); err != nil {
		t.Fatal(err)
	}
	for _, circuit := range list.Circuits {
		if circuit["key"] == key {
			return circuit
		}
	}
	return nil
}

// Metric returns the value of one series, written as Prometheus prints it, or
// false when there is none.
func (g *Gateway) Metric(t testing.TB, series string) (string, bool) {
	t.Helper()
	for line := range strings.Lines(Get(t, g.AdminURL+"/metrics").Body) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			return value, true
		}
	}
	return "", false
}

// Eventually waits until check has nothing to complain about.
func Eventually(t testing.TB, check func() string) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		complaint := check()
		if complaint == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("still after %s: %s", patience, complaint)
		}
	}
}

// Logs keeps what the gateway logged.
type Logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write takes a line.
func (l *Logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns everything logged so far.
func (l *Logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
