package admin

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/health"
	"github.com/breakwater-llm/breakwater/internal/leaktest"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/runs"
	"github.com/breakwater-llm/breakwater/internal/telemetry"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// world is everything that the pages read; a test sets what it is about.
type world struct {
	mu         sync.Mutex
	circuits   []breaker.Snapshot
	callers    Callers
	report     health.Report
	alarms     []telemetry.Alarm
	runs       []runs.Run
	attempts   map[uuid.UUID][]runs.Attempt
	keys       map[string]string // names by id
	events     []runs.Event      // newest first
	broken     error             // of the database
	keysBroken error             // of the database, when names of keys are asked for
	database   Database
	cacheAway  bool
}

func (w *world) change(with func(*world)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	with(w)
}

func (w *world) Circuits() []breaker.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]breaker.Snapshot(nil), w.circuits...)
}

func (w *world) Report() health.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.report
}

func (w *world) Alarms() []telemetry.Alarm {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]telemetry.Alarm(nil), w.alarms...)
}

func (w *world) List(_ context.Context, f runs.Filter) (runs.Page, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return runs.Page{}, w.broken
	}
	return runs.Page{Runs: w.runs[:min(len(w.runs), f.Limit)]}, nil
}

func (w *world) Find(_ context.Context, id uuid.UUID) (runs.Run, []runs.Attempt, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return runs.Run{}, nil, w.broken
	}
	for _, run := range w.runs {
		if run.RunID == id {
			return run, w.attempts[id], nil
		}
	}
	return runs.Run{}, nil, runs.ErrNotFound
}

func (w *world) LatestOwn(_ context.Context, operation, correlationID string) (runs.Run, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, run := range w.runs {
		if run.Operation == operation && run.CorrelationID == correlationID {
			return run, w.broken
		}
	}
	return runs.Run{}, cmp.Or(w.broken, runs.ErrNotFound)
}

func (w *world) KeyNames(_ context.Context, ids []string) (map[string]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keysBroken != nil {
		return nil, w.keysBroken
	}
	names := map[string]string{}
	for _, id := range ids {
		if name, ok := w.keys[id]; ok {
			names[id] = name
		}
	}
	return names, nil
}

func (w *world) ListEvents(_ context.Context, f runs.EventFilter) (runs.EventPage, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return runs.EventPage{}, w.broken
	}
	var page runs.EventPage
	for _, e := range w.events {
		if e.Target() == f.Target && len(page.Events) < f.Limit {
			page.Events = append(page.Events, e)
		}
	}
	return page, nil
}

// never is longer than any test: a page is drawn anew only when it is woken.
const never = time.Hour

func (w *world) pages(adapt ...func(*Deps)) *Pages {
	deps := Deps{
		Circuits: w, Policy: func(string) Policy { return Policy{Name: "circuit_breaker"} }, Callers: func() Callers { return w.callers }, Health: w, Runs: w, History: w, Alarms: w,
		Database: func() Database { return w.database }, CacheAway: func() bool { return w.cacheAway },
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Refresh: never,
	}
	for _, change := range adapt {
		change(&deps)
	}
	return New(deps)
}

// serve puts the pages on a real listener until the test ends.
func serve(t *testing.T, pages *Pages) *httptest.Server {
	t.Helper()
	e := echo.New()
	pages.Register(e.Group(""))
	server := httptest.NewServer(e)
	t.Cleanup(func() {
		if err := pages.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return server
}

// get asks for a page and returns its answer, the body read.
func get(t *testing.T, server *httptest.Server, path string) (*http.Response, string) {
	t.Helper()
	response, err := server.Client().Get(server.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// document asks for a page that is there.
func document(t *testing.T, server *httptest.Server, path string) *goquery.Document {
	t.Helper()
	response, err := server.Client().Get(server.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: status %d", path, response.StatusCode)
	}
	page, err := goquery.NewDocumentFromReader(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// incident is a gateway in trouble: every kind of thing that a page can show.
func incident(now time.Time) *world {
	w := &world{
		circuits: []breaker.Snapshot{
			{Key: "anthropic/claude-sonnet-4-5/eu", Enabled: true, State: breaker.Closed, Generation: 1, Since: now.Add(-9 * time.Hour), Calls: 3120},
			{
				Key: "azure/gpt-4.1-mini/swedencentral", Enabled: true, State: breaker.HalfOpen, Reason: breaker.ReasonHalfOpen,
				Cause: "rate_limit", Generation: 9, Since: now.Add(-3 * time.Second), Rejected: 412, Probes: 4,
			},
			{Key: "mistral/mistral-small/default", Enabled: true, State: breaker.Closed, Generation: 1, Since: now.Add(-9 * time.Hour)},
			{Key: "ollama/llama3.2:1b/default", Enabled: true, State: breaker.Closed, Reason: breaker.ReasonProbeSuccess, Generation: 5, Since: now.Add(-52 * time.Minute), Calls: 88, Rejected: 17},
			{
				Key: "openai/gpt-4.1-mini/global", Enabled: true, State: breaker.Open, Reason: breaker.ReasonConsecutive, Cause: "server_error",
				Generation: 6, Since: now.Add(-2*time.Minute - 4*time.Second), RetryAfter: 21 * time.Second,
				Calls: 12, Failures: 9, ConsecutiveFailures: 5, Rejected: 1304,
			},
		},
		alarms: []telemetry.Alarm{{Provider: "mistral", Kind: llm.ClassAuth, Since: now.Add(-26 * time.Hour), Count: 42}},
	}
	w.report = report(15*time.Minute,
		figures("anthropic", "claude-sonnet-4-5", "eu", 0.94, 1840, 0.998, 912, 840, 2310),
		figures("azure", "gpt-4.1-mini", "swedencentral", 0.71, 96, 0.802, 1320, 1150, 6120),
		figures("mistral", "mistral-small", "default", 0, 0, 0, 0, 0, 0),
		figures("ollama", "llama3.2:1b", "default", 0.88, 61, 1, 2980, 2760, 5230),
		figures("openai", "gpt-4.1-mini", "global", 0.33, 214, 0.257, 1104, 980, 9870),
	)
	route := func(name string, keys ...string) {
		c := Configuration{Name: name}
		for _, key := range keys {
			t, _ := llm.ParseTarget(key)
			c.Targets = append(c.Targets, t)
		}
		w.callers.Configurations = append(w.callers.Configurations, c)
	}
	route("chat", "openai/gpt-4.1-mini/global", "azure/gpt-4.1-mini/swedencentral", "anthropic/claude-sonnet-4-5/eu")
	route("images", "openai/gpt-4.1-mini/global")
	route("summaries", "ollama/llama3.2:1b/default", "mistral/mistral-small/default")
	w.record(now)
	return w
}

// maintained is an incident in which an operator has set a circuit besides, and
// what came before it.
func maintained(now time.Time) *world {
	w := incident(now)
	const key = "vllm/qwen3-32b/dc1"
	w.circuits = append(w.circuits, breaker.Snapshot{
		Key: key, Enabled: true, State: breaker.ForcedOpen, Reason: breaker.ReasonOperator, Generation: 8, Since: now.Add(-41 * time.Minute),
		Actor: "anna", Note: "new driver, back by noon", Until: now.Add(79 * time.Minute), Rejected: 208,
	})
	w.report.Providers = append(w.report.Providers, figures("vllm", "qwen3-32b", "dc1", 0.62, 31, 0.71, 1420, 1210, 4020))
	t, _ := llm.ParseTarget(key)
	w.callers.Configurations[2].Targets = append(w.callers.Configurations[2].Targets, t)
	add := func(ago time.Duration, from, to breaker.State, reason, actor, counts string) {
		w.events = append(w.events, runs.Event{
			At: now.Add(-ago), Provider: t.Provider, Model: t.Model, Region: t.Region,
			FromState: from.String(), ToState: to.String(), Reason: reason, Actor: actor, Counts: []byte(counts),
		})
	}
	add(41*time.Minute, breaker.Open, breaker.ForcedOpen, breaker.ReasonOperator, "anna", `{}`)
	w.events[0].Note = new("new driver, back by noon")
	add(42*time.Minute, breaker.HalfOpen, breaker.Open, breaker.ReasonProbeFailure, breaker.ActorBreaker, `{"calls":1,"failures":1}`)
	add(43*time.Minute, breaker.Open, breaker.HalfOpen, breaker.ReasonHalfOpen, breaker.ActorBreaker, `{}`)
	add(44*time.Minute, breaker.Closed, breaker.Open, breaker.ReasonFailureRate, breaker.ActorBreaker, `{"calls":31,"failures":22}`)
	return w
}

// report puts targets, sorted by provider, into a report over a window.
func report(window time.Duration, targets ...health.ProviderReport) health.Report {
	return health.Report{WindowMs: window.Milliseconds(), Providers: targets}
}

// figures is a provider with one target; without samples there is no data.
func figures(provider, model, region string, score float64, samples int64, success float64, mean, p50, p99 int64) health.ProviderReport {
	t := health.TargetReport{Model: model, Region: region}
	if samples > 0 {
		t.Figures = health.Figures{Score: &score, Samples: samples, SuccessRate: &success, LatencyMeanMs: &mean}
		t.LatencyP50Ms, t.LatencyP99Ms = &p50, &p99
	}
	return health.ProviderReport{Provider: provider, Figures: t.Figures, Targets: []health.TargetReport{t}}
}

// record gives the world some runs: one that fell back, one that failed, one
// whose client left, and plain ones.
func (w *world) record(now time.Time) {
	w.attempts = map[uuid.UUID][]runs.Attempt{}
	w.addRun(now.Add(-4*time.Second), "success", "", "", 1240,
		attempt("openai/gpt-4.1-mini/global", "refused", "circuit_open", "circuit_open", 0, "open", 0),
		attempt("anthropic/claude-sonnet-4-5/eu", "success", "", "", 200, "closed", 1180))
	w.addRun(now.Add(-9*time.Second), "failure", "rate_limit", "rate_limited", 310,
		attempt("openai/gpt-4.1-mini/global", "refused", "circuit_open", "circuit_open", 0, "open", 0),
		attempt("azure/gpt-4.1-mini/swedencentral", "failure", "rate_limit", "rate_limited", 429, "half_open", 240))
	w.addRun(now.Add(-11*time.Second), "cancelled", "cancelled", "client_left", 4020,
		attempt("anthropic/claude-sonnet-4-5/eu", "neutral", "cancelled", "client_left", 200, "closed", 4011))
	for i := range 5 {
		w.addRun(now.Add(-time.Duration(15+3*i)*time.Second), "success", "", "", 870+int64(131*i),
			attempt("anthropic/claude-sonnet-4-5/eu", "success", "", "", 200, "closed", 850+int64(130*i)))
	}
}

func (w *world) addRun(at time.Time, outcome, class, reason string, latency int64, attempts ...runs.Attempt) uuid.UUID {
	// The time of a version 7 id is not read by anyone here; the tail is what
	// tells runs apart.
	id := uuid.NewSHA1(uuid.Nil, []byte(at.String()+outcome))
	last := attempts[len(attempts)-1]
	run := runs.Run{
		RunID: id, StartedAt: at, FinishedAt: at.Add(time.Duration(latency) * time.Millisecond),
		CorrelationID: "order-7731", Operation: "chat", Dialect: "openai", RequestedModel: "chat", Configuration: new("chat"),
		Outcome: outcome, FailureClass: pointer(class), FailureReason: pointer(reason), HTTPStatus: 200,
		LatencyMs: latency, OverheadUs: new(int64(410)), TTFTMs: new(int64(212)), Streamed: true,
		Attempts: 1, Fallbacks: int32(len(attempts) - 1),
	}
	if outcome == "failure" {
		run.HTTPStatus, run.TTFTMs = 429, nil
	} else {
		run.ServedProvider, run.ServedModel, run.ServedRegion = &last.Provider, &last.Model, &last.Region
		run.InputTokens, run.OutputTokens = new(int64(1204)), new(int64(187))
		run.CostUSD = new(decimal.RequireFromString("0.0064170000"))
	}
	for i := range attempts {
		attempts[i].RunID, attempts[i].Seq, attempts[i].StartedAt = id, int32(i+1), at
	}
	w.runs = append(w.runs, run)
	w.attempts[id] = attempts
	return id
}

func attempt(key, outcome, class, reason string, status int32, circuit string, latency int64) runs.Attempt {
	t, _ := llm.ParseTarget(key)
	a := runs.Attempt{
		Provider: t.Provider, Model: t.Model, Region: t.Region, Outcome: outcome,
		FailureClass: pointer(class), FailureReason: pointer(reason), CircuitState: &circuit,
	}
	if status > 0 {
		a.UpstreamStatus, a.LatencyMs = &status, &latency
	}
	return a
}

// pointer is nil for an empty word, as in the tables.
func pointer(word string) *string {
	if word == "" {
		return nil
	}
	return &word
}
