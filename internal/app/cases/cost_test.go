package cases

import (
	"fmt"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

var cost = theme{
	"CST_01": cachedTokensAreBilledOnce,
	"CST_03": cacheWritesAreBilledOnce,
	"CST_05": unknownPriceIsNotFree,
	"CST_06": freeIsNotUnknown,
	"CST_07": failedAttemptAddsNoUsage,
	"CST_08": billedFailureIsAccountedFor,

	"PRICE_TIERS": tieredPriceIsThatOfTheWholePrompt,
}

// completion is a whole answer with the given choices and usage.
func completion(choices, usage string) apptest.Script {
	return apptest.JSON(200, fmt.Sprintf(`{"id":"c1","object":"chat.completion","created":1,"model":"m1","choices":[%s],"usage":%s}`, choices, usage))
}

const oneChoice = `{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}`

// costs checks what one answer with the given usage costs at the given prices.
func costs(t *testing.T, prices, usage string, want apptest.Row) {
	t.Helper()
	a := apptest.NewUpstream(t, completion(oneChoice, usage))
	g := apptest.Start(t, apptest.Configuration("", alpha(a, "models: {m1: "+prices+"}")))

	equal(t, "status", g.Post(t, apptest.ChatBody).Status, 200)
	rows(t, "runs", g.Runs(t, 1), want)
	rows(t, "attempts", g.Attempts(t, 1), want)
}

func cachedTokensAreBilledOnce(t *testing.T) {
	costs(t, "{input: 1.00, cached_input: 0.10, output: 5.00}",
		`{"prompt_tokens":1000,"completion_tokens":100,"prompt_tokens_details":{"cached_tokens":800}}`,
		apptest.Row{"input_tokens": 1000, "cached_tokens": 800, "output_tokens": 100, "cost_usd": "0.00078"})
}

func cacheWritesAreBilledOnce(t *testing.T) {
	costs(t, "{input: 3, cached_input: 0.3, cache_write: 3.75, output: 15}",
		`{"prompt_tokens":2000,"completion_tokens":0,"prompt_tokens_details":{"cached_tokens":500,"cache_write_tokens":300}}`,
		apptest.Row{"input_tokens": 2000, "cached_tokens": 500, "cache_write_tokens": 300, "output_tokens": 0, "cost_usd": "0.004875"})
}

func unknownPriceIsNotFree(t *testing.T) {
	a := apptest.NewUpstream(t, completion(oneChoice, `{"prompt_tokens":10,"completion_tokens":2}`))
	g := apptest.Start(t, apptest.Configuration("", alpha(a, "models: {m1: {}}")))

	equal(t, "status", g.Post(t, apptest.ChatBody).Status, 200)
	want := apptest.Row{"input_tokens": 10, "output_tokens": 2, "cost_usd": nil, "unpriced": true}
	rows(t, "runs", g.Runs(t, 1), want)
	rows(t, "attempts", g.Attempts(t, 1), want)
	g.AwaitMetric(t, `breakwater_unpriced_attempts_total{configuration="chat",model="m1",provider="alpha"}`, "1")
}

// tieredPriceIsThatOfTheWholePrompt: a prompt at the bound costs the lower price,
// one token more costs the higher one for all of them; reasoning and sound have
// prices of their own.
func tieredPriceIsThatOfTheWholePrompt(t *testing.T) {
	const prices = "{input: 5, cached_input: 0.5, output: 30, reasoning: 40, audio_input: 100, audio_output: 200, tiers: [{above: 1000, input: 10, cached_input: 1, output: 45}]}"
	costs(t, prices, `{"prompt_tokens":1000,"completion_tokens":100,
		"prompt_tokens_details":{"cached_tokens":200,"audio_tokens":100},"completion_tokens_details":{"reasoning_tokens":30,"audio_tokens":20}}`,
		apptest.Row{"input_tokens": 1000, "output_tokens": 100, "reasoning_tokens": 30, "cost_usd": "0.0203"})
	costs(t, prices, `{"prompt_tokens":1001,"completion_tokens":100,
		"prompt_tokens_details":{"cached_tokens":200,"audio_tokens":100},"completion_tokens_details":{"reasoning_tokens":30,"audio_tokens":20}}`,
		apptest.Row{"input_tokens": 1001, "output_tokens": 100, "cost_usd": "0.01271"})
}

func freeIsNotUnknown(t *testing.T) {
	costs(t, "{input: 0, output: 0}", `{"prompt_tokens":10,"completion_tokens":2}`,
		apptest.Row{"input_tokens": 10, "output_tokens": 2, "cost_usd": "0", "unpriced": false})
}

func failedAttemptAddsNoUsage(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Status(503))
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.TwoTargets(a, b))

	served(t, g.Post(t, apptest.ChatBody), circuitB)

	rows(t, "runs", g.Runs(t, 1), apptest.Row{"input_tokens": 10, "output_tokens": 2, "cost_usd": "0.00002", "unpriced": false})
	rows(t, "attempts", g.Attempts(t, 2),
		apptest.Row{"provider": "alpha", "input_tokens": nil, "output_tokens": nil, "cost_usd": nil, "unpriced": false},
		apptest.Row{"provider": "beta", "input_tokens": 10, "output_tokens": 2, "cost_usd": "0.00002", "unpriced": false})
	g.AwaitUsage(t, "provider", []string{"provider", "requests", "attempts", "failures", "input_tokens", "cost_usd"},
		"alpha 0 1 1 0 0", "beta 1 1 0 10 0.00002")
	g.AwaitMetric(t, `breakwater_requests_total{configuration="chat",operation="chat",outcome="success"}`, "1")
}

func billedFailureIsAccountedFor(t *testing.T) {
	a := apptest.NewUpstream(t, completion("", `{"prompt_tokens":10,"completion_tokens":5}`))
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.TwoTargets(a, b))

	served(t, g.Post(t, apptest.ChatBody), circuitB)

	rows(t, "attempts", g.Attempts(t, 2),
		apptest.Row{"outcome": "failure", "failure_reason": "invalid_body", "input_tokens": 10, "output_tokens": 5, "cost_usd": "0.000035"},
		apptest.Row{"outcome": "success", "input_tokens": 10, "output_tokens": 2, "cost_usd": "0.00002"})
	rows(t, "runs", g.Runs(t, 1), apptest.Row{"outcome": "success", "cost_usd": "0.000055"})
}
