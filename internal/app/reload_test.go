package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

// Hundreds of calls and streams that run while the configuration changes fifty
// times, and with it every client of a provider, all end as if nothing had
// happened.
func TestReloadsUnderLoadLoseNoCall(t *testing.T) {
	t.Parallel()
	const reloads, each = 50, 8 // calls that begin before each reload
	slowly := []any{apptest.RoleChunk, apptest.Chunk("o"), 300 * time.Millisecond, apptest.Chunk("k"), apptest.FinishChunk, apptest.UsageChunk, apptest.Done}
	a := apptest.NewUpstream(t, apptest.When(`"stream":true`, apptest.Stream(slowly...), apptest.OK()))
	text := func(n int) string {
		return apptest.Configuration("", apptest.Provider{Name: "alpha", Region: "r1", Upstream: a, Extra: fmt.Sprintf("timeouts: {connect: 2m, first_token: 2m, idle: 2m, total: %ds}", 120+n)})
	}
	g := apptest.Start(t, text(0))

	var running sync.WaitGroup
	for n := range reloads {
		for i := range each {
			running.Go(func() {
				if complaint := callOnce(g, i%2 == 0); complaint != "" {
					t.Error(complaint)
				}
			})
		}
		g.MustReload(t, text(n+1))
	}
	running.Wait()
	g.Runs(t, reloads*each)
	if got := a.Calls(); got != reloads*each {
		t.Errorf("the upstream was called %d times for %d calls", got, reloads*each)
	}
}

// callOnce makes a call and says what is wrong with its answer.
func callOnce(g *apptest.Gateway, stream bool) string {
	body := apptest.ChatBody
	if stream {
		body = apptest.StreamBody
	}
	answer, err := g.TryPost(context.Background(), body)
	switch {
	case err != nil:
		return "a call failed: " + err.Error()
	case answer.Status != http.StatusOK || answer.Err != nil:
		return fmt.Sprintf("a call got %d %s %v", answer.Status, answer.Body, answer.Err)
	case stream && !strings.HasSuffix(answer.Body, apptest.Done):
		return "a stream was cut: " + answer.Body
	}
	return ""
}

// begun starts a stream and returns when its first content is held up at the
// client, with what waits for its end.
func begun(t *testing.T, g *apptest.Gateway, a *apptest.Upstream) (end func() apptest.Answer) {
	t.Helper()
	calls := a.Calls()
	answers := make(chan apptest.Answer, 1)
	go func() {
		answer, err := g.TryPost(context.Background(), apptest.StreamBody)
		if err != nil {
			answer.Err = err
		}
		answers <- answer
	}()
	apptest.Eventually(t, func() string {
		if a.Calls() == calls {
			return "the stream has not begun"
		}
		return ""
	})
	return func() apptest.Answer { return <-answers }
}

// held is a stream that waits in its middle until release is closed.
func held(release <-chan struct{}) apptest.Script {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		apptest.Stream(apptest.RoleChunk, apptest.Chunk("o"))(w, r, n)
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
		apptest.Stream(apptest.Chunk("k"), apptest.FinishChunk, apptest.UsageChunk, apptest.Done)(w, r, n)
	}
}

// A stream ends by the configuration it began with, even when its provider is
// declared no more.
func TestAStreamOutlivesItsProvider(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	a, b := apptest.NewUpstream(t, held(release)), apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a))
	end := begun(t, g, a)

	g.MustReload(t, apptest.Configuration("", apptest.Provider{Name: "beta", Region: "r2", Upstream: b}))
	if answer := g.Post(t, apptest.ChatBody); answer.Status != http.StatusOK || answer.Header.Get("X-Breakwater-Target") != "beta/m1/r2" {
		t.Errorf("a call after the reload got %d from %s", answer.Status, answer.Header.Get("X-Breakwater-Target"))
	}
	close(release)
	if answer := end(); answer.Err != nil || !strings.HasSuffix(answer.Body, apptest.Done) {
		t.Errorf("the stream was cut: %v %s", answer.Err, answer.Body)
	}
	if row := g.Runs(t, 2)[0]; row["served_provider"] != "alpha" || row["outcome"] != "success" {
		t.Errorf("the stream's row is %v", row.Only(apptest.Row{"served_provider": 0, "outcome": 0}))
	}
}

// What is wrong with a file is said in one line; the configuration that runs
// stays as it is, to the last key.
func TestAReloadThatIsRefusedChangesNothing(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	good := apptest.OneTarget(a)
	g := apptest.Start(t, good)
	before := apptest.Get(t, g.AdminURL+"/api/v1/config").Body

	for name, bad := range map[string]string{
		"not YAML":      "{",
		"two faults":    apptest.OneTarget(a, "health: {window: -1s}", "direct_targetz: true"),
		"dangling":      strings.Replace(good, "model: m1}", "model: none}", 1),
		"no providers":  "configurations: {chat: {targets: [{provider: alpha, model: m1}]}}",
		"unset secret":  strings.Replace(good, "sk-alpha-secret", "${NOT_SET}", 1),
		"metadata host": strings.Replace(good, a.URL, "http://169.254.169.254/v1", 1),
	} {
		if ended := g.Reload(t, bad); ended != apptest.ReloadRefused {
			t.Errorf("%s: the reload ended as %q, want it refused", name, ended)
		}
		if after := apptest.Get(t, g.AdminURL+"/api/v1/config").Body; after != before {
			t.Errorf("%s: the configuration in effect has become %s", name, after)
		}
		if answer := g.Post(t, apptest.ChatBody); answer.Status != http.StatusOK {
			t.Errorf("%s: a call got %d", name, answer.Status)
		}
	}
	g.AwaitMetric(t, "breakwater_config_last_reload_successful", "0")
	lines := linesWith(g, "configuration was not reloaded")
	if len(lines) != 6 {
		t.Errorf("%d lines for 6 reloads:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	both := func(line string) bool {
		return strings.Contains(line, "health.window") && strings.Contains(line, "direct_targetz")
	}
	if !anyOf(lines, both) {
		t.Errorf("no line names both faults of one file:\n%s", strings.Join(lines, "\n"))
	}

	awaitTitle(t, g, "configuration refused · Breakwater")

	if ended := g.Reload(t, good); ended != apptest.ReloadUnchanged {
		t.Errorf("the reload of the running configuration ended as %q", ended)
	}
	g.AwaitMetric(t, "breakwater_config_last_reload_successful", "1")
	awaitTitle(t, g, "All well · Breakwater")
}

// awaitTitle waits until the page is called so: on a busy machine the database may
// be away for a moment, which stands there as well.
func awaitTitle(t *testing.T, g *apptest.Gateway, want string) {
	t.Helper()
	apptest.Eventually(t, func() string {
		if got := words(page(t, g, "/").Find("title")); got != want {
			return fmt.Sprintf("the page is called %q, want %q", got, want)
		}
		return ""
	})
}

// The page says which keys are at fault, and no value: one may be a secret that
// stands where it does not belong.
func TestThePageShowsWhyAReloadWasRefused(t *testing.T) {
	t.Parallel()
	good := apptest.OneTarget(okUpstream(t))
	g := apptest.Start(t, good)
	if ended := g.Reload(t, good+"health: {window: sk-very-secret}\n"); ended != apptest.ReloadRefused {
		t.Fatalf("the reload ended as %q", ended)
	}
	said := words(page(t, g, "/").Find(".notice dl"))
	if !strings.Contains(said, "health.window: is not a duration") || strings.Contains(said, "secret") {
		t.Errorf("the page says %q", said)
	}
}

func linesWith(g *apptest.Gateway, text string) []string {
	var lines []string
	for line := range strings.Lines(g.Logs.String()) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

func anyOf(lines []string, holds func(string) bool) bool {
	for _, line := range lines {
		if holds(line) {
			return true
		}
	}
	return false
}

// Keys that a running process cannot change are named; all others take effect.
func TestAReloadSaysWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a))
	g.MustReload(t, apptest.OneTarget(a,
		`server: {listen: "127.0.0.1:1", admin_listen: "127.0.0.1:0", max_body: 1KiB, max_inflight_bytes: 1MiB}`,
		`database: {url: "postgres://127.0.0.1:1/none", max_conns: 4}`,
		"telemetry: {flush_interval: 20ms, queue: 7}"))

	lines := linesWith(g, "need a restart")
	if len(lines) != 1 || !strings.Contains(lines[0], `"keys":["server.listen","database.url","telemetry.queue"]`) {
		t.Errorf("the log says:\n%s", strings.Join(lines, "\n"))
	}
	large := strings.Replace(apptest.ChatBody, "say ok", strings.Repeat("x", 2000), 1)
	if answer := g.Post(t, large); answer.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body over the new limit got %d, want 413", answer.Status)
	}
	if answer := g.Post(t, apptest.ChatBody); answer.Status != http.StatusOK {
		t.Errorf("a call got %d", answer.Status)
	}
	g.Runs(t, 1)

	var shown struct {
		Server    struct{ Listen, MaxBody string }
		Telemetry struct{ Queue int }
	}
	body := strings.ReplaceAll(apptest.Get(t, g.AdminURL+"/api/v1/config").Body, "max_body", "MaxBody")
	if err := json.Unmarshal([]byte(body), &shown); err != nil {
		t.Fatal(err)
	}
	if shown.Server.Listen != "127.0.0.1:0" || shown.Server.MaxBody != "1KiB" || shown.Telemetry.Queue != 65536 {
		t.Errorf("in effect is shown as %+v", shown)
	}
}

// The circuit of a target that was removed is shown nowhere; when the target
// comes back it is found as it was left.
func TestTheCircuitOfARemovedTargetIsNotShown(t *testing.T) {
	t.Parallel()
	const key = "alpha/m1/r1"
	a, b := apptest.NewUpstream(t, apptest.Status(503)), apptest.NewUpstream(t, apptest.OK())
	breaker := "circuit_breaker: {failure_threshold: 1, cooldown: 1h, max_cooldown: 1h}"
	both := apptest.TwoTargets(a, b, breaker)
	g := apptest.Start(t, both)
	g.Post(t, apptest.ChatBody)
	opened := g.Circuit(t, key)
	if opened.State != "open" {
		t.Fatalf("the circuit is %s, want it open", opened.State)
	}

	g.MustReload(t, apptest.Configuration(breaker, apptest.Provider{Name: "beta", Region: "r2", Upstream: b}))
	for _, url := range []string{g.AdminURL + "/api/v1/circuits", g.AdminURL + "/metrics", g.AdminURL + "/api/v1/health/providers"} {
		for line := range strings.Lines(apptest.Get(t, url).Body) {
			if strings.Contains(line, "alpha") && !strings.Contains(line, "_total{") && !strings.Contains(line, "_seconds_") && !strings.Contains(line, "fallbacks_total") {
				t.Errorf("%s still shows %s", url, line)
			}
		}
	}
	if answer := apptest.Get(t, g.AdminURL+"/api/v1/circuits/alpha%2Fm1%2Fr1"); answer.Status != http.StatusNotFound {
		t.Errorf("the circuit alone got %d, want 404", answer.Status)
	}

	g.MustReload(t, both)
	if again := g.Circuit(t, key); again.State != "open" || again.RetryAfterMS > opened.RetryAfterMS || again.RetryAfterMS == 0 {
		t.Errorf("after its return the circuit is %+v, was %+v", again, opened)
	}
}

// A changed profile governs from the next outcome on: what was counted stays,
// and so do the circuits that it is not about.
func TestAChangedProfileKeepsWhatWasCounted(t *testing.T) {
	t.Parallel()
	const alpha, beta = "alpha/m1/r1", "beta/m1/r2"
	a, b := apptest.NewUpstream(t, apptest.Status(503)), apptest.NewUpstream(t, apptest.Status(503))
	tripping := func(match string, n int) string {
		return apptest.TwoTargets(a, b, "circuit_breaker: {failure_threshold: 9, failure_rate_threshold: 0, cooldown: 1h, max_cooldown: 1h}",
			fmt.Sprintf("breaker_profiles: {mine: {failure_threshold: %d}}", n), "breakers: [{match: "+match+", profile: mine}]")
	}
	g := apptest.Start(t, tripping("alpha/*/*", 8))
	check := func(when, key, state, policy string, failures int) {
		t.Helper()
		if got := g.Circuit(t, key); got.State != state || got.Policy != policy || got.ConsecutiveFailures != failures {
			t.Errorf("%s: %s is %s by %s after %d failures, want %s by %s after %d", when, key, got.State, got.Policy, got.ConsecutiveFailures, state, policy, failures)
		}
	}
	for range 3 {
		g.Post(t, apptest.ChatBody)
	}
	check("at first", alpha, "closed", "mine", 3)
	check("at first", beta, "closed", "circuit_breaker", 3)

	g.MustReload(t, tripping("alpha/*/*", 4))
	check("with a stricter profile", alpha, "closed", "mine", 3)
	g.Post(t, apptest.ChatBody)
	check("one failure later", alpha, "open", "mine", 4)
	check("one failure later", beta, "closed", "circuit_breaker", 4)

	g.MustReload(t, tripping("beta/*/*", 5))
	check("with the override on the other", alpha, "open", "circuit_breaker", 4)
	check("with the override on the other", beta, "closed", "mine", 4)
	g.Post(t, apptest.ChatBody)
	check("at last", beta, "open", "mine", 5)
}

// simulation is a configuration with one simulated provider, declared so.
func simulation(declared, more string) string {
	return "providers:\n  alpha: {kind: simulated, retry: {max: 0}, simulated: " + declared + ", models: {m1: {input: 1, output: 5}}}\n" +
		"configurations: {chat: {targets: [{provider: alpha, model: m1}]}}\n" + more
}

// A switch that an operator set stays, until the file says something new.
func TestASimulatedProviderKeepsItsSwitch(t *testing.T) {
	t.Parallel()
	const fast = "{latency: 0s, tokens_per_second: 0}"
	g := apptest.Start(t, simulation(fast, ""))
	mode := func() (mode string) {
		t.Helper()
		var shown struct{ Mode string }
		if err := json.Unmarshal([]byte(apptest.Get(t, g.AdminURL+"/api/v1/simulated/alpha").Body), &shown); err != nil {
			t.Fatal(err)
		}
		return shown.Mode
	}
	set, err := apptest.Do(t.Context(), http.MethodPut, g.AdminURL+"/api/v1/simulated/alpha", `{"mode":"error","status":503}`)
	if err != nil || set.Status != http.StatusOK {
		t.Fatalf("the switch got %d %s %v", set.Status, set.Body, err)
	}

	g.MustReload(t, simulation(fast, "health: {window: 1m}"))
	if got := mode(); got != "error" {
		t.Errorf("after a reload of something else the mode is %q, want error", got)
	}
	g.MustReload(t, simulation("{latency: 0s, tokens_per_second: 0, mode: rate_limit}", ""))
	if got := mode(); got != "rate_limit" {
		t.Errorf("after a reload of the mode it is %q, want rate_limit", got)
	}
	b := apptest.NewUpstream(t, apptest.OK())
	g.MustReload(t, apptest.OneTarget(b))
	if answer := apptest.Get(t, g.AdminURL+"/api/v1/simulated/alpha"); answer.Status != http.StatusNotFound {
		t.Errorf("a provider that is simulated no more got %d, want 404", answer.Status)
	}
}

// A new limit counts the calls that already run.
func TestBulkheadsCountOverAReload(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	a := apptest.NewUpstream(t, apptest.When(`"stream":true`, held(release), apptest.OK()))
	limited := func(n int) string {
		return apptest.Configuration("", apptest.Provider{Name: "alpha", Region: "r1", Upstream: a, Extra: fmt.Sprintf("max_concurrent: %d", n)})
	}
	g := apptest.Start(t, limited(2))
	end := begun(t, g, a)

	g.MustReload(t, limited(1))
	if answer := g.Post(t, apptest.ChatBody); answer.Status != http.StatusServiceUnavailable || answer.Error(t).Code != "overloaded" {
		t.Errorf("a second call over the new limit got %d %s", answer.Status, answer.Body)
	}
	close(release)
	if answer := end(); answer.Err != nil || !strings.HasSuffix(answer.Body, apptest.Done) {
		t.Errorf("the stream was cut: %v %s", answer.Err, answer.Body)
	}
	if answer := g.Post(t, apptest.ChatBody); answer.Status != http.StatusOK {
		t.Errorf("with the place free again a call got %d %s", answer.Status, answer.Body)
	}
}

func TestTheLogLevelFollowsAReload(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a, "log: {level: debug}"))
	g.MustReload(t, apptest.OneTarget(a, "log: {level: error}"))
	g.MustReload(t, apptest.OneTarget(a, "log: {level: error}", "health: {window: 1m}"))
	if lines := linesWith(g, "configuration reloaded"); len(lines) != 0 {
		t.Errorf("at level error the log says:\n%s", strings.Join(lines, "\n"))
	}
	g.MustReload(t, apptest.OneTarget(a, "log: {level: info}"))
	if lines := linesWith(g, "configuration reloaded"); len(lines) != 1 {
		t.Errorf("back at level info the log says %d times that it was reloaded, want once", len(lines))
	}
}

// CF-T9: with telemetry off calls are served and counted, and no row is written; a
// reload switches it on and off.
func TestTelemetryThatIsOffWritesNothing(t *testing.T) {
	t.Parallel()
	const served = `breakwater_requests_total{configuration="chat",operation="chat",outcome="success"}`
	const opened = `breakwater_circuit_transitions_total{from_state="closed",model="m1",provider="alpha",reason="consecutive",region="r1",to_state="open"}`
	a, b := apptest.NewUpstream(t, apptest.Status(503)), apptest.NewUpstream(t, apptest.OK())
	enabled := func(on bool) string {
		return apptest.TwoTargets(a, b, "circuit_breaker: {failure_threshold: 1, cooldown: 1h, max_cooldown: 1h}",
			fmt.Sprintf("telemetry: {enabled: %t, flush_interval: 20ms}", on))
	}
	g := apptest.Start(t, enabled(false))
	for range 3 {
		if answer := g.Post(t, apptest.ChatBody); answer.Status != http.StatusOK || answer.Body != apptest.OKBody {
			t.Fatalf("a call got %d %s", answer.Status, answer.Body)
		}
	}
	g.AwaitMetric(t, served, "3")
	g.AwaitMetric(t, opened, "1")

	g.MustReload(t, enabled(true))
	g.Post(t, apptest.ChatBody)
	g.Runs(t, 1)
	g.MustReload(t, enabled(false))
	g.Post(t, apptest.ChatBody)
	g.AwaitMetric(t, served, "5")
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	g.Runs(t, 1)
	g.Attempts(t, 2)
	g.CircuitEvents(t, 0)
}
