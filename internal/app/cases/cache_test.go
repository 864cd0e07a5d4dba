package cases

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

var responseCache = theme{
	"CAC_01":                      everyFieldCounts,
	"CAC_03":                      callersHaveAnswersOfTheirOwn,
	"CAC_05":                      onlyGoodAnswersAreKept,
	"CAC_07":                      shapesDoNotMix,
	"CAC_08":                      hitsAreFree,
	"CAC_09":                      hitsAskNobody,
	"CF_K1":                       nothingIsKeptUnlessConfigured,
	"CF_K5":                       operatorsForgetAnswers,
	"CAC_degraded_answers":        degradedAnswers,
	"CAC_twins":                   twinsAreAskedOnce,
	"CAC_shared_between_gateways": gatewaysShareAnswers,
	"CAC_controls":                callersControlTheCache,
}

const caching = "response_cache: {ttl: 1h}"

// cached sends the chat and checks what the cache had for it.
func cached(t *testing.T, g *apptest.Gateway, body, want string, headers ...string) apptest.Answer {
	t.Helper()
	answer := g.Post(t, body, headers...)
	if answer.Status != 200 || answer.Header.Get("X-Breakwater-Cache") != want {
		t.Errorf("status %d, cache %q, want 200 and %q: %s", answer.Status, answer.Header.Get("X-Breakwater-Cache"), want, answer.Body)
	}
	return answer
}

func with(field string) string {
	return `{"model":"chat","messages":[{"role":"user","content":"hi"}]` + field + `}`
}

func everyFieldCounts(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a, caching))
	fields := []string{``, `,"temperature":0.3`, `,"top_p":0.5`, `,"max_tokens":7`, `,"n":1`, `,"stop":"x"`, `,"seed":1`, `,"tools":[]`, `,"tool_choice":"none"`, `,"logprobs":true`}
	for _, field := range fields {
		cached(t, g, with(field), "miss")
	}
	for _, field := range fields {
		cached(t, g, with(field), "hit")
		cached(t, g, with(field+`,"user":"u7","metadata":{"a":"b"}`), "hit")
	}
	equal(t, "calls", a.Calls(), len(fields))
}

// callersHaveAnswersOfTheirOwn: nobody is given, or may find out, what another
// key has asked, unless the configuration says so.
func callersHaveAnswersOfTheirOwn(t *testing.T) {
	for name, tt := range map[string]struct {
		cache string
		want  []string // of the first, the second and the first again
		calls int
	}{
		"apart":  {"{ttl: 1h}", []string{"miss", "miss", "hit"}, 2},
		"shared": {"{ttl: 1h, shared: true}", []string{"miss", "hit", "hit"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := apptest.NewUpstream(t, apptest.OK())
			g := apptest.Start(t, apptest.OneTarget(a, authKeys, "configurations:\n  chat:\n    targets: [{provider: alpha, model: m1}]\n    response_cache: "+tt.cache+"\n"))
			one, two := g.MintKey(t, "one", ""), g.MintKey(t, "two", "")
			for i, asker := range []apptest.Key{one, two, one} {
				cached(t, g, apptest.ChatBody, tt.want[i], asker.Authorization()...)
			}
			equal(t, "calls", a.Calls(), tt.calls)
		})
	}
	t.Run("what a limit of one cuts short is not shared", func(t *testing.T) {
		t.Parallel()
		short := completion(`{"index":0,"message":{"role":"assistant","content":"cut sho"},"finish_reason":"length"}`, `{"prompt_tokens":10,"completion_tokens":5}`)
		a := apptest.NewUpstream(t, apptest.When(`"max_tokens"`, short, apptest.OK()))
		g := apptest.Start(t, apptest.OneTarget(a, authKeys, "budget: {default_max_output: 5}", "configurations:\n  chat:\n    targets: [{provider: alpha, model: m1}]\n    response_cache: {ttl: 1h, shared: true}\n"))
		limited, free := g.MintKey(t, "limited", `"cost_per_day": 5`), g.MintKey(t, "free", "")
		cached(t, g, apptest.ChatBody, "miss", limited.Authorization()...)
		equal(t, "answer", cached(t, g, apptest.ChatBody, "miss", free.Authorization()...).Body, apptest.OKBody)
		equal(t, "answer", cached(t, g, apptest.ChatBody, "hit", limited.Authorization()...).Body, apptest.OKBody)
	})
}

func onlyGoodAnswersAreKept(t *testing.T) {
	empty := completion(`{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"stop"}`, `{"prompt_tokens":10,"completion_tokens":0}`)
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.JSON(200, `{"error":{"message":"x","type":"server_error"}}`), empty, apptest.Status(429), apptest.OK()))
	g := apptest.Start(t, apptest.OneTarget(a, caching))
	for range 3 {
		g.Post(t, apptest.ChatBody)
	}
	apptest.Eventually(t, func() string { // the 429 has left the circuit open for a moment
		if answer := g.Post(t, apptest.ChatBody); answer.Status != 200 {
			return answer.Body
		}
		return ""
	})
	equal(t, "answer", cached(t, g, apptest.ChatBody, "hit").Body, apptest.OKBody)
	equal(t, "calls", a.Calls(), 4)
}

func shapesDoNotMix(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a, caching))
	equal(t, "answer", cached(t, g, with(""), "miss").Body, apptest.OKBody)
	stream := cached(t, g, with(`,"stream":true,"stream_options":{"include_usage":true}`), "hit")
	equal(t, "content type", stream.Header.Get("Content-Type"), "text/event-stream")
	equal(t, "content", stream.Content(t), "ok")
	events := stream.DataEvents()
	equal(t, "end", events[len(events)-1], "[DONE]")
	if usage := events[len(events)-2]; !strings.Contains(usage, `"prompt_tokens":10`) || !strings.Contains(events[len(events)-3], `"finish_reason":"stop"`) {
		t.Errorf("events %q", events)
	}
	equal(t, "target", stream.Header.Get("X-Breakwater-Target"), circuitA)
	equal(t, "calls", a.Calls(), 1)
}

func hitsAreFree(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a, caching))
	cached(t, g, apptest.ChatBody, "miss")
	for range 3 {
		cached(t, g, apptest.ChatBody, "hit")
	}
	hit := apptest.Row{"cache_hit": true, "outcome": "success", "http_status": 200, "attempts": 0, "cost_usd": "0", "input_tokens": nil, "served_provider": "alpha"}
	rows(t, "runs", g.Runs(t, 4), apptest.Row{"cache_hit": false, "attempts": 1, "cost_usd": "0.00002", "input_tokens": 10}, hit, hit, hit)
	g.Attempts(t, 1)
	g.AwaitMetric(t, `breakwater_response_cache_total{result="hit"}`, "3")
	g.AwaitMetric(t, `breakwater_response_cache_total{result="miss"}`, "1")
}

func hitsAskNobody(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.OK(), apptest.Status(503)))
	g := apptest.Start(t, apptest.OneTarget(a, caching, "circuit_breaker: {failure_threshold: 1, cooldown: 1m}"))
	cached(t, g, apptest.ChatBody, "miss")
	equal(t, "another question", g.Post(t, with("")).Status, 503)
	before := g.Circuit(t, circuitA)
	equal(t, "circuit", before.State, "open")
	cached(t, g, apptest.ChatBody, "hit")
	after := g.Circuit(t, circuitA)
	equal(t, "circuit", []any{after.State, after.Calls, after.Failures}, []any{before.State, before.Calls, before.Failures})
}

func nothingIsKeptUnlessConfigured(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a))
	for range 2 {
		cached(t, g, apptest.ChatBody, "")
	}
	equal(t, "calls", a.Calls(), 2)
}

func operatorsForgetAnswers(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a, caching))
	refresh := []string{"X-Breakwater-Cache", "refresh"} // which waits for what is kept
	cached(t, g, apptest.ChatBody, "miss", refresh...)
	cached(t, g, with(""), "miss", refresh...)
	cached(t, g, strings.Replace(with(""), `"chat"`, `"alpha/m1"`, 1), "miss", refresh...)
	clears := func(query string, status int, want string) {
		t.Helper()
		answer, err := apptest.Do(t.Context(), http.MethodDelete, g.AdminURL+"/api/v1/response-cache"+query, "")
		if err != nil || answer.Status != status || !strings.Contains(answer.Body, want) {
			t.Errorf("%s: %d %s (%v), want %d %s", query, answer.Status, answer.Body, err, status, want)
		}
	}
	clears("?configuration=other", 404, `"not_found"`)
	clears("?configuratoin=chat", 400, `"invalid_value"`)
	clears("?configuration=chat", 200, `{"deleted":2}`)
	clears("?configuration=chat", 200, `{"deleted":0}`)
	clears("", 200, `{"deleted":1}`) // of the direct target
	cached(t, g, apptest.ChatBody, "miss")
}

func missed(answer apptest.Answer) string {
	if had := answer.Header.Get("X-Breakwater-Cache"); had != "hit" {
		return "the cache had: " + had
	}
	return ""
}

func degradedAnswers(t *testing.T) {
	const section = "configurations:\n  chat:\n    targets: [{provider: alpha, model: m1}]\n    response_cache: {ttl: 1ns}\n    degrade: {stale: 1h, message: We are away.}\n"
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.OK(), apptest.Status(500)))
	g := apptest.Start(t, apptest.OneTarget(a, section))
	cached(t, g, apptest.ChatBody, "miss", "X-Breakwater-Cache", "refresh") // which waits for what is kept, and then is past its time
	isDegraded := func(answer apptest.Answer, how, text, target string) {
		t.Helper()
		equal(t, "degraded", []string{answer.Header.Get("X-Breakwater-Degraded"), answer.Header.Get("X-Breakwater-Target")}, []string{how, target})
		if !strings.Contains(answer.Body, `"ai_degraded":true`) || !strings.Contains(answer.Body, text) {
			t.Errorf("answer %s", answer.Body)
		}
	}
	isDegraded(cached(t, g, apptest.ChatBody, "stale"), "stale", `"content":"ok"`, circuitA)
	isDegraded(cached(t, g, with(""), "miss"), "message", "We are away.", "")
	stream := cached(t, g, with(`,"stream":true`), "miss")
	isDegraded(stream, "message", "We are away.", "")
	equal(t, "content", stream.Content(t), "We are away.")
	failing := apptest.Row{"outcome": "failure", "failure_class": "server_error"}
	rows(t, "attempts", g.Attempts(t, 4), succeeded("alpha"), failing, failing, failing)
	message := apptest.Row{"degraded": "message", "outcome": "success", "cache_hit": false, "served_provider": nil, "failure_class": nil}
	rows(t, "runs", g.Runs(t, 4), apptest.Row{"degraded": nil, "outcome": "success"},
		apptest.Row{"degraded": "stale", "outcome": "success", "cache_hit": true, "served_provider": "alpha", "failure_class": nil},
		message, message)
	g.AwaitMetric(t, `breakwater_degraded_answers_total{degradation="message"}`, "2")
	g.AwaitMetric(t, `breakwater_response_cache_total{result="stale"}`, "1")
}

func twinsAreAskedOnce(t *testing.T) {
	release := make(chan struct{})
	a := apptest.NewUpstream(t, apptest.Held(release, apptest.OK()))
	g := apptest.Start(t, apptest.OneTarget(a, caching))
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			body := apptest.ChatBody
			if i%2 == 1 {
				body = strings.Replace(body, "{", `{"user":"twin",`, 1)
			}
			answer, err := g.TryPost(t.Context(), body)
			if err != nil || answer.Body != apptest.OKBody {
				t.Errorf("%v: %s", err, answer.Body)
			}
		})
	}
	apptest.Eventually(t, func() string {
		if a.Calls() == 0 {
			return "nobody has asked"
		}
		return ""
	})
	close(release)
	all.Wait()
	equal(t, "calls", a.Calls(), 1)
	g.AwaitMetric(t, `breakwater_response_cache_total{result="hit"}`, "99")
}

func gatewaysShareAnswers(t *testing.T) {
	server := redistest.Start(t)
	a := apptest.NewUpstream(t, apptest.OK())
	settings := apptest.OneTarget(a, caching, onCache(server))
	one, two := apptest.Start(t, settings), apptest.Start(t, settings)
	cached(t, one, apptest.ChatBody, "miss")
	apptest.Eventually(t, func() string {
		if !strings.Contains(strings.Join(server.Keys(), " "), "breakwater:responses:{chat}:") {
			return "the answer is not there yet"
		}
		return ""
	})
	cached(t, two, apptest.ChatBody, "hit")
	for _, key := range server.Keys() {
		if endless(server, key) {
			t.Errorf("%s stays for ever", key)
		}
	}
	server.Kill()
	equal(t, "while the cache is away", two.Post(t, apptest.ChatBody).Body, apptest.OKBody)
	equal(t, "calls", a.Calls(), 2)
}

func callersControlTheCache(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a, caching))
	cached(t, g, apptest.ChatBody, "miss")
	cached(t, g, apptest.ChatBody, "hit")
	cached(t, g, apptest.ChatBody, "miss", "X-Breakwater-Cache", "refresh")
	cached(t, g, apptest.ChatBody, "", "X-Breakwater-Cache", "no-store")
	equal(t, "calls", a.Calls(), 3)
	refused(t, g.Post(t, apptest.ChatBody, "X-Breakwater-Cache", "never"), 400, "invalid_request_error", "invalid_value")
}
