package cases

import (
	"net/http"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

// perKey answers by the key that a request bears.
func perKey(scripts map[string]apptest.Script) apptest.Script {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		scripts[r.Header.Get("Authorization")](w, r, n)
	}
}

// underKeys counts the requests of an upstream by the key that they bore.
func underKeys(u *apptest.Upstream) map[string]int {
	counts := map[string]int{}
	for _, request := range u.Requests() {
		counts[request.Header.Get("Authorization")]++
	}
	return counts
}

const twoKeys = "api_keys: [sk-k1, sk-k2]"

func limitOfOneKeyLeavesOthersServing(t *testing.T) {
	limited := apptest.Status(429, "Retry-After", "30")
	t.Run("while_one_is_left", func(t *testing.T) {
		t.Parallel()
		a := apptest.NewUpstream(t, perKey(map[string]apptest.Script{"Bearer sk-k1": limited, "Bearer sk-k2": apptest.OK()}))
		g := apptest.Start(t, apptest.Configuration("", alpha(a, twoKeys)))

		for range 3 {
			served(t, g.Post(t, apptest.ChatBody), circuitA)
		}

		equal(t, "calls by key", underKeys(a), map[string]int{"Bearer sk-k1": 1, "Bearer sk-k2": 3})
		rows(t, "attempts", g.Attempts(t, 3)[:2], apptest.Row{"outcome": "success", "retries": 1}, apptest.Row{"outcome": "success", "retries": 0})
		untroubled(t, g, circuitA)
	})
	t.Run("until_none_is_left", func(t *testing.T) {
		t.Parallel()
		a := apptest.NewUpstream(t, perKey(map[string]apptest.Script{"Bearer sk-k1": limited, "Bearer sk-k2": apptest.Status(429, "Retry-After", "7")}))
		g := apptest.Start(t, apptest.Configuration("", alpha(a, twoKeys)))

		answer := g.Post(t, apptest.ChatBody)

		refused(t, answer, 429, "rate_limit_error", "upstream_rate_limited")
		equal(t, "Retry-After", answer.Header.Get("Retry-After"), "7")
		circuit := g.Circuit(t, circuitA)
		equal(t, "circuit", []any{circuit.State, circuit.Reason, circuit.Failures}, []any{"open", "retry_after", 1})
		refused(t, g.Post(t, apptest.ChatBody), 429, "rate_limit_error", "upstream_rate_limited")
		equal(t, "calls by key", underKeys(a), map[string]int{"Bearer sk-k1": 1, "Bearer sk-k2": 1})
	})
	t.Run("and_so_does_a_refused_one", func(t *testing.T) {
		t.Parallel()
		const alarm = `breakwater_alarms{kind="auth",provider="alpha"}`
		a := apptest.NewUpstream(t, perKey(map[string]apptest.Script{"Bearer sk-k1": apptest.Status(401), "Bearer sk-k2": apptest.OK()}))
		g := apptest.Start(t, apptest.Configuration("", alpha(a, twoKeys)))

		for range 3 {
			served(t, g.Post(t, apptest.ChatBody), circuitA)
		}

		equal(t, "calls by key", underKeys(a), map[string]int{"Bearer sk-k1": 1, "Bearer sk-k2": 3})
		g.AwaitMetric(t, alarm, "1") // which the calls that others serve do not end
		untroubled(t, g, circuitA)
	})
	t.Run("and_what_it_reported_is_counted", func(t *testing.T) {
		t.Parallel()
		const early = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m1\",\"choices\":[],\"usage\":{\"prompt_tokens\":1000,\"completion_tokens\":0}}\n\n"
		const refusal = "data: {\"error\":{\"message\":\"slow down\",\"code\":429,\"type\":\"rate_limit_error\"}}\n\n"
		for body, scripts := range map[string][2]apptest.Script{
			apptest.StreamBody: {apptest.Stream(apptest.RoleChunk, early, refusal), apptest.OKStream()},
			apptest.ChatBody:   {apptest.JSON(200, `{"error":{"message":"no credit","code":"insufficient_quota"},"usage":{"prompt_tokens":1000,"completion_tokens":0}}`), apptest.OK()},
		} {
			a := apptest.NewUpstream(t, apptest.Sequence(scripts[0], scripts[1]))
			g := apptest.Start(t, apptest.Configuration("", alpha(a, twoKeys)))
			answer := g.Post(t, body)
			equal(t, "status", answer.Status, 200)
			equal(t, "calls", a.Calls(), 2)
			rows(t, "attempts", g.AttemptsOf(t, answer), apptest.Row{"outcome": "success", "retries": 1, "input_tokens": 1010, "output_tokens": 2})
		}
	})
}
