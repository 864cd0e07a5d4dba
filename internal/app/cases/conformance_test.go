package cases

import (
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

// conformance are behaviours that have always held: what a configuration's
// targets resolve to (R) and what a stream is (X).
var conformance = theme{
	"CF_R1":  targetNamedTwiceIsAskedOnce,
	"CF_R2":  targetsThatDoNotExistAreRefused,
	"CF_R4":  healthyPrimaryIsAskedAlone, // and R3
	"CF_R6":  streamsFollowTheHealthOrder,
	"CF_R8":  onlyTargetIsAskedOnce,
	"CF_X1":  streamPassesUnchanged, // and X3, X17
	"CF_X4":  unpricedStreamHasNoCost,
	"CF_X5":  oneByteIsOneToken,
	"CF_X6":  abandonedStreamIsNoFailure,
	"CF_X7":  streamThatFailsKeepsItsUsage, // and X11
	"CF_X8":  siblingServesTheStream,
	"CF_X9":  secondSiblingServesTheStream,
	"CF_X10": lastFailureOfAStreamIsTold,
	"CF_X12": refusedStreamEndsThere,
	"CF_X13": limitedStreamMovesOn,
	"CF_X15": usageIsCountedWithoutTelemetry,
	"CF_X16": directStreamHasNoConfiguration,
	"CF_X18": retriesOfAStreamAreItsOwn,
}

// okStreamEnd is how a healthy stream ends for a client that did not ask for usage.
const okStreamEnd = apptest.FinishChunk + apptest.Done

// streamed checks that the client got a healthy target's stream.
func streamed(t *testing.T, answer apptest.Answer, target string) {
	t.Helper()
	equal(t, "status", answer.Status, 200)
	equal(t, "target", answer.Header.Get("X-Breakwater-Target"), target)
	equal(t, "stream", answer.Body, apptest.RoleChunk+apptest.Chunk("ok")+okStreamEnd)
}

func targetNamedTwiceIsAskedOnce(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Status(503))
	b := apptest.NewUpstream(t, apptest.Status(503))
	g := apptest.Start(t, apptest.Configuration(`configurations:
  chat: {targets: [{provider: alpha, model: m1}, {configuration: spare}]}
  spare: {targets: [{provider: alpha, model: m1}, {provider: beta, model: m1}]}
`, alpha(a), beta(b)))

	refused(t, g.Post(t, apptest.ChatBody), 503, "service_unavailable_error", "upstream_unavailable")

	equal(t, "calls of A and B", []int{a.Calls(), b.Calls()}, []int{1, 1})
}

func targetsThatDoNotExistAreRefused(t *testing.T) {
	up := &apptest.Upstream{URL: "http://127.0.0.1:1/v1"}
	told := apptest.Refused(t, apptest.Configuration(`configurations:
  chat: {targets: [{provider: alpha, model: m1}, {provider: nobody, model: m1}, {provider: alpha, model: m9}]}
`, alpha(up)))

	for _, fault := range []string{"targets[1].provider", `"nobody"`, "targets[2].model", `"m9"`} {
		if !strings.Contains(told, fault) {
			t.Errorf("%s is not named: %s", fault, told)
		}
	}
}

func healthyPrimaryIsAskedAlone(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OKStream())
	b := apptest.NewUpstream(t, apptest.OKStream())
	g := apptest.Start(t, apptest.TwoTargets(a, b))

	streamed(t, g.Post(t, apptest.StreamBody), circuitA)

	equal(t, "calls of A and B", []int{a.Calls(), b.Calls()}, []int{1, 0})
	rows(t, "runs", g.Runs(t, 1), apptest.Row{"attempts": 1, "fallbacks": 0, "served_provider": "alpha"})
}

func streamsFollowTheHealthOrder(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Status(500))
	b := apptest.NewUpstream(t, apptest.When(`"stream":true`, apptest.OKStream(), apptest.OK()))
	g := apptest.Start(t, apptest.TwoTargets(a, b,
		"health: {refresh: 100ms, reorder_fallback: true, reorder_primary: true}"))

	served(t, g.Post(t, apptest.ChatBody), circuitB) // A has failed, B has not
	apptest.Eventually(t, func() string {
		before := a.Calls()
		streamed(t, g.Post(t, apptest.StreamBody), circuitB)
		if a.Calls() > before {
			return "a stream still asks the sick target first"
		}
		return ""
	})
}

func onlyTargetIsAskedOnce(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Status(503))
	g := apptest.Start(t, apptest.OneTarget(a))

	refused(t, g.Post(t, apptest.StreamBody), 503, "service_unavailable_error", "upstream_unavailable")

	equal(t, "calls of A", a.Calls(), 1)
	rows(t, "attempts", g.Attempts(t, 1), failed("alpha", "server_error", "upstream_status"))
}

// A stream of 12 bytes of prompt and 11 of answer, whose provider reports no
// tokens.
const promptOf12 = `{"model":"chat","stream":true,"messages":[{"role":"user","content":"twelve bytes"}]}`

func streamPassesUnchanged(t *testing.T) {
	const unknown = "data: {\"id\":\"c1\",\"x_unknown\": [1.50],\"choices\":[{\"index\":0,\"delta\":{\"content\":\"eleven\"},\"finish_reason\":null}]}\n\n"
	sent := apptest.RoleChunk + unknown + apptest.Chunk("bytes") + apptest.FinishChunk + apptest.Done
	a := apptest.NewUpstream(t, apptest.Stream(apptest.RoleChunk, unknown, apptest.Chunk("bytes"), apptest.FinishChunk, apptest.Done))
	g := apptest.Start(t, apptest.OneTarget(a))

	answer := g.Post(t, promptOf12, "X-Correlation-ID", "caller-7")

	equal(t, "stream", answer.Body, sent)
	accounted := apptest.Row{"input_tokens": 3, "output_tokens": 3, "usage_estimated": true, "cost_usd": "0.000018"}
	rows(t, "attempts", g.Attempts(t, 1), accounted)
	runs := g.Runs(t, 1)
	rows(t, "runs", runs, accounted)
	rows(t, "runs", runs, apptest.Row{
		"outcome": "success", "configuration": "chat", "correlation_id": "caller-7", "streamed": true,
		"attempts": 1, "fallbacks": 0, "cache_hit": false, "served_model": "m1",
	})
	if runs[0]["ttft_ms"] == nil {
		t.Error("the time to the first token is not recorded")
	}
}

func unpricedStreamHasNoCost(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OKStream())
	g := apptest.Start(t, apptest.Configuration("", alpha(a, "models: {m1: {}}")))

	streamed(t, g.Post(t, apptest.StreamBody), circuitA)

	rows(t, "attempts", g.Attempts(t, 1), apptest.Row{"input_tokens": 10, "output_tokens": 2, "cost_usd": nil, "unpriced": true})
}

func oneByteIsOneToken(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Stream(apptest.Chunk("a"), apptest.FinishChunk, apptest.Done))
	g := apptest.Start(t, apptest.OneTarget(a))

	g.Post(t, apptest.StreamBody)

	rows(t, "attempts", g.Attempts(t, 1), apptest.Row{"provider": "alpha", "output_tokens": 1, "usage_estimated": true})
}

func abandonedStreamIsNoFailure(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Stream(apptest.Chunk("abcd"), time.Hour))
	g := apptest.Start(t, apptest.OneTarget(a))

	client := g.Open(t, apptest.StreamBody)
	client.Until("abcd")
	client.Leave()

	rows(t, "runs", g.Runs(t, 1), apptest.Row{"outcome": "cancelled", "failure_reason": "client_left", "output_tokens": 1})
	rows(t, "attempts", g.Attempts(t, 1), neutral("alpha", "cancelled", "client_left"))
	untroubled(t, g, circuitA)
}

func streamThatFailsKeepsItsUsage(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Stream(apptest.Chunk("abcdefgh"), "data: {\"error\":{\"message\":\"boom\",\"code\":500}}\n\n"))
	b := apptest.NewUpstream(t, apptest.OKStream())
	g := apptest.Start(t, apptest.Configuration("", alpha(a, "retry: {max: 2, base: 10ms}"), beta(b)))

	answer := g.Post(t, apptest.StreamBody)

	equal(t, "code", answer.LastError(t).Code, "upstream_stream_failed")
	equal(t, "calls of A and B", []int{a.Calls(), b.Calls()}, []int{1, 0})
	attempts := g.Attempts(t, 1)
	rows(t, "attempts", attempts, failed("alpha", "server_error", "upstream_status"))
	rows(t, "attempts", attempts, apptest.Row{"output_tokens": 2, "usage_estimated": true, "retries": 0})
	rows(t, "runs", g.Runs(t, 1), apptest.Row{"outcome": "failure", "attempts": 1, "fallbacks": 0, "output_tokens": 2})
}

func siblingServesTheStream(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Stream(apptest.RoleChunk, "data: {\"error\":{\"message\":\"boom\",\"code\":500}}\n\n"))
	b := apptest.NewUpstream(t, apptest.OKStream())
	g := apptest.Start(t, apptest.TwoTargets(a, b))

	streamed(t, g.Post(t, apptest.StreamBody), circuitB)

	rows(t, "runs", g.Runs(t, 1), apptest.Row{"requested_model": "chat", "served_provider": "beta", "attempts": 2, "fallbacks": 1, "input_tokens": 10})
	rows(t, "attempts", g.Attempts(t, 2), apptest.Row{"provider": "alpha", "input_tokens": nil}, apptest.Row{"provider": "beta", "input_tokens": 10})
}

func secondSiblingServesTheStream(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Status(500))
	b := apptest.NewUpstream(t, apptest.Reset())
	c := apptest.NewUpstream(t, apptest.OKStream())
	g := apptest.Start(t, apptest.Configuration("", alpha(a), beta(b), gamma(c)))

	streamed(t, g.Post(t, apptest.StreamBody), "gamma/m1/r3")

	rows(t, "runs", g.Runs(t, 1), apptest.Row{"attempts": 3, "fallbacks": 2, "served_provider": "gamma"})
}

func lastFailureOfAStreamIsTold(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Status(500))
	b := apptest.NewUpstream(t, apptest.Status(503))
	g := apptest.Start(t, apptest.TwoTargets(a, b))

	answer := g.Post(t, apptest.StreamBody)

	refused(t, answer, 503, "service_unavailable_error", "upstream_unavailable")
	equal(t, "target", answer.Header.Values("X-Breakwater-Target"), nil)
	rows(t, "runs", g.Runs(t, 1), apptest.Row{"outcome": "failure", "attempts": 2, "input_tokens": nil, "cost_usd": nil})
}

func refusedStreamEndsThere(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Status(400))
	b := apptest.NewUpstream(t, apptest.OKStream())
	g := apptest.Start(t, apptest.TwoTargets(a, b))

	equal(t, "status", g.Post(t, apptest.StreamBody).Status, 400)

	equal(t, "calls of B", b.Calls(), 0)
	rows(t, "runs", g.Runs(t, 1), apptest.Row{"outcome": "failure", "failure_class": "client_error", "input_tokens": nil})
}

func limitedStreamMovesOn(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Status(429))
	b := apptest.NewUpstream(t, apptest.OKStream())
	g := apptest.Start(t, apptest.TwoTargets(a, b))

	streamed(t, g.Post(t, apptest.StreamBody), circuitB)

	rows(t, "attempts", g.Attempts(t, 2), failed("alpha", "rate_limit", "rate_limited"), succeeded("beta"))
	g.AwaitMetric(t, `breakwater_fallbacks_total{class="rate_limit",configuration="chat",from_provider="alpha",to_provider="beta"}`, "1")
}

func usageIsCountedWithoutTelemetry(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OKStream())
	g := apptest.Start(t, apptest.OneTarget(a, "telemetry: {enabled: false}"))

	streamed(t, g.Post(t, apptest.StreamBody), circuitA)

	g.AwaitMetric(t, `breakwater_tokens_total{configuration="chat",direction="input",model="m1",provider="alpha"}`, "10")
	g.AwaitUsage(t, "configuration,provider,model", []string{"configuration", "model", "requests", "input_tokens", "output_tokens", "cost_usd"},
		"chat m1 1 10 2 0.00002")
	g.Runs(t, 0)
}

func directStreamHasNoConfiguration(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OKStream())
	g := apptest.Start(t, apptest.OneTarget(a))

	streamed(t, g.Post(t, strings.Replace(apptest.StreamBody, `"chat"`, `"alpha/m1"`, 1)), circuitA)

	rows(t, "runs", g.Runs(t, 1), apptest.Row{"configuration": nil, "requested_model": "alpha/m1", "served_provider": "alpha"})
}

func retriesOfAStreamAreItsOwn(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(500), apptest.Status(500), apptest.OKStream()))
	g := apptest.Start(t, apptest.Configuration("", alpha(a, "retry: {max: 2, base: 10ms}")))

	for range 2 {
		streamed(t, g.Post(t, apptest.StreamBody), circuitA)
	}

	rows(t, "attempts", g.Attempts(t, 2), apptest.Row{"retries": 2}, apptest.Row{"retries": 0})
}
