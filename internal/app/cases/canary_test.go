package cases

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// asked is what the canaries of these tests ask.
const asked = "Are you well?"

// canary is eager with canaries that may take long, and with further keys of the
// probe.
func canary(keys ...string) string {
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == "" })
	if !strings.Contains(strings.Join(keys, " "), "timeout:") {
		keys = append(keys, "timeout: 1m")
	}
	return strings.TrimSuffix(eager, "}") + ", probe: {mode: canary, prompt: \"" + asked + "\", " + strings.Join(keys, ", ") + "}}"
}

// canaries are the requests of an upstream that are canaries.
func canaries(u *apptest.Upstream) []apptest.Request {
	return slices.DeleteFunc(u.Requests(), func(r apptest.Request) bool { return !strings.Contains(r.Body, asked) })
}

// awaitCanary has callers ask until an upstream has got so many canaries. They
// all must be served by B meanwhile.
func awaitCanary(t *testing.T, a *apptest.Upstream, n int, gateways ...*apptest.Gateway) {
	t.Helper()
	apptest.Eventually(t, func() string {
		for _, g := range gateways {
			served(t, g.Post(t, apptest.ChatBody), circuitB)
		}
		if got := len(canaries(a)); got < n {
			return fmt.Sprintf("%d canaries, want %d", got, n)
		}
		return ""
	})
}

// ownRuns lists the runs of an operation by the operator API.
func ownRuns(t *testing.T, g *apptest.Gateway, operation string) []apptest.Row {
	t.Helper()
	var list struct{ Runs []apptest.Row }
	if err := json.Unmarshal([]byte(apptest.Read(t, g.AdminURL+"/api/v1/runs?operation="+operation).Body), &list); err != nil {
		t.Fatal(err)
	}
	return list.Runs
}

// everywhereACanaryGoes runs a test by itself and with two gateways on one cache.
func everywhereACanaryGoes(t *testing.T, test func(t *testing.T, start func(text string) []*apptest.Gateway)) {
	t.Helper()
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		test(t, func(text string) []*apptest.Gateway { return []*apptest.Gateway{apptest.Start(t, text)} })
	})
	for _, store := range []string{"cached", "strict"} {
		t.Run("two_on_one_cache_"+store, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			test(t, func(text string) []*apptest.Gateway {
				return fleet(t, 2, strings.Replace(text, "probe:", "store: "+store+", probe:", 1)+onCache(server)+"\n")
			})
		})
	}
}

// R36, X19: callers are spared what one canary finds out, over all gateways.
func TestACanaryFindsOutBeforeCallersDo(t *testing.T) {
	t.Parallel()
	everywhereACanaryGoes(t, func(t *testing.T, start func(string) []*apptest.Gateway) {
		release := make(chan struct{})
		a := apptest.NewUpstream(t, apptest.When(asked, apptest.Held(release, apptest.OK()), apptest.Status(500)))
		b := apptest.NewUpstream(t, apptest.OK())
		nodes := start(apptest.TwoTargets(a, b, canary("expect: OK")))

		served(t, nodes[0].Post(t, apptest.ChatBody), circuitB) // opens A
		for _, g := range nodes {
			awaitState(t, g, circuitA, "open")
		}
		calls := a.Calls()
		awaitCanary(t, a, 1, nodes...)
		for _, g := range nodes { // it is under way
			awaitState(t, g, circuitA, "half_open")
			for range 5 {
				served(t, g.Post(t, apptest.ChatBody), circuitB)
			}
			if circuit := g.Circuit(t, circuitA); circuit.Eligible || circuit.Reason != "canary" {
				t.Errorf("while the canary is under way the circuit is %+v", circuit)
			}
		}
		equal(t, "what A was sent", a.Calls()-calls, 1)

		a.SetScript(apptest.OK())
		close(release)
		for _, g := range nodes {
			apptest.Eventually(t, func() string {
				if circuit := g.Circuit(t, circuitA); circuit.Reason != "canary_success" {
					return "the circuit is " + circuit.State + " by " + circuit.Reason
				}
				return ""
			})
		}
		answer := nodes[len(nodes)-1].Post(t, apptest.ChatBody)
		served(t, answer, circuitA)
		rows(t, "attempt", nodes[0].AttemptsOf(t, answer), apptest.Row{"probe": "probe", "circuit_state": "half_open"})
		for _, g := range nodes {
			awaitState(t, g, circuitA, "closed")
		}
		equal(t, "canaries", len(canaries(a)), 1)
		var steps []string
		for _, e := range byTime(nodes[0].CircuitEvents(t, 4)) {
			steps = append(steps, fmt.Sprint(e["from_state"], " ", e["to_state"], " ", e["reason"]))
		}
		equal(t, "transitions", steps, []string{
			"closed open consecutive", "open half_open canary", "half_open half_open canary_success", "half_open closed probe_success",
		})
	})
}

// What a canary is, was, and cost is told apart from what callers did.
func TestACanaryIsRecordedApartFromCalls(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(500), apptest.OK()))
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.TwoTargets(a, b, canary("max_tokens: 7", "closes: true")))
	g.Post(t, apptest.ChatBody)
	calls := 1
	apptest.Eventually(t, func() string {
		if state := g.Circuit(t, circuitA).State; state != "closed" {
			g.Post(t, apptest.ChatBody)
			calls++
			return "the circuit is " + state
		}
		return ""
	})
	ofA := a.Calls() - 1 // of callers
	equal(t, "what callers asked of A", ofA >= 1, true)
	equal(t, "what A was sent", len(canaries(a)), 1)

	sent := canaries(a)[0]
	equal(t, "question", sent.Body, `{"model":"m1","messages":[{"role":"user","content":"`+asked+`"}],"max_tokens":7}`)
	equal(t, "credential", sent.Header.Get("Authorization"), "Bearer sk-alpha-secret")

	apptest.Eventually(t, func() string {
		if len(ownRuns(t, g, "canary")) == 0 {
			return "the canary is not recorded"
		}
		return ""
	})
	want := apptest.Row{
		"operation": "canary", "api_key_id": nil, "configuration": nil, "requested_model": "alpha/m1", "correlation_id": "canary:" + circuitA,
		"served_provider": "alpha", "served_model": "m1", "served_region": "r1", "outcome": "success", "attempts": 1.0, "fallbacks": 0.0,
		"input_tokens": 10.0, "output_tokens": 2.0, "cost_usd": 0.00002, "http_status": 200.0, "streamed": false,
	}
	runs := ownRuns(t, g, "canary")
	rows(t, "runs", runs, want)
	rows(t, "attempts", attemptsOfRun(t, g, runs[0]["run_id"]), apptest.Row{
		"provider": "alpha", "outcome": "success", "probe": "canary", "circuit_state": "half_open", "retries": 0.0, "cost_usd": 0.00002,
	})
	for _, run := range ownRuns(t, g, "") {
		equal(t, "operation of what is listed by itself", run["operation"], any("chat"))
	}

	requests := 0
	for series, value := range g.Metrics(t, "breakwater_requests_total") {
		if value != "0" && !strings.Contains(series, `operation="chat"`) {
			t.Errorf("%s is %s", series, value)
		}
		n := 0
		_, _ = fmt.Sscan(value, &n)
		requests += n
	}
	equal(t, "requests", requests, calls)
	own := `{model="m1",operation="canary",outcome="success",provider="alpha",region="r1"}`
	g.AwaitMetric(t, "breakwater_own_calls_total"+own, "1")
	g.AwaitMetric(t, `breakwater_own_cost_usd_total{model="m1",operation="canary",provider="alpha",region="r1"}`, "2e-05")
	g.AwaitMetric(t, `breakwater_attempts_total{class="",model="m1",outcome="success",provider="alpha",region="r1"}`, fmt.Sprint(ofA-1))
	sampled(t, g, circuitA, ofA)
	equal(t, "what the window of A shows", g.Circuit(t, circuitA).Calls, ofA-1)
}

// attemptsOfRun lists the attempts of a run by the operator API.
func attemptsOfRun(t *testing.T, g *apptest.Gateway, run any) []apptest.Row {
	t.Helper()
	var detail struct{ Attempts []apptest.Row }
	if err := json.Unmarshal([]byte(apptest.Read(t, g.AdminURL+"/api/v1/runs/"+fmt.Sprint(run)).Body), &detail); err != nil {
		t.Fatal(err)
	}
	return detail.Attempts
}

// sampled checks that the score of a target is made of so many calls.
func sampled(t *testing.T, g *apptest.Gateway, key string, samples int) {
	t.Helper()
	apptest.Eventually(t, func() string {
		var report struct {
			Providers []struct {
				Provider string
				Targets  []struct {
					Model, Region string
					Samples       int
				}
			}
		}
		if err := json.Unmarshal([]byte(apptest.Get(t, g.AdminURL+"/api/v1/health/providers").Body), &report); err != nil {
			return err.Error()
		}
		for _, p := range report.Providers {
			for _, target := range p.Targets {
				if p.Provider+"/"+target.Model+"/"+target.Region == key && target.Samples == samples {
					return ""
				}
			}
		}
		return fmt.Sprintf("%s has other than %d samples: %+v", key, samples, report)
	})
}

// R36: a target that nobody wants is left alone.
func TestNoCanaryWithoutDemand(t *testing.T) {
	t.Parallel()
	everywhereACanaryGoes(t, func(t *testing.T, start func(string) []*apptest.Gateway) {
		a := apptest.NewUpstream(t, apptest.When(asked, apptest.OK(), apptest.Status(500)))
		b := apptest.NewUpstream(t, apptest.OK())
		nodes := start(apptest.TwoTargets(a, b, canary("closes: true")))
		served(t, nodes[0].Post(t, apptest.ChatBody), circuitB)

		var due time.Time
		apptest.Eventually(t, func() string { // its time has long been over
			if circuit := nodes[0].Circuit(t, circuitA); circuit.State != "open" || circuit.RetryAfterMS > 0 {
				return fmt.Sprintf("the circuit is %s for %d ms", circuit.State, circuit.RetryAfterMS)
			}
			if due.IsZero() {
				due = time.Now()
			}
			if over := time.Since(due); over < 2*time.Second {
				return fmt.Sprintf("it was due for %v only", over)
			}
			return ""
		})
		equal(t, "canaries", len(canaries(a)), 0)

		wanted := time.Now()
		served(t, nodes[0].Post(t, apptest.ChatBody), circuitB)
		for _, g := range nodes {
			awaitState(t, g, circuitA, "closed")
		}
		sent := canaries(a)
		if len(sent) != 1 || sent[0].At.Before(wanted) {
			t.Errorf("%d canaries, want one after a call was refused", len(sent))
		}
	})
}

// A canary that does not do well leaves the circuit open, and says why.
func TestACanaryThatFails(t *testing.T) {
	t.Parallel()
	thinking := `{"choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14}}`
	tests := map[string]struct {
		answer apptest.Script
		keys   string
		want   apptest.Row
		reason string
	}{
		"by_status":  {apptest.Status(503), "", failed("alpha", "server_error", "upstream_status"), "canary_failure"},
		"it_hangs":   {apptest.Hang(), "timeout: 200ms", failed("alpha", "connection", "total_timeout"), "canary_failure"},
		"wrong_text": {apptest.OK(), "expect: fine", failed("alpha", "server_error", "unexpected_answer"), "canary_failure"},
		"no_text":    {apptest.JSON(200, strings.Replace(thinking, "length", "stop", 1)), "", failed("alpha", "server_error", "unexpected_answer"), "canary_failure"},
		"hinted":     {apptest.Status(429, "Retry-After", "3600"), "", failed("alpha", "rate_limit", "rate_limited"), "retry_after"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := apptest.NewUpstream(t, apptest.When(asked, tt.answer, apptest.Status(500)))
			b := apptest.NewUpstream(t, apptest.OK())
			g := apptest.Start(t, apptest.TwoTargets(a, b, canary(tt.keys)))
			served(t, g.Post(t, apptest.ChatBody), circuitB)
			awaitCanary(t, a, 1, g)

			apptest.Eventually(t, func() string {
				if circuit := g.Circuit(t, circuitA); circuit.State != "open" || circuit.Reason != tt.reason {
					return "the circuit is " + circuit.State + " by " + circuit.Reason
				}
				return ""
			})
			if tt.reason == "retry_after" && g.Circuit(t, circuitA).RetryAfterMS < 3_000_000 {
				t.Errorf("open for %d ms, want an hour", g.Circuit(t, circuitA).RetryAfterMS)
			}
			own := awaitOwn(t, g, "canary", 1)
			tt.want["probe"] = "canary"
			rows(t, "attempts", attemptsOfRun(t, g, own[len(own)-1]["run_id"]), tt.want)
		})
	}
}

// awaitOwn waits for at least so many runs of the gateway's own, the newest first.
func awaitOwn(t *testing.T, g *apptest.Gateway, operation string, n int) []apptest.Row {
	t.Helper()
	var own []apptest.Row
	apptest.Eventually(t, func() string {
		if own = ownRuns(t, g, operation); len(own) < n {
			return fmt.Sprintf("%d runs of operation %s, want %d", len(own), operation, n)
		}
		return ""
	})
	return own
}

// R36: what keeps canaries from being made must not keep callers out for ever.
func TestCanariesThatCannotBeMadeLetCallsProbe(t *testing.T) {
	t.Parallel()
	thinking := `{"choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"length"}]}`
	for name, tt := range map[string]struct {
		answer apptest.Script
		keys   string
		want   apptest.Row
	}{
		"credentials": {apptest.Status(401), "", neutral("alpha", "auth", "invalid_credentials")},
		"set_up":      {apptest.Status(404), "", neutral("alpha", "configuration", "model_not_found")},
		"question":    {apptest.Status(400), "", neutral("alpha", "client_error", "invalid_request")},
		"max_tokens":  {apptest.JSON(200, thinking), "expect: ok", neutral("alpha", "unknown", "unexpected_answer")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := apptest.NewUpstream(t, apptest.When(asked, tt.answer, apptest.Status(500)))
			b := apptest.NewUpstream(t, apptest.OK())
			g := apptest.Start(t, apptest.TwoTargets(a, b, canary(tt.keys)))
			served(t, g.Post(t, apptest.ChatBody), circuitB)
			a.SetScript(apptest.When(asked, tt.answer, apptest.OK()))

			answer := g.Post(t, apptest.ChatBody)
			apptest.Eventually(t, func() string {
				answer = g.Post(t, apptest.ChatBody)
				if got := answer.Header.Get("X-Breakwater-Target"); got != circuitA {
					return "calls are served by " + got
				}
				return ""
			})
			rows(t, "the probe", g.AttemptsOf(t, answer), apptest.Row{"outcome": "success", "probe": "probe"})
			awaitState(t, g, circuitA, "closed")
			equal(t, "canaries", len(canaries(a)), 3)
			rows(t, "attempts", attemptsOfRun(t, g, awaitOwn(t, g, "canary", 3)[0]["run_id"]), tt.want)
		})
	}
}

// R36: the models of a provider do not all come back to it at once.
func TestOneCanaryOfAProviderAtATime(t *testing.T) {
	t.Parallel()
	everywhereACanaryGoes(t, func(t *testing.T, start func(string) []*apptest.Gateway) {
		const models = 4
		var crowd inside
		a := apptest.NewUpstream(t, apptest.When(asked, crowd.counting(apptest.After(150*time.Millisecond, apptest.OK())), apptest.Status(500)))
		names := []string{"m0", "m1", "m2", "m3"}
		listed := "models: {" + strings.Join(names, ": {}, ") + ": {}}"
		nodes := start(apptest.Configuration(canary("closes: true")+"\ndirect_targets: true\nconfigurations:\n  chat: {targets: [{provider: alpha, model: m0}]}\n", alpha(a, listed)))

		for _, model := range names {
			nodes[0].Post(t, ofModel(model))
		}
		apptest.Eventually(t, func() string {
			for _, model := range names {
				for _, g := range nodes {
					g.Post(t, ofModel(model))
				}
			}
			if n := len(canaries(a)); n < models {
				return fmt.Sprintf("%d canaries, want %d", n, models)
			}
			return ""
		})
		if most := crowd.most(); most != 1 {
			t.Errorf("%d canaries at once, want one", most)
		}
	})
}

func ofModel(model string) string {
	return `{"model":"alpha/` + model + `","messages":[{"role":"user","content":"hello"}]}`
}

// inside counts the requests that are under way at once.
type inside struct {
	mu        sync.Mutex
	now, peak int
}

func (i *inside) counting(script apptest.Script) apptest.Script {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		i.mu.Lock()
		i.now++
		i.peak = max(i.peak, i.now)
		i.mu.Unlock()
		script(w, r, n)
		i.mu.Lock()
		i.now--
		i.mu.Unlock()
	}
}

func (i *inside) most() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.peak
}

// A reload brings canaries to circuits that are open already, and takes them away.
func TestAReloadChangesWhoProbes(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.When(asked, apptest.Status(503), apptest.Status(500)))
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.TwoTargets(a, b, strings.Replace(eager, "cooldown: 1s", "cooldown: 1500ms", 1)))
	served(t, g.Post(t, apptest.ChatBody), circuitB)
	equal(t, "reload", g.Reload(t, apptest.TwoTargets(a, b, canary())), apptest.ReloadApplied)
	calls := a.Calls()
	awaitCanary(t, a, 1, g)
	equal(t, "what A was sent", a.Calls()-calls, len(canaries(a)))

	a.SetScript(apptest.OK())
	equal(t, "reload", g.Reload(t, apptest.TwoTargets(a, b, eager)), apptest.ReloadApplied)
	sent := len(canaries(a))
	apptest.Eventually(t, func() string {
		if got := g.Post(t, apptest.ChatBody).Header.Get("X-Breakwater-Target"); got != circuitA {
			return "calls are served by " + got
		}
		return ""
	})
	if diff := cmp.Diff(sent, len(canaries(a))); diff != "" {
		t.Errorf("canaries after the reload (-want +got):\n%s", diff)
	}
}
