package cases

import (
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

// longBody asks for an answer to about 20,000 tokens.
var longBody = strings.Replace(apptest.ChatBody, "say ok", strings.Repeat("word ", 16_000), 1)

// Models that declare how much they can take.
const (
	window128k = "models: {m1: {context_window: 128000}}"
	window8k   = "models: {m1: {context_window: 8192}}"
)

// tooLong is what a model says to a prompt over its window.
func tooLong() apptest.Script {
	return apptest.JSON(400, `{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`)
}

func smallerModelIsSkipped(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Status(503))
	b := apptest.NewUpstream(t, tooLong())
	c := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.Configuration("", alpha(a, window128k), beta(b, window8k), gamma(c, window128k)))

	served(t, g.Post(t, longBody), "gamma/m1/r3")

	equal(t, "calls of B", b.Calls(), 0)
	rows(t, "attempts", g.Attempts(t, 3), failed("alpha", "server_error", "upstream_status"), skipped("beta"), succeeded("gamma"))
	rows(t, "runs", g.Runs(t, 1), apptest.Row{"outcome": "success", "attempts": 2, "fallbacks": 2, "served_provider": "gamma"})
	g.AwaitMetric(t, `breakwater_attempts_total{class="unfit",model="m1",outcome="refused",provider="beta",region="r2"}`, "1")
	untroubled(t, g, circuitB)

	b.SetScript(apptest.OK())
	served(t, g.Post(t, apptest.ChatBody), circuitB) // a short prompt fits it
}

func skippedModelIsNoReason(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Status(503, "Retry-After", "7"))
	b := apptest.NewUpstream(t, tooLong())
	g := apptest.Start(t, apptest.Configuration("", alpha(a, window128k), beta(b, window8k)))

	answer := g.Post(t, longBody)

	refused(t, answer, 503, "service_unavailable_error", "upstream_unavailable")
	equal(t, "Retry-After", answer.Header.Get("Retry-After"), "7")
	equal(t, "calls of B", b.Calls(), 0)
	rows(t, "attempts", g.Attempts(t, 2), failed("alpha", "server_error", "upstream_status"), skipped("beta"))
	rows(t, "runs", g.Runs(t, 1), apptest.Row{"outcome": "failure", "failure_class": "server_error", "attempts": 1})
}

// skipped is the row of a target that a request does not fit.
func skipped(provider string) apptest.Row {
	return apptest.Row{"provider": provider, "outcome": "refused", "failure_class": "unfit", "failure_reason": "context_window", "upstream_status": nil, "latency_ms": nil}
}
