package cases

import (
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

// sparing is what keeps calls away from a target whose circuit is closed.
var sparing = theme{
	"R37_ramp":     recoveredTargetGetsAShare,
	"R38_throttle": targetThatAnswersLittleIsThrottled,
	"R40_rollup":   wholeProviderIsLeftAlone,
	"R40_limit":    lastTargetsStayInUse,
}

// many makes calls one after the other and returns how many A got of them.
func many(t *testing.T, g *apptest.Gateway, a *apptest.Upstream, n int) int {
	t.Helper()
	before := a.Calls()
	for range n {
		g.Post(t, apptest.ChatBody)
	}
	return a.Calls() - before
}

func recoveredTargetGetsAShare(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(500), apptest.OK()))
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.TwoTargets(a, b, "circuit_breaker: {failure_threshold: 1, cooldown: 100ms, cooldown_jitter: 0, recovery_ramp: 1h}"))

	g.Post(t, apptest.ChatBody) // opens
	g.AwaitEligible(t, circuitA)
	served(t, g.Post(t, apptest.ChatBody), circuitA)
	equal(t, "state after the probe", g.Circuit(t, circuitA).State, "closed")
	// A fifth of 100: fewer than 50, and more than none, but for one run in millions.
	if got := many(t, g, a, 100); got < 1 || got > 50 {
		t.Errorf("A got %d of 100 calls when its ramp began, want about 20", got)
	}
	equal(t, "calls that A did not get", a.Calls()+b.Calls(), 103)
	for _, row := range g.Attempts(t, a.Calls()+2*b.Calls()-1) {
		if row["outcome"] == "refused" && (row["failure_reason"] != "ramping" || row["circuit_state"] != "closed") {
			t.Fatalf("a call that was spared is on record as %v", row)
		}
	}
}

func targetThatAnswersLittleIsThrottled(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Status(500))
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.TwoTargets(a, b, "circuit_breaker: {failure_threshold: 100000, failure_rate_threshold: 0, soft_throttle: {enabled: true}}"))

	if got := many(t, g, a, 100); got < 1 || got > 50 {
		t.Errorf("A got %d of 100 calls, of which it answered none; want a few", got)
	}
	equal(t, "calls that B served", b.Calls(), 100)
	equal(t, "state of A", g.Circuit(t, circuitA).State, "closed")
}

func wholeProviderIsLeftAlone(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Status(500))
	b := apptest.NewUpstream(t, apptest.OK())
	text := "circuit_breaker: {failure_threshold: 1, cooldown: 1h, max_cooldown: 1h, provider_rollup: {enabled: true, percent: 100, min_open: 2}}\n" +
		"providers:\n  alpha: {kind: openai, base_url: " + a.URL + ", api_key: k, region: r1, retry: {max: 0}, models: {m1: {}, m2: {}, m3: {}}}\n" +
		"  beta: {kind: openai, base_url: " + b.URL + ", api_key: k, region: r2, models: {m1: {}}}\n" +
		"configurations:\n"
	for _, model := range []string{"m1", "m2", "m3"} {
		text += "  use-" + model + ": {targets: [{provider: alpha, model: " + model + "}, {provider: beta, model: m1}]}\n"
	}
	g := apptest.Start(t, text)
	ask := func(model string) {
		served(t, g.Post(t, `{"model":"use-`+model+`","messages":[{"role":"user","content":"hi"}]}`), circuitB)
	}
	ask("m1")
	ask("m2")
	apptest.Eventually(t, func() string {
		if list := apptest.Get(t, g.AdminURL+"/api/v1/circuits").Body; !strings.Contains(list, "alpha/@rollup/all") {
			return "the provider is not open: " + list
		}
		return ""
	})
	equal(t, "the provider is", g.Circuit(t, "alpha/@rollup/all").State, "open")
	equal(t, "calls to A before", a.Calls(), 2)
	ask("m3")
	equal(t, "calls to A after", a.Calls(), 2)
	equal(t, "the third is", g.Circuit(t, "alpha/m3/r1").State, "closed")
	rows(t, "the third", g.Attempts(t, 6)[4:5], apptest.Row{"outcome": "refused", "failure_reason": "rollup", "circuit_state": "closed"})
}

func lastTargetsStayInUse(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Status(500))
	b := apptest.NewUpstream(t, apptest.Status(500))
	g := apptest.Start(t, apptest.TwoTargets(a, b, "circuit_breaker: {failure_threshold: 1, cooldown: 1h, max_cooldown: 1h, max_open_percent: 50}"))
	many(t, g, b, 3)
	equal(t, "state of A", g.Circuit(t, circuitA).State, "open")
	equal(t, "state of B", g.Circuit(t, circuitB).State, "closed")
	equal(t, "calls to A", a.Calls(), 1)
	equal(t, "calls to B", b.Calls(), 3)
}
