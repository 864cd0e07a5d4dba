package cases

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

var retryFallback = theme{
	"FAL_01": retriesAreOneLayer,
	"FAL_03": circleOfConfigurationsIsRefused,
	"FAL_05": smallerModelIsSkipped,
	"FAL_06": skippedModelIsNoReason,
	"FAL_07": openCircuitsSayWhenToComeBack,
	"FAL_08": mixedCausesAreNoRateLimit,
	"FAL_09": malformedRequestIsTheCallersFault,
	"FAL_11": eachTargetHasItsOwnSettings,
}

func retriesAreOneLayer(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Status(503))
	b := apptest.NewUpstream(t, apptest.Status(503))
	const twice = "retry: {max: 2, base: 10ms}"
	g := apptest.Start(t, apptest.Configuration("", alpha(a, twice), beta(b, twice)))

	answer := g.Post(t, apptest.ChatBody)

	refused(t, answer, 503, "service_unavailable_error", "upstream_unavailable")
	equal(t, "calls of A and B", []int{a.Calls(), b.Calls()}, []int{3, 3})
	equal(t, "X-Breakwater-Attempts", answer.Header.Get("X-Breakwater-Attempts"), "2")
	rows(t, "runs", g.Runs(t, 1), apptest.Row{"attempts": 2, "fallbacks": 1})
	rows(t, "attempts", g.Attempts(t, 2), apptest.Row{"provider": "alpha", "retries": 2}, apptest.Row{"provider": "beta", "retries": 2})
}

func circleOfConfigurationsIsRefused(t *testing.T) {
	up := &apptest.Upstream{URL: "http://127.0.0.1:1/v1"}
	told := apptest.Refused(t, apptest.Configuration(`configurations:
  m1: {targets: [{provider: alpha, model: m1}, {configuration: m2}]}
  m2: {targets: [{provider: alpha, model: m2}, {configuration: m1}]}
`, alpha(up)))

	if !strings.Contains(told, "m1 -> m2 -> m1") {
		t.Errorf("the circle is not named: %s", told)
	}
}

func openCircuitsSayWhenToComeBack(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Status(503, "retry-after-ms", "72000"))
	b := apptest.NewUpstream(t, apptest.Status(503, "retry-after-ms", "33400"))
	g := apptest.Start(t, apptest.TwoTargets(a, b))

	begun := time.Now()
	comeBack(t, g.Post(t, apptest.ChatBody), 33400*time.Millisecond, begun)
	answer := g.Post(t, apptest.ChatBody)

	refused(t, answer, 503, "service_unavailable_error", "circuit_open")
	comeBack(t, answer, 33400*time.Millisecond, begun)
	equal(t, "calls of A and B", []int{a.Calls(), b.Calls()}, []int{1, 1})
	rows(t, "second run", g.Runs(t, 2)[1:], apptest.Row{"outcome": "failure", "failure_class": "circuit_open", "http_status": 503, "attempts": 0})
	rows(t, "its attempts", g.AttemptsOf(t, answer),
		apptest.Row{"provider": "alpha", "outcome": "refused", "failure_reason": "circuit_open", "latency_ms": nil},
		apptest.Row{"provider": "beta", "outcome": "refused", "failure_reason": "circuit_open", "latency_ms": nil})
}

// comeBack checks that Retry-After is what is left of a wait that began after
// begun, in whole seconds, rounded up.
func comeBack(t *testing.T, answer apptest.Answer, wait time.Duration, begun time.Time) {
	t.Helper()
	left := wait - time.Since(begun)
	told := answer.Header.Get("Retry-After")
	seconds, err := strconv.Atoi(told)
	if got := time.Duration(seconds) * time.Second; err != nil || got < left || got >= wait+time.Second {
		t.Errorf("Retry-After is %q with %s to %s left", told, left, wait)
	}
}

func mixedCausesAreNoRateLimit(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Status(429, "Retry-After", "180"))
	b := apptest.NewUpstream(t, apptest.Status(503, "retry-after-ms", "8400"))
	g := apptest.Start(t, apptest.TwoTargets(a, b))

	begun := time.Now()
	g.Post(t, apptest.ChatBody) // opens both
	answer := g.Post(t, apptest.ChatBody)
	refused(t, answer, 503, "service_unavailable_error", "circuit_open")
	comeBack(t, answer, 8400*time.Millisecond, begun)

	g.AwaitEligible(t, circuitB)
	b.SetScript(apptest.OK())
	served(t, g.Post(t, apptest.ChatBody), circuitB)
	equal(t, "calls of A", a.Calls(), 1)
}

func malformedRequestIsTheCallersFault(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a))

	answer := g.Post(t, `{"model": "m1", messages: [`)

	refused(t, answer, 400, "invalid_request_error", "invalid_json")
	equal(t, "calls of A", a.Calls(), 0)
	equal(t, "calls of A's circuit", g.Circuit(t, circuitA).Calls, 0)
	g.AwaitMetric(t, `breakwater_refusals_total{code="invalid_json"}`, "1")

	served(t, g.Post(t, apptest.ChatBody), circuitA)
	g.Runs(t, 1) // the refusal was no call and has no row
}

func eachTargetHasItsOwnSettings(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Status(503))
	b := apptest.NewUpstream(t, apptest.OK())
	elsewhere := &apptest.Upstream{URL: strings.TrimSuffix(b.URL, "/v1") + "/openai"}
	g := apptest.Start(t, apptest.Configuration(
		"configurations: {chat: {targets: [{provider: alpha, model: a-1}, {provider: beta, model: b-9}]}}",
		alpha(a, "models: {a-1: {}}"), beta(elsewhere, "models: {b-9: {}}")))

	answer := g.Post(t, apptest.ChatBody)

	served(t, answer, "beta/b-9/r2")
	toA, toB := a.Requests()[0], b.Requests()[0]
	equal(t, "A's credential", toA.Header.Get("Authorization"), "Bearer sk-alpha-secret")
	equal(t, "A's path", toA.Path, "/v1/chat/completions")
	equal(t, "A's body", toA.Body, strings.Replace(apptest.ChatBody, `"chat"`, `"a-1"`, 1))
	equal(t, "B's credential", toB.Header.Get("Authorization"), "Bearer sk-beta-secret")
	equal(t, "B's path", toB.Path, "/openai/chat/completions")
	equal(t, "B's body", toB.Body, strings.Replace(apptest.ChatBody, `"chat"`, `"b-9"`, 1))
	rows(t, "runs", g.Runs(t, 1), apptest.Row{"served_provider": "beta", "served_model": "b-9", "served_region": "r2"})
}
