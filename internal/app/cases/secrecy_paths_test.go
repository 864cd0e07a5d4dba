package cases

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/contextasm/contextasmtest"
	"github.com/breakwater-llm/breakwater/internal/operators"
)

// discarded is where a test server writes what it has to say.
var discarded = log.New(io.Discard, "", 0)

// everyPath is what a gateway goes through, in this order.
var everyPath = []struct {
	name string
	take func(*journey)
}{
	{"answers", answers},
	{"requests that are refused", refusedRequests},
	{"upstreams that repeat what they got", upstreamsThatRepeat},
	{"streams that break", streamsThatBreak},
	{"upstreams that are none", bytesThatAreNoHTTP},
	{"targets that cannot be reached", unreachableTargets},
	{"limits that are used up", limitedCallers},
	{"answers that are given again and in need", keptAnswers},
	{"assemblers that fail", failingAssemblers},
	{"circuits that open and are probed", openCircuits},
	{"tokens and keys", tokens},
	{"pages and the operator API", everyPage},
	{"reloads", reloads},
	{"a cache that refuses and is away", cacheOutage},
	{"a database that refuses and is away", databaseOutage},
	{"pages without a database", everyPage},
}

func answers(j *journey) {
	j.a.SetScript(apptest.When(`"stream":true`,
		apptest.Stream(apptest.RoleChunk, apptest.Chunk(j.text["a model's answer"]), apptest.FinishChunk, apptest.UsageChunk, apptest.Done),
		apptest.JSON(http.StatusOK, strings.Replace(apptest.OKBody, `"ok"`, quote(j.text["a model's answer"]), 1))))
	for _, stream := range []bool{false, true} {
		answer := j.call(j.body("chat", stream), "Idempotency-Key", fmt.Sprint(j.text["an idempotency key"], "-", stream))
		equal(j.t, "status", answer.Status, http.StatusOK)
		if !strings.Contains(answer.Body, j.text["a model's answer"]) {
			j.t.Errorf("the answer is %s", answer.Body)
		}
	}
	for _, other := range []string{"chat", "alpha/m1"} { // the same key again, and for another request
		j.call(j.body(other, false), "Idempotency-Key", j.text["an idempotency key"]+"-false")
	}
	for _, sent := range j.a.Requests() { // the marks are where they belong
		if sent.Path == "/v1/chat/completions" && (sent.Header.Get("Authorization") != "Bearer "+j.text["alpha's key"] || !strings.Contains(sent.Body, j.text["a prompt"])) {
			j.t.Errorf("the model got %s", sent.Body)
		}
	}
}

func quote(text string) string { return fmt.Sprintf("%q", text) }

func refusedRequests(j *journey) {
	prompt := j.text["a prompt in broken JSON"]
	for _, body := range []string{
		"", "{", `"` + prompt, `{"model":"chat","messages":` + prompt + `}`,
		`{"model":"chat","messages":[],"` + prompt + `":1,"` + prompt + `":1}`,
		`{"model":"chat","messages":[{"role":"user","content":"` + prompt + `"}],"stream":"` + prompt + `"}`,
		`{"model":["` + prompt + `"],"messages":[]}`, `{"model":"chat","messages":[],"max_tokens":"` + prompt + `"}`,
		`{"model":"chat","messages":"` + prompt + `"`,
	} {
		if answer := j.call(body); answer.Status < 400 && !strings.Contains(answer.Body, "ok") {
			j.t.Errorf("%s is answered with %d %s", body, answer.Status, answer.Body)
		}
	}
	for _, header := range []string{"X-Breakwater-Timeout", "X-Breakwater-Cache", "Idempotency-Key", "Traceparent", "Accept", "Content-Encoding"} {
		j.call(j.body("chat", false), header, j.text["an idempotency key"])
	}
	query := j.text["a caller's query"]
	for _, path := range []string{"/v1/chat/completions?api_key=" + query, "/v1/" + query, "/metrics?token=" + query, "/v1/models?after=" + query, "/v1/models/" + query, "/readyz?x=" + query} {
		j.request("answer", http.MethodGet, j.g.URL+path, "", j.credentials()...)
	}
	for _, text := range []string{
		"GET /" + j.text["a prompt in broken JSON"] + "\r\n\r\n",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer\r" + j.text["a key that is none"] + "\r\n\r\n",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + j.text["a key that is none"] + "\r\n\r\n",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: " + j.text["a key that is none"] + "\r\n\r\nabcde",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + j.text["a key that is none"] + "\r\n",
	} {
		j.raw("answer", strings.TrimPrefix(j.g.URL, "http://"), text)
		j.raw("admin", strings.TrimPrefix(j.g.AdminURL, "http://"), text)
	}
}

// repeats is an error of OpenAI's form that repeats our key and the prompt in
// every member, plainly and escaped.
func (j *journey) repeats(words string) string {
	key := j.text["alpha's key"]
	escaped := ""
	for _, c := range []byte(key) {
		escaped += fmt.Sprintf(`\u%04x`, c)
	}
	return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":%q,"code":%q,"key":"%s"},%q:1}`,
		words+" "+key, key, key, key, escaped, key)
}

func upstreamsThatRepeat(j *journey) {
	key := j.text["alpha's key"]
	headers := []string{"X-Echo", key, "Www-Authenticate", "Bearer " + key, "Set-Cookie", "k=" + key, "Retry-After", key,
		"X-Request-Id", key, "Openai-Organization", key, "Content-Language", key}
	for code := range 600 {
		if text := http.StatusText(code); text == "" || code < 300 || code == http.StatusNotModified {
			continue
		}
		words := j.text["why a request is refused"]
		if notTheRequests := []int{401, 402, 403, 404, 407, 408, 425, 429, 499}; code < 400 || code >= 500 || slices.Contains(notTheRequests, code) {
			words = j.text["what a sick upstream says"] + " " + j.text["a prompt"]
		}
		j.a.SetScript(apptest.JSON(code, j.repeats(words), append(headers, "Location", "https://example.test/?key="+url.QueryEscape(key))...))
		j.call(j.body("chat", code%2 == 0))
	}
	sick := j.text["what a sick upstream says"] + " " + key
	for _, body := range []string{sick, "<html>" + sick + "</html>", `"` + sick, `{"error":"` + sick + `"}`, `{"detail":"` + sick + `"}`} {
		for _, code := range []int{http.StatusOK, http.StatusInternalServerError, http.StatusUnauthorized, http.StatusNotFound, http.StatusTooManyRequests} {
			for _, kind := range []string{"application/json", "text/html", "text/" + key} {
				j.a.SetScript(apptest.Body(code, kind, body, headers...))
				j.call(j.body("chat", code == http.StatusOK))
			}
		}
	}
	// An error in a 200 speaks of the request.
	j.a.SetScript(apptest.JSON(http.StatusOK, j.repeats(j.text["why a request is refused"]), headers...))
	j.call(j.body("chat", false))
	j.call(j.body("chat", true))
}

func streamsThatBreak(j *journey) {
	sick := j.text["what a sick upstream says"] + " " + j.text["alpha's key"]
	for _, end := range []string{
		"data: " + j.repeats(sick) + "\n\n", "event: error\ndata: " + j.repeats(sick) + "\n\n",
		"data: {\"error\":" + quote(sick) + "}\n\n", "data: {\"" + sick, "data: " + sick + "\n\n", sick + "\n\n", ": " + sick + "\n\n", "event: " + sick + "\n\n", "id: " + sick + "\n\n",
	} {
		j.a.SetScript(apptest.Stream(end))
		j.call(j.body("chat", true))
	}
	// Behind the first content there are an error of the upstream's and the end.
	for _, end := range []string{"data: " + j.repeats(sick) + "\n\n", "event: error\ndata: {\"error\":{\"message\":" + quote(sick) + "}}\n\n"} {
		j.a.SetScript(apptest.Stream(apptest.RoleChunk, apptest.Chunk("ok"), end))
		j.call(j.body("chat", true))
	}
}

func bytesThatAreNoHTTP(j *journey) {
	sick := j.text["what a sick upstream says"] + " " + j.text["alpha's key"]
	for _, bytes := range []string{
		sick + "\r\n\r\n", "HTTP/1.1 " + sick + "\r\n\r\n", "HTTP/" + sick + " 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n" + sick + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: " + sick + "\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: " + sick + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: " + sick + "\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + sick + "\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n0\r\n" + sick + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 100\r\n\r\n" + sick, "HTTP/1.1 200 OK\r\nContent-Encoding: " + j.text["alpha's key"] + "\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 101 " + sick + "\r\nConnection: upgrade\r\nUpgrade: " + j.text["alpha's key"] + "\r\n\r\n" + sick,
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + sick,
	} {
		j.a.SetScript(func(w http.ResponseWriter, _ *http.Request, _ int) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, bytes)
			_ = conn.Close()
		})
		j.call(j.body("chat", false))
		j.call(j.body("chat", true))
	}
	j.a.SetScript(apptest.OK())
}

// limitedCallers meets limits that are used up.
func limitedCallers(j *journey) {
	for _, stream := range []bool{false, true} {
		j.call(j.body("spent", stream))
		j.call(j.body("spent", stream), "Idempotency-Key", j.text["an idempotency key"])
	}
}

// keptAnswers gives an answer again, from the cache, under an idempotency key, in
// need, and forgets it.
func keptAnswers(j *journey) {
	healthy := apptest.When(`"stream":true`,
		apptest.Stream(apptest.RoleChunk, apptest.Chunk(j.text["a model's answer"]), apptest.FinishChunk, apptest.UsageChunk, apptest.Done),
		apptest.JSON(http.StatusOK, strings.Replace(apptest.OKBody, `"ok"`, quote(j.text["a model's answer"]), 1)))
	j.a.SetScript(healthy)
	had := func(body, cache string, headers ...string) apptest.Answer {
		j.t.Helper()
		answer := j.call(body, headers...)
		equal(j.t, "status and cache", []any{answer.Status, answer.Header.Get("X-Breakwater-Cache")}, []any{http.StatusOK, cache})
		return answer
	}
	key := j.text["an idempotency key"]
	for _, stream := range []bool{false, true} {
		had(j.body("kept", stream), map[bool]string{false: "miss", true: "hit"}[stream]) // one answer in two shapes
		had(j.body("kept", stream), "hit")
		for _, replay := range []string{"", "true"} {
			answer := had(j.body("kept", stream), "", "X-Breakwater-Cache", "no-store", "Idempotency-Key", fmt.Sprint(key, "-kept-", stream))
			equal(j.t, "replayed", answer.Header.Get("Idempotent-Replayed"), replay)
		}
	}
	j.call(j.body("kept", false), "X-Breakwater-Cache", key)
	j.request("admin", http.MethodGet, j.g.AdminURL+"/metrics", "", "Authorization", "Bearer "+j.g.MetricsToken)

	had(j.body("need", false), "miss")
	sick := apptest.JSON(http.StatusInternalServerError, `{"error":{"message":`+quote(j.text["what a sick upstream says"]+" "+j.text["alpha's key"])+`}}`)
	j.a.SetScript(sick)
	apptest.Eventually(j.t, func() string { // until it is past its time
		if answer := j.call(j.body("need", false)); answer.Header.Get("X-Breakwater-Degraded") != "stale" {
			return "the answer is not stale"
		}
		return ""
	})
	had(j.body("need", true), "stale")
	equal(j.t, "cleared", j.request("admin", http.MethodDelete, j.g.AdminURL+"/api/v1/response-cache?configuration=need", "").Status, http.StatusOK)
	for _, stream := range []bool{false, true} {
		equal(j.t, "degraded", had(j.body("need", stream), "miss").Header.Get("X-Breakwater-Degraded"), "message")
	}
	j.a.SetScript(healthy)
	for _, query := range []string{"?configuration=none", "?none=1", ""} {
		j.request("admin", http.MethodDelete, j.g.AdminURL+"/api/v1/response-cache"+query, "")
	}
	j.request("admin", http.MethodDelete, j.g.AdminURL+"/api/v1/response-cache", "", "Authorization", "Bearer "+j.text["a token that is none"])
	j.a.SetScript(apptest.OK())
}

func unreachableTargets(j *journey) {
	for _, model := range []string{"fall", "gone/m1", "stranger/m1"} {
		j.call(j.body(model, false))
		j.call(j.body(model, true))
	}
}

func failingAssemblers(j *journey) {
	for _, code := range []codes.Code{codes.Internal, codes.Unavailable, codes.Unauthenticated, codes.ResourceExhausted, codes.InvalidArgument} {
		j.assembler.Answers(contextasmtest.Fails(status.Error(code, j.text["what an assembler complains of"])))
		j.call(j.body("chat", false))
	}
	j.assembler.Answers(contextasmtest.Knows(j.text["what an assembler knows"]))
}

func openCircuits(j *journey) {
	sick := apptest.JSON(http.StatusServiceUnavailable, `{"error":{"message":`+quote(j.text["what a sick upstream says"]+j.text["beta's first key"]+j.text["beta's second key"])+`}}`)
	j.b.SetScript(sick)
	apptest.Eventually(j.t, func() string { // both keys are refused and rest, then the circuit opens
		j.call(j.body("sick", false))
		if j.g.Circuit(j.t, "beta/m1/r2").State != "open" {
			return "beta is closed"
		}
		return ""
	})
	calls := j.b.Calls()
	apptest.Eventually(j.t, func() string {
		j.call(j.body("sick", true))
		if j.b.Calls() == calls {
			return "beta got no canary"
		}
		return ""
	})
	j.b.SetScript(apptest.OK())
}

func tokens(j *journey) {
	operator, viewer := j.g.Token(j.t, "ada", operators.RoleOperator), j.g.Token(j.t, "vic", operators.RoleViewer)
	j.watch("an operator's token", operator, "digest table operator_tokens")
	j.watch("a viewer's token", viewer, "digest table operator_tokens")
	spare := j.mintKey("till", "Authorization", "Bearer "+operator)
	j.request("admin", http.MethodPost, j.g.AdminURL+"/api/v1/keys", `{"name":"till"}`) // the name is taken
	j.request("admin", http.MethodPost, j.g.AdminURL+"/api/v1/keys/"+spare[:strings.LastIndexByte(spare, '_')]+"/revoke", "")
	j.call(j.body("chat", false), "Authorization", "Bearer "+spare)
	for header, value := range map[string]string{"Authorization": "Bearer " + j.text["a key that is none"], "X-Api-Key": j.text["a key that is none"]} {
		j.call(j.body("chat", false), header, value)
		j.request("answer", http.MethodGet, j.g.URL+"/v1/models", "", header, value)
	}
	for _, token := range []string{operator, viewer, j.text["a token that is none"], operator + "x", j.text["a key that is none"]} {
		for _, header := range []string{"Bearer " + token, "bearer  " + token, "Basic " + token, token} {
			j.request("admin", http.MethodPost, j.g.AdminURL+"/api/v1/circuits/"+url.PathEscape("beta/m1/r2")+"/open", `{"reason":"a drill","ttl_ms":60000}`, "Authorization", header)
			j.request("admin", http.MethodGet, j.g.AdminURL+"/api/v1/circuits", "", "Authorization", header)
			j.request("admin", http.MethodGet, j.g.AdminURL+"/metrics", "", "Authorization", header)
			j.request("admin", http.MethodGet, j.g.AdminURL+"/", "", "Authorization", header)
		}
	}
	j.request("admin", http.MethodPut, j.g.AdminURL+"/api/v1/simulated/sim", `{"mode":"error"}`, "Authorization", "Bearer "+operator)
	j.call(j.body("sim/m1", false))
}

// everyPage asks for all that the operators' listener shows.
func everyPage(j *journey) {
	key := url.PathEscape("beta/m1/r2")
	run := j.call(j.body("chat", false)).Header.Get("X-Request-Id")
	for _, path := range []string{
		"/", "/runs/" + run, "/circuits/" + key, "/circuits/" + key + "/open", "/circuits/" + key + "/close", "/circuits/none",
		"/api/v1/pipeline", "/api/v1/health/providers", "/api/v1/circuits", "/api/v1/circuits/" + key, "/api/v1/circuits/" + key + "/events",
		"/api/v1/runs", "/api/v1/runs?outcome=failure&limit=200", "/api/v1/runs/" + run, "/api/v1/config", "/api/v1/simulated/sim", "/api/v1/keys", "/api/v1/budgets", "/api/v1/usage", "/api/v1/usage?by=key,model&format=csv", "/keys", "/usage", "/budgets",
		"/healthz", "/readyz", "/metrics", "/none?token=" + j.text["a key that is none"],
	} {
		j.request("admin", http.MethodGet, j.g.AdminURL+path, "")
	}
	j.request("admin", http.MethodGet, j.g.AdminURL+"/metrics", "", "Authorization", "Bearer "+j.g.MetricsToken)
	j.request("admin", http.MethodGet, j.g.AdminURL+"/metrics?token="+j.g.MetricsToken, "")
	for _, path := range []string{"/api/v1/events", "/live"} {
		j.glance("admin", j.g.AdminURL+path)
	}
	for _, path := range []string{"/healthz", "/readyz", "/v1/models"} {
		j.request("answer", http.MethodGet, j.g.URL+path, "")
	}
}

func reloads(j *journey) {
	good := j.configuration(j.text["alpha's next key"])
	secret := j.text["a key of a refused reload"]
	for _, slip := range []struct{ old, by string }{
		{"kind: openai", "kind: " + secret},
		{"region: r1", "region: r1, api_keys: [" + secret + ", " + secret + "]"},
		{"region: r1", "region: r1, api_key: " + secret},
		{"region: r1", "region: r1, api_key: |" + secret},
		{"region: r1", "region: r1, api_keys: ${" + secret + "}"},
		{"http://127.0.0.1:1/v1", "http://user:" + secret + "@127.0.0.1:1/v1"},
		{"http://127.0.0.1:1/v1", "http://127.0.0.1:1/v1?key=" + secret},
		{"redis://gateway", "redis//gateway" + secret},
		{"metrics_token: \"", "metrics_token: \" " + secret},
		{"providers:", "providers:\n" + secret + "\n"},
	} {
		if !strings.Contains(good, slip.old) {
			j.t.Fatalf("the configuration has no %q", slip.old)
		}
		equal(j.t, "a reload with "+slip.by, j.g.Reload(j.t, strings.Replace(good, slip.old, slip.by, 1)), apptest.ReloadRefused)
	}
	// What a restart has to bring into effect is told by its key alone.
	j.g.MustReload(j.t, strings.Replace(good, "redis://gateway", "redis://"+secret, 1))
	j.a.SetScript(apptest.JSON(http.StatusUnauthorized, `{"error":{"message":`+quote(j.text["alpha's next key"])+`}}`))
	j.call(j.body("chat", false))
	j.a.SetScript(apptest.OK())
}

func cacheOutage(j *journey) {
	const series = "breakwater_shared_state_degraded"
	j.admitToCache("somebody else")
	j.g.AwaitMetric(j.t, series, "1")
	j.call(j.body("chat", false))
	j.redis.Kill()
	j.call(j.body("sick", false))
	j.request("admin", http.MethodGet, j.g.AdminURL+"/readyz", "")
	j.see("cache", j.monitored())
	j.redis.Restart()
	j.monitored = j.redis.Monitor()
	j.admitToCache(j.text["the cache's password"])
	j.g.AwaitMetric(j.t, series, "0")
	j.call(j.body("sick", false))
}

func databaseOutage(j *journey) {
	const series = "breakwater_database_degraded"
	j.role.ChangePassword(j.t, "somebody else")
	j.g.AwaitMetric(j.t, series, "1")
	j.call(j.body("chat", false))
	j.request("admin", http.MethodGet, j.g.AdminURL+"/readyz", "")
	everyPage(j)
	j.role.ChangePassword(j.t, j.text["the database's password"])
	j.g.AwaitMetric(j.t, series, "0")
	j.link.Cut()
	j.g.AwaitMetric(j.t, series, "1")
	j.call(j.body("chat", false))
	j.request("admin", http.MethodPost, j.g.AdminURL+"/api/v1/circuits/"+url.PathEscape("beta/m1/r2")+"/shadow", `{"reason":"a drill"}`, "Authorization", "Bearer "+j.text["a token that is none"])
}
