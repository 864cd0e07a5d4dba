package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/contextasm/contextasmtest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// journey is one gateway with everything that it can have, taken along every
// path.
type journey struct {
	t      *testing.T
	g      *apptest.Gateway
	marks  *apptest.Marks
	text   map[string]string   // of what is confidential, by name
	key    string              // of a caller
	minted map[string][]string // where what the gateway mints may show, as in confidential

	a, b      *apptest.Upstream
	assembler *contextasmtest.Server
	redis     *redistest.Server
	monitored func() string
	role      *apptest.Role
	link      *apptest.Link
	keyFile   string
	untrusted string // where a server is whose certificate nobody knows

	seen []sight
}

// sight is what was written at some place.
type sight struct{ place, text string }

func (j *journey) see(place, text string) { j.seen = append(j.seen, sight{place, text}) }

// embark starts the gateway and everything that it asks.
func embark(t *testing.T) *journey {
	j := &journey{t: t, marks: &apptest.Marks{}, text: map[string]string{}, minted: map[string][]string{}}
	for _, c := range confidential {
		j.text[c.name] = j.marks.Plant(c.name, c.format)
	}
	j.keyFile = filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(j.keyFile, []byte(j.text["a key from a file"]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	j.a, j.b = apptest.NewUpstream(t, apptest.OK()), apptest.NewUpstream(t, apptest.OK())
	j.untrusted = strangerURL(t)
	j.assembler = contextasmtest.Start(t)
	j.assembler.Answers(contextasmtest.Knows(j.text["what an assembler knows"]))
	j.redis = redistest.Start(t, "--requirepass", "owner")
	j.admitToCache(j.text["the cache's password"])
	j.monitored = j.redis.Monitor()
	j.role = apptest.NewRole(t, postgrestest.EmptyURL(t), j.text["the database's password"])
	j.link = apptest.NewLink(t, j.role.URL)

	j.g = apptest.StartUnwell(t, j.configuration(j.text["alpha's key"]), j.link.URL)
	j.g.MetricsToken = j.text["the metrics' token"]
	j.key = j.mintKey("shop")
	return j
}

// mintKey mints a key for callers, whose text may be seen this once.
func (j *journey) mintKey(name string, headers ...string) string {
	j.t.Helper()
	var answer apptest.Answer
	var err error
	apptest.Eventually(j.t, func() string { // the database may be away for a moment on a busy machine
		answer, err = apptest.Do(j.t.Context(), http.MethodPost, j.g.AdminURL+"/api/v1/keys", fmt.Sprintf(`{"name":%q}`, name), headers...)
		if err == nil && answer.Status == http.StatusServiceUnavailable {
			return answer.Body
		}
		return ""
	})
	var minted struct{ Key string }
	if err != nil || json.Unmarshal([]byte(answer.Body), &minted) != nil || minted.Key == "" {
		j.t.Fatalf("mint a key: %d %s %v", answer.Status, answer.Body, err)
	}
	j.watch("the key of "+name, minted.Key, "digest table api_keys")
	return minted.Key
}

// watch looks for the secret part of what the gateway has minted, which may show
// in one form at one place.
func (j *journey) watch(name, text, mayShow string) {
	secret := text[strings.LastIndexByte(text, '_')+1:]
	j.marks.Watch(name, text, secret)
	j.marks.Watch(name, secret, secret)
	j.minted[name] = []string{mayShow}
}

// admitToCache gives the gateway's user of the cache a password, and shows out
// who came with another.
func (j *journey) admitToCache(password string) {
	j.t.Helper()
	for _, command := range [][]string{
		{"ACL", "SETUSER", "gateway", "reset", "on", ">" + password, "~*", "&*", "+@all"},
		{"CLIENT", "KILL", "USER", "gateway"},
	} {
		if _, err := j.redis.Do(command...); err != nil {
			j.t.Fatalf("%s: %v", command[0], err)
		}
	}
}

// strangerURL is the root of a server whose certificate nobody knows.
func strangerURL(t *testing.T) string {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = discarded
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL + "/v1"
}

// configuration is everything that a configuration can hold, with alpha's key.
// Alpha fails as often as the paths like, beta opens at once.
func (j *journey) configuration(alphasKey string) string {
	cache := url.URL{Scheme: "redis", User: url.UserPassword("gateway", j.text["the cache's password"]), Host: j.redis.Addr()}
	return fmt.Sprintf(`
server: {listen: "127.0.0.1:0", admin_listen: "127.0.0.1:0", metrics_token: %q}
cache: {url: %q, timeout: 10s}
auth: {mode: keys}
health: {refresh: 100ms}
breakers:
  - {match: "alpha/*/*", enabled: false}
  - {match: "beta/*/*", failure_threshold: 1, cooldown: 1s, cooldown_multiplier: 1, cooldown_jitter: 0, probe: {mode: canary}}
providers:
  alpha: {kind: openai, base_url: %q, api_key: %q, region: r1, retry: {max: 1, base: 1ms}, health_check: {interval: 200ms, path: /models}, models: {m1: {input: 1, output: 5}}}
  beta: {kind: openai, base_url: %q, api_keys: [%q, %q], region: r2, retry: {max: 0}, models: {m1: {input: 1, output: 5}}}
  stranger: {kind: openai, base_url: %q, api_key: %q, retry: {max: 0}, health_check: {interval: 200ms}, models: {m1: {}}}
  gone: {kind: openai, base_url: "http://127.0.0.1:1/v1", api_key: %q, retry: {max: 0}, models: {m1: {}}}
  sim: {kind: simulated, models: {m1: {}}}
configurations:
  chat: {targets: [{provider: alpha, model: m1}], context: {address: %q, timeout: 5s}}
  spent: {targets: [{provider: alpha, model: m1}], limits: {requests_per_day: 0}}
  kept: {targets: [{provider: alpha, model: m1}], response_cache: {ttl: 1h}}
  need: {targets: [{provider: alpha, model: m1}], response_cache: {ttl: 100ms}, degrade: {stale: 1h, message: We are away.}}
  sick: {targets: [{provider: beta, model: m1}]}
  fall: {targets: [{provider: gone, model: m1}, {provider: stranger, model: m1}, {provider: alpha, model: m1}]}
`, j.text["the metrics' token"], cache.String(), j.a.URL, alphasKey,
		j.b.URL, j.text["beta's first key"], j.text["beta's second key"],
		j.untrusted, "${file:"+j.keyFile+"}", j.text["beta's first key"], j.assembler.Address)
}

// body is a request for a model whose prompt is marked.
func (j *journey) body(model string, stream bool) string {
	return fmt.Sprintf(`{"model":%q,"stream":%v,"messages":[{"role":"user","content":%q}]}`, model, stream, j.text["a prompt"])
}

// credentials are the headers that a caller may send, with a good key and all
// that is the caller's own.
func (j *journey) credentials() []string {
	key := j.text["a key that is none"]
	return []string{
		"Authorization", "Bearer " + j.key, "Api-Key", key, "X-Goog-Api-Key", key,
		"Proxy-Authorization", "Basic " + key, "Cookie", j.text["a caller's cookie"],
	}
}

// call sends a body to the data plane and keeps the answer.
func (j *journey) call(body string, headers ...string) apptest.Answer {
	j.t.Helper()
	return j.request("answer", http.MethodPost, j.g.URL+"/v1/chat/completions", body, append(j.credentials(), headers...)...)
}

// request makes any request and keeps the answer, as much of it as comes.
func (j *journey) request(place, method, url, body string, headers ...string) apptest.Answer {
	j.t.Helper()
	ctx, cancel := context.WithTimeout(j.t.Context(), time.Minute)
	defer cancel()
	answer, err := apptest.Do(ctx, method, url, body, headers...)
	if err != nil {
		j.t.Fatalf("%s %s: %v", method, url, err)
	}
	j.see(place, fmt.Sprint(answer.Status, answer.Header, answer.Body))
	return answer
}

// glance keeps how an answer begins that has no end: what comes within a moment
// of its header.
func (j *journey) glance(place, url string) {
	j.t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		j.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	defer time.AfterFunc(200*time.Millisecond, func() { _ = resp.Body.Close() }).Stop()
	body, _ := io.ReadAll(resp.Body) // until it is closed
	j.see(place, fmt.Sprint(resp.StatusCode, resp.Header, string(body)))
}

// raw sends bytes to a listener as no client library would, and keeps what comes
// back.
func (j *journey) raw(place, address, text string) {
	j.t.Helper()
	conn, err := net.DialTimeout("tcp", address, time.Minute)
	if err != nil {
		j.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := conn.Write([]byte(text)); err != nil {
		j.t.Fatal(err)
	}
	answer := make([]byte, 8<<10)
	n, _ := conn.Read(answer) // a connection that is closed says nothing
	j.see(place, string(answer[:n]))
}

// disembark ends the gateway and looks at everything that it leaves behind.
func (j *journey) disembark() {
	j.t.Helper()
	j.link.Mend()
	j.g.AwaitMetric(j.t, "breakwater_database_degraded", "0")
	if err := j.g.Stop(); err != nil {
		j.see("error", err.Error())
	}
	j.see("log", j.g.Logs.String())
	for table, rows := range j.role.Tables(j.t) {
		j.see("table "+table, rows)
	}
	j.see("cache", j.redis.Contents(j.t))
	j.see("cache", j.monitored())
}
