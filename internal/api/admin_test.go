package api_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// console is the operator API behind an in-memory network.
type console struct {
	*network
	deps       api.Admin
	simulators *simulators
	snapshot   *api.Snapshot
}

func setupAdmin(t *testing.T, change ...func(*api.Admin, *api.Snapshot)) *console {
	t.Helper()
	s := snapshot(nil)
	s.Policy = func(string) api.Policy {
		return api.Policy{Name: "default", Settings: policySettings, QuotaCooldown: 10 * time.Minute, SlowCall: slowCall,
			Probe: api.Probe{Mode: "canary", Prompt: "Say ok", Timeout: 5 * time.Second, MaxTokens: 5, Demand: 5 * time.Minute}}
	}
	c := &console{simulators: &simulators{now: simulation}, snapshot: s}
	c.deps = api.Admin{
		Snapshot: func() *api.Snapshot { return s },
		Gate:     api.NewGate(), Degraded: func() []string { return nil },
		Circuits: circuits{}, Simulators: c.simulators, Feed: api.NewFeed(api.FeedConfig{Writer: writer}), Events: &history{}, Runs: &archive{}, Health: report{},
		DatabaseAway: func(err error) bool { return errors.Is(err, errAway) },
		Config:       func() ([]byte, error) { return []byte(`{"providers":{"alpha":{"api_key":"***"}}}`), nil },
		Pages: func(pages *echo.Group) {
			show := func(c echo.Context) error { return c.String(http.StatusOK, "a page") }
			pages.GET("/page", show)
			pages.POST("/page", show)
		},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metric 1\n") }),
		Log:     (&logBuffer{}).logger(),
	}
	for _, alter := range change {
		alter(&c.deps, s)
	}
	c.deps.Gate.Open()
	c.network = serve(t, api.NewAdmin(c.deps))
	return c
}

func (c *console) get(t *testing.T, path string) reply {
	t.Helper()
	return c.do(t, http.MethodGet, path, "", nil)
}

var slowCall = api.SlowCall{Base: 2 * time.Second, Per1kInput: 200 * time.Millisecond, Per1kOutput: 15 * time.Second, Max: time.Minute}

var policySettings = breaker.Settings{
	SlowRate: breaker.All / 2, SlowCancels: true,
	Enabled: true, FailureThreshold: 5, FailureRate: breaker.All / 2, Window: breaker.Window{Span: 30 * time.Second, Buckets: 10}, MinCalls: 10,
	Cooldown: 30 * time.Second, CooldownMultiplier: 2, MaxCooldown: 5 * time.Minute,
	CooldownJitter: 0.25, MaxRetryAfter: time.Hour, HalfOpenCalls: 1, SuccessThreshold: 1,
	MaxHalfOpen: 2 * time.Minute, Lease: 30 * time.Second, StepDecay: time.Minute,
}

// circuits are scripted circuits by key.
type circuits map[string]breaker.Snapshot

func (c circuits) Circuits() []breaker.Snapshot {
	var all []breaker.Snapshot
	for _, s := range c {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b breaker.Snapshot) int { return strings.Compare(a.Key, b.Key) })
	return all
}

func (c circuits) Circuit(key string) (breaker.Snapshot, bool) {
	s, ok := c[key]
	return s, ok
}

var errAway = errors.New("the database is away at 10.1.2.3")

var simulation = api.Simulation{
	Mode: "ok", Status: 503, RetryAfter: 2 * time.Second, Latency: 50 * time.Millisecond, TokensPerSecond: 50, FailureRate: 0.25,
}

// simulators is one simulated provider, alpha.
type simulators struct {
	now api.Simulation
	err error
}

func (s *simulators) Simulation(provider string) (api.Simulation, bool) {
	return s.now, provider == "alpha"
}

func (s *simulators) Simulate(_ string, next api.Simulation) error {
	if s.err == nil {
		s.now = next
	}
	return s.err
}

func TestThePipelineIsListedFromTheOutsideIn(t *testing.T) {
	t.Parallel()
	got := setupAdmin(t).get(t, "/api/v1/pipeline")
	want := `{"middlewares":[{"name":"telemetry","priority":110},{"name":"fallback","priority":50}]}` + "\n"
	if got.status != 200 || got.body != want {
		t.Errorf("status %d, body %s, want %s", got.status, got.body, want)
	}
}

func TestTheEffectiveConfigurationIsShown(t *testing.T) {
	t.Parallel()
	got := setupAdmin(t).get(t, "/api/v1/config")
	if want := `{"providers":{"alpha":{"api_key":"***"}}}`; got.status != 200 || got.body != want {
		t.Errorf("status %d, body %s, want %s", got.status, got.body, want)
	}
}

func TestAnswersOfTheOperatorAPIAreDataAndNothingElse(t *testing.T) {
	t.Parallel()
	c := setupAdmin(t)
	for _, path := range []string{"/api/v1/pipeline", "/api/v1/nothing"} {
		got := c.get(t, path)
		want := map[string]string{
			"Content-Type": "application/json", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Referrer-Policy": "no-referrer",
		}
		for name, value := range want {
			if got.header.Get(name) != value {
				t.Errorf("GET %s: %s is %q, want %q", path, name, got.header.Get(name), value)
			}
		}
		checkIDs(t, got.header)
	}
}

func TestOnlyALoopbackHostIsAnswered(t *testing.T) {
	t.Parallel()
	tests := map[string]int{
		"localhost": 200, "LOCALHOST:8081": 200, "127.0.0.1": 200, "127.9.9.9:8081": 200, "[::1]": 200, "[::1]:8081": 200,
		"[::ffff:127.0.0.1]:8081": 200,
		"evil.test":               421, "localhost.evil.test": 421, "127.0.0.1.evil.test:8081": 421, "10.0.0.1": 421,
		"[fe80::1]": 421, "0.0.0.0:8081": 421, "localhost.": 421,
	}
	c := setupAdmin(t)
	for host, want := range tests {
		for _, path := range []string{"/api/v1/pipeline", "/metrics", "/readyz"} {
			got := c.do(t, http.MethodGet, path, "", http.Header{"Host": {host}})
			if got.status != want {
				t.Errorf("GET %s of %s: status %d, want %d", path, host, got.status, want)
			}
			if want == 421 && problemOf(t, got.body).code() != "misdirected_host" {
				t.Errorf("GET %s of %s: %s", path, host, got.body)
			}
		}
	}
}

// ADM-06: a page of another origin changes nothing; clients that are no browser
// are not affected.
func TestAStateChangeFromAnotherOriginIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		header http.Header
		want   int
	}{
		"no browser":              {nil, 200},
		"the same origin":         {http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"http://localhost"}}, 200},
		"an old browser's origin": {http.Header{"Origin": {"http://localhost"}}, 200},
		"another origin":          {http.Header{"Origin": {"https://evil.test"}}, 403},
		"another site":            {http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.test"}}, 403},
		"another port":            {http.Header{"Sec-Fetch-Site": {"same-site"}, "Origin": {"http://localhost:9999"}}, 403},
		"an origin of nowhere":    {http.Header{"Origin": {"null"}}, 403},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setupAdmin(t)
			got := c.do(t, http.MethodPut, "/api/v1/simulated/alpha", `{"mode":"hang"}`, tc.header)
			if got.status != tc.want {
				t.Errorf("status %d, want %d: %s", got.status, tc.want, got.body)
			}
			if changed := c.simulators.now.Mode == "hang"; changed != (tc.want == 200) {
				t.Errorf("changed: %v", changed)
			}
			if tc.want == 403 && problemOf(t, got.body).code() != "cross_origin" {
				t.Errorf("body %s", got.body)
			}
		})
	}
}

func TestMetricsAskForTheirTokenWhenThereIsOne(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		token, sent string
		want        int
	}{
		"open":            {"", "", 200},
		"the right token": {"s3cret", "Bearer s3cret", 200},
		"none":            {"s3cret", "", 401},
		"a wrong one":     {"s3cret", "Bearer s3cre", 401},
		"a longer one":    {"s3cret", "Bearer s3cret ", 200}, // a header's value ends before its blanks
		"another scheme":  {"s3cret", "s3cret", 401},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setupAdmin(t, func(_ *api.Admin, s *api.Snapshot) { s.MetricsToken = tc.token })
			got := c.do(t, http.MethodGet, "/metrics", "", http.Header{"Authorization": {tc.sent}})
			if got.status != tc.want {
				t.Fatalf("status %d, want %d", got.status, tc.want)
			}
			if tc.want == 200 && got.body != "metric 1\n" {
				t.Errorf("body %q", got.body)
			}
			if tc.want == 401 && (problemOf(t, got.body).code() != "invalid_token" || got.header.Get("WWW-Authenticate") == "") {
				t.Errorf("headers %v, body %s", got.header, got.body)
			}
		})
	}
}

func TestOperatorErrorsHaveTheSameEnvelope(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		method, path, body string
		wantStatus         int
		wantCode           string
		wantParam          string
	}{
		"an unknown path":              {"GET", "/api/v1/nothing", "", 404, "unknown_url", ""},
		"a wrong method":               {"DELETE", "/api/v1/pipeline", "", 405, "method_not_allowed", ""},
		"an unknown parameter":         {"GET", "/api/v1/pipeline?x=1", "", 400, "invalid_value", "x"},
		"no data plane here":           {"POST", "/v1/chat/completions", chatBody, 404, "unknown_url", ""},
		"an unknown simulated":         {"GET", "/api/v1/simulated/nope", "", 404, "not_found", ""},
		"a change of an unknown":       {"PUT", "/api/v1/simulated/nope", "{}", 404, "not_found", ""},
		"a body that is no JSON":       {"PUT", "/api/v1/simulated/alpha", "{", 400, "invalid_json", ""},
		"an unknown member":            {"PUT", "/api/v1/simulated/alpha", `{"speed":1}`, 400, "invalid_json", ""},
		"a repeated member":            {"PUT", "/api/v1/simulated/alpha", `{"mode":"ok","mode":"hang"}`, 400, "invalid_json", ""},
		"a wrong type":                 {"PUT", "/api/v1/simulated/alpha", `{"latency_ms":"1"}`, 400, "invalid_json", ""},
		"an unknown mode":              {"PUT", "/api/v1/simulated/alpha", `{"mode":"explode"}`, 400, "invalid_value", "mode"},
		"a status that is no failure":  {"PUT", "/api/v1/simulated/alpha", `{"status":200}`, 400, "invalid_value", "status"},
		"a latency beyond all clocks":  {"PUT", "/api/v1/simulated/alpha", `{"latency_ms":9223372036854775807}`, 400, "invalid_value", "latency_ms"},
		"a negative wait":              {"PUT", "/api/v1/simulated/alpha", `{"retry_after_ms":-1}`, 400, "invalid_value", "retry_after_ms"},
		"less than no speed":           {"PUT", "/api/v1/simulated/alpha", `{"tokens_per_second":-1}`, 400, "invalid_value", "tokens_per_second"},
		"more than all":                {"PUT", "/api/v1/simulated/alpha", `{"failure_rate":1.1}`, 400, "invalid_value", "failure_rate"},
		"a body without end":           {"PUT", "/api/v1/simulated/alpha", `{"mode":"` + strings.Repeat("x", 1<<17), 413, "request_too_large", ""},
		"a circuit key without region": {"GET", "/api/v1/circuits/alpha%2Fm1", "", 400, "invalid_value", "key"},
		"an unknown circuit":           {"GET", "/api/v1/circuits/nope%2Fm1%2Fr1", "", 404, "not_found", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setupAdmin(t)
			got := c.do(t, tc.method, tc.path, tc.body, nil)
			p := problemOf(t, got.body)
			if got.status != tc.wantStatus || p.code() != tc.wantCode || p.param() != tc.wantParam || p.Message == "" {
				t.Errorf("status %d, %s", got.status, got.body)
			}
			if c.simulators.now != simulation {
				t.Errorf("the refused change was made: %+v", c.simulators.now)
			}
		})
	}
}

func TestASimulatedProviderIsShownAndChanged(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		put  string // empty = GET
		want string
		then api.Simulation
	}{
		"shown": {
			"", `{"mode":"ok","status":503,"retry_after_ms":2000,"latency_ms":50,"tokens_per_second":50,"failure_rate":0.25}`, simulation,
		},
		"changed whole": {
			`{"mode":"error","status":500,"retry_after_ms":0,"latency_ms":5,"tokens_per_second":10,"failure_rate":0.5}`,
			`{"mode":"error","status":500,"retry_after_ms":0,"latency_ms":5,"tokens_per_second":10,"failure_rate":0.5}`,
			api.Simulation{Mode: "error", Status: 500, Latency: 5 * time.Millisecond, TokensPerSecond: 10, FailureRate: 0.5},
		},
		"what is left out stays, but for the share that fails": {
			`{"mode":"rate_limit"}`,
			`{"mode":"rate_limit","status":503,"retry_after_ms":2000,"latency_ms":50,"tokens_per_second":50,"failure_rate":0}`,
			api.Simulation{Mode: "rate_limit", Status: 503, RetryAfter: 2 * time.Second, Latency: 50 * time.Millisecond, TokensPerSecond: 50},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, method := setupAdmin(t), http.MethodGet
			if tc.put != "" {
				method = http.MethodPut
			}
			got := c.do(t, method, "/api/v1/simulated/alpha", tc.put, nil)
			if got.status != 200 || got.body != tc.want+"\n" {
				t.Errorf("status %d, body %s\nwant %s", got.status, got.body, tc.want)
			}
			if diff := cmp.Diff(tc.then, c.simulators.now); diff != "" {
				t.Errorf("simulation (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFaultInsideIsNotShownToOperatorsEither(t *testing.T) {
	t.Parallel()
	c := setupAdmin(t)
	c.simulators.err = errors.New("a secret of the inside")
	got := c.do(t, http.MethodPut, "/api/v1/simulated/alpha", `{}`, nil)
	if got.status != 500 || strings.Contains(got.body, "secret") || problemOf(t, got.body).code() != "internal_error" {
		t.Errorf("status %d, body %s", got.status, got.body)
	}
}
