package cases

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// healthA is the circuit of A's provider itself.
const healthA = "alpha/@health/r1"

// checked is the key of a provider that is checked often.
const checked = "health_check: {interval: 100ms, path: /status?deep=1, timeout: 20s}"

// checks are the requests of an upstream that are health checks.
func checks(u *apptest.Upstream) []apptest.Request {
	return slices.DeleteFunc(u.Requests(), func(r apptest.Request) bool { return r.Path != "/v1/status" })
}

// onChecks answers health checks by the first script, and calls by the second.
func onChecks(check, call apptest.Script) apptest.Script {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		if r.Method == http.MethodGet {
			check(w, r, n)
			return
		}
		call(w, r, n)
	}
}

func awaitChecks(t *testing.T, a *apptest.Upstream, n int) {
	t.Helper()
	apptest.Eventually(t, func() string {
		if got := len(checks(a)); got < n {
			return fmt.Sprintf("%d health checks, want %d", got, n)
		}
		return ""
	})
}

// openedAt is when a circuit opened for the first time.
func openedAt(t *testing.T, g *apptest.Gateway, circuit string) time.Time {
	t.Helper()
	var events []apptest.CircuitEvent // newest first
	apptest.Eventually(t, func() string {
		if events = g.History(t, circuit, "?limit=200").Parsed(t); len(events) == 0 {
			return "no event of " + circuit + " is written"
		}
		return ""
	})
	return events[len(events)-1].At
}

// checksBefore counts the health checks that had come when a circuit opened. Its
// probe comes a second later, and may come before anybody looks.
func checksBefore(a *apptest.Upstream, opened time.Time) int {
	all := checks(a)
	return len(slices.DeleteFunc(all, func(r apptest.Request) bool { return r.At.After(opened.Add(500 * time.Millisecond)) }))
}

// Whether a provider answers is known apart from what its models do.
func TestHealthChecksHaveACircuitOfTheirOwn(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, onChecks(apptest.Status(503), apptest.OK()))
	g := apptest.Start(t, apptest.Configuration("circuit_breaker: {failure_threshold: 3, cooldown: 1s, cooldown_multiplier: 1, cooldown_jitter: 0, probe: {mode: canary}}",
		alpha(a, checked)))

	awaitState(t, g, healthA, "open")
	equal(t, "health checks until it opened", checksBefore(a, openedAt(t, g, healthA)), 3)
	served(t, g.Post(t, apptest.ChatBody), circuitA)
	untroubled(t, g, circuitA)
	sent := checks(a)[0]
	equal(t, "request", sent.Path+"?"+sent.Query+" "+sent.Header.Get("Authorization")+" "+sent.Body, "/v1/status?deep=1 Bearer sk-alpha-secret ")

	a.SetScript(onChecks(apptest.JSON(200, `{}`), apptest.Status(500)))
	awaitState(t, g, healthA, "closed") // by a check that is its probe
	for range 3 {
		g.Post(t, apptest.ChatBody)
	}
	equal(t, "state of A's model", g.Circuit(t, circuitA).State, "open")
	awaitChecks(t, a, len(checks(a))+2)
	equal(t, "state of A itself", g.Circuit(t, healthA).State, "closed")
	g.AwaitMetric(t, `breakwater_circuit_state{model="@health",provider="alpha",region="r1"}`, "0")
	g.AwaitMetric(t, `breakwater_circuit_state{model="m1",provider="alpha",region="r1"}`, "1")
	if scores := g.Metrics(t, `breakwater_provider_health_score{model="@health"`); len(scores) > 0 {
		t.Errorf("health checks have a score: %v", scores)
	}
}

func TestHealthChecksAreRecordedApartFromCalls(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, onChecks(apptest.Status(404), apptest.OK()))
	g := apptest.Start(t, apptest.OneTarget(a, "")+"\n")
	equal(t, "reload", g.Reload(t, apptest.Configuration("", alpha(a, checked))), apptest.ReloadApplied)
	equal(t, "its circuit before the first check", g.Circuit(t, healthA).State, "closed")

	own := awaitOwn(t, g, "health_check", 2)
	rows(t, "run", own[:1], apptest.Row{
		"operation": "health_check", "api_key_id": nil, "configuration": nil, "correlation_id": "health_check:" + healthA,
		"outcome": "success", "attempts": 1.0, "input_tokens": nil, "cost_usd": nil, "served_provider": "alpha", "served_model": "@health",
	})
	rows(t, "attempts", attemptsOfRun(t, g, own[0]["run_id"]), apptest.Row{
		"provider": "alpha", "model": "@health", "outcome": "success", "probe": "health_check", "upstream_status": 404.0, "circuit_state": "closed",
	})
	equal(t, "what is listed by itself", len(ownRuns(t, g, "")), 0)
	for series, value := range g.Metrics(t, "breakwater_requests_total") {
		equal(t, series, value, "0")
	}
	if n := g.Metrics(t, `breakwater_own_calls_total{model="@health",operation="health_check",outcome="success"`); len(n) != 1 {
		t.Errorf("checks are counted as %v", n)
	}

	equal(t, "reload", g.Reload(t, apptest.OneTarget(a)), apptest.ReloadApplied)
	after := len(checks(a))
	apptest.Eventually(t, func() string { // one that was under way may end
		if answer := apptest.Get(t, g.AdminURL+"/api/v1/circuits"); strings.Contains(answer.Body, "@health") {
			return "its circuit is listed"
		}
		return ""
	})
	if more := len(checks(a)) - after; more > 1 {
		t.Errorf("%d checks after they were switched off", more)
	}
}

// A check that our credentials are not good for says nothing about the provider,
// but somebody must see to it; calls that go well do not end that.
func TestAHealthCheckRaisesAnAlarm(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, onChecks(apptest.Status(401), apptest.OK()))
	g := apptest.Start(t, apptest.OneTarget(a, "")+"\n")
	equal(t, "reload", g.Reload(t, apptest.Configuration("", alpha(a, checked))), apptest.ReloadApplied)
	const alarm = `breakwater_alarms{kind="auth",provider="alpha"}`
	awaitChecks(t, a, 3)
	g.AwaitMetric(t, alarm, "1")
	equal(t, "state", g.Circuit(t, healthA).State, "closed")
	equal(t, "failures", g.Circuit(t, healthA).ConsecutiveFailures, 0)
	served(t, g.Post(t, apptest.ChatBody), circuitA)
	g.AwaitMetric(t, alarm, "1")

	a.SetScript(onChecks(apptest.JSON(200, `{}`), apptest.OK()))
	g.AwaitMetric(t, alarm, "0")
}

// Gateways that share circuits share the checks as well.
func TestGatewaysThatShareCircuitsCheckInTurn(t *testing.T) {
	t.Parallel()
	const interval = 4 * time.Second // beside which the delays of a busy machine are short
	a := apptest.NewUpstream(t, onChecks(apptest.Status(503), apptest.OK()))
	nodes := fleet(t, 3, apptest.Configuration("circuit_breaker: {failure_threshold: 5, cooldown: 1m}\n"+onCache(redistest.Start(t)),
		alpha(a, "health_check: {interval: 4s, path: /status}")))
	for _, g := range nodes {
		awaitState(t, g, healthA, "open") // in each, by what all have found
	}
	sent := checks(a)
	if len(sent) < 5 || len(sent) > 6 { // one may be under way while the news goes round
		t.Errorf("%d checks of all gateways until the fifth failure opened the circuit", len(sent))
	}
	// One that comes late is near the next one: all of them tell how often they come.
	if gaps := time.Duration(len(sent) - 1); sent[len(sent)-1].At.Sub(sent[0].At) < gaps*interval*3/4 {
		t.Errorf("%d checks came within %v, want one about every %v", len(sent), sent[len(sent)-1].At.Sub(sent[0].At), interval)
	}
}
