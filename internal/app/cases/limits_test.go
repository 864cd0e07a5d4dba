package cases

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

const authKeys = "auth: {mode: keys}"

// CF-G17, CF-G16: a key's limits come before those of the configuration, and one
// key's use is not another's.
func TestLimitsOfKeys(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a, authKeys, under("requests_per_day: 3", "alpha")))
	tight := g.MintKey(t, "tight", `"requests_per_day": 1, "cost_per_month": 5`)
	loose := g.MintKey(t, "loose", "")

	served(t, g.Post(t, apptest.ChatBody, tight.Authorization()...), circuitA)
	answer := g.Post(t, apptest.ChatBody, tight.Authorization()...)
	refused(t, answer, 402, budgetType, budgetCode)
	if message := answer.Error(t).Message; !strings.Contains(message, "requests_per_day of this key is 1") {
		t.Errorf("message %q does not name the key's limit", message)
	}
	served(t, g.Post(t, apptest.ChatBody, loose.Authorization()...), circuitA)
	served(t, g.Post(t, apptest.ChatBody, loose.Authorization()...), circuitA)
	answer = g.Post(t, apptest.ChatBody, loose.Authorization()...)
	refused(t, answer, 402, budgetType, budgetCode)
	if message := answer.Error(t).Message; !strings.Contains(message, "of this configuration is 3") {
		t.Errorf("message %q does not name the configuration's limit", message)
	}

	equal(t, "calls of A", a.Calls(), 3)
	limits := g.KeyLimits(t, tight.ID)
	equal(t, "requests of the key", limits["requests_per_day"].Spent.String(), "1")
	equal(t, "cost of the key", limits["cost_per_month"].Spent.String(), "0.00002")
	equal(t, "the same by its name", g.KeyLimits(t, "tight"), limits)
	g.AwaitSpent(t, "chat", "requests_per_day", "3")
	g.AwaitMetric(t, `breakwater_budget_denied_total{scope="key"}`, "1")
	g.AwaitMetric(t, `breakwater_budget_denied_total{scope="configuration"}`, "1")
	equal(t, "budgets of nobody", apptest.Get(t, g.AdminURL+"/api/v1/budgets?key="+loose.ID).Status, 404)
}

// Whoever is too fast is told for how long, on the answers before as well.
func TestRateLimitsOfACaller(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.When(`"stream":true`, apptest.OKStream(), apptest.OK()))
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.TwoTargets(a, b, authKeys))
	key := g.MintKey(t, "fast", `"requests_per_minute": 2, "tokens_per_minute": 100000`)

	first := g.Post(t, apptest.ChatBody, key.Authorization()...)
	served(t, first, circuitA)
	equal(t, "limit", first.Header.Get("X-Ratelimit-Limit-Requests"), "2")
	equal(t, "remaining", first.Header.Get("X-Ratelimit-Remaining-Requests"), "1")
	if reset, err := time.ParseDuration(first.Header.Get("X-Ratelimit-Reset-Requests")); err != nil || reset <= 0 || reset > 2*time.Minute {
		t.Errorf("reset in %v (%v), want within about a minute", reset, err)
	}
	equal(t, "policy", first.Header.Get("RateLimit-Policy"), `"requests";q=2;w=60;qu="requests", "tokens";q=100000;w=60;qu="tokens"`)

	stream := g.Post(t, apptest.StreamBody, key.Authorization()...)
	equal(t, "status of a stream", stream.Status, 200)
	equal(t, "remaining in a stream", stream.Header.Get("X-Ratelimit-Remaining-Requests"), "0")

	over := g.Post(t, apptest.ChatBody, key.Authorization()...)
	refused(t, over, 429, rateType, rateCode)
	equal(t, "remaining", over.Header.Get("X-Ratelimit-Remaining-Requests"), "0")
	wait, err := strconv.Atoi(over.Header.Get("Retry-After"))
	if err != nil || wait < 1 || wait > 62 {
		t.Errorf("Retry-After %q, want up to a minute", over.Header.Get("Retry-After"))
	}
	if ms, err := strconv.Atoi(over.Header.Get("Retry-After-Ms")); err != nil || ms > wait*1000 || ms <= (wait-1)*1000 {
		t.Errorf("retry-after-ms %q does not fit %d s", over.Header.Get("Retry-After-Ms"), wait)
	}
	equal(t, "calls of A and B", []int{a.Calls(), b.Calls()}, []int{2, 0})
	rows(t, "its attempts", g.AttemptsOf(t, over), apptest.Row{"provider": "alpha", "outcome": "refused", "failure_class": "budget_denied", "failure_reason": "rate_limit_exceeded"})
	rows(t, "its run", g.Runs(t, 3)[2:], apptest.Row{"outcome": "denied", "http_status": 429, "api_key_id": key.ID})
}

// So many calls at once, and one more as soon as one of them has ended.
func TestConcurrentCallsOfAConfiguration(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	a := apptest.NewUpstream(t, apptest.Held(release, apptest.OK()))
	g := apptest.Start(t, apptest.OneTarget(a, under("concurrent: 2", "alpha")))
	var held sync.WaitGroup
	for range 2 {
		held.Go(func() {
			if answer, err := g.TryPost(t.Context(), apptest.ChatBody); err != nil || answer.Status != 200 {
				t.Errorf("a call within the limit got %d %v", answer.Status, err)
			}
		})
	}
	apptest.Eventually(t, func() string {
		if n := a.Calls(); n < 2 {
			return fmt.Sprintf("%d calls have reached A", n)
		}
		return ""
	})
	answer := g.Post(t, apptest.ChatBody)
	refused(t, answer, 429, rateType, rateCode)
	equal(t, "Retry-After where any call's end makes room", answer.Header.Get("Retry-After"), "1")
	equal(t, "X-Should-Retry", answer.Header.Get("X-Should-Retry"), "")
	equal(t, "reserved", g.Limits(t, "chat")["concurrent"].Left.String(), "0")
	close(release)
	held.Wait()
	g.AwaitSpent(t, "chat", "concurrent", "0")
	served(t, g.Post(t, apptest.ChatBody), circuitA)
}

// The upstream is told how long an answer may be where its length is paid for by
// a limit, and only there.
func TestAnAnswerIsLimitedWhereALimitPaysForIt(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.Configuration(`budget: {default_max_output: 77}
configurations:
  chat: {targets: [{provider: alpha, model: m1}], limits: {cost_per_day: 1}}
  free: {targets: [{provider: alpha, model: m1}], limits: {requests_per_day: 9}}
`, alpha(a, "output_limit: max_completion_tokens")))
	for _, body := range []string{
		`{"model":"chat","messages":[]}`,
		`{"model":"chat","max_completion_tokens":null,"messages":[]}`,
		`{"model":"chat","max_tokens":5,"messages":[]}`,
		`{"model":"free","messages":[]}`,
	} {
		equal(t, "status", g.Post(t, body).Status, 200)
	}
	var got []string
	for _, r := range a.Requests() {
		got = append(got, r.Body)
	}
	equal(t, "what A was sent", got, []string{
		`{"model":"m1","max_completion_tokens":77,"messages":[]}`,
		`{"model":"m1","max_completion_tokens":77,"messages":[]}`,
		`{"model":"m1","max_tokens":5,"messages":[]}`,
		`{"model":"m1","messages":[]}`,
	})
}

// A reload changes a limit at once and forgets nothing that is spent.
func TestAReloadKeepsWhatIsSpent(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	text := func(limit int) string {
		return apptest.OneTarget(a, under(fmt.Sprintf("requests_per_day: %d", limit), "alpha"))
	}
	g := apptest.Start(t, text(1))
	served(t, g.Post(t, apptest.ChatBody), circuitA)
	refused(t, g.Post(t, apptest.ChatBody), 402, budgetType, budgetCode)
	g.MustReload(t, text(2))
	served(t, g.Post(t, apptest.ChatBody), circuitA)
	refused(t, g.Post(t, apptest.ChatBody), 402, budgetType, budgetCode)
	g.AwaitSpent(t, "chat", "requests_per_day", "2")
}

// 200 calls at once on 7 requests that are left: 7 reach an upstream, whatever
// becomes of each, streams, failures and clients that leave among them; also
// behind the loss of the counters, which the database knows.
func TestManyCallsOnFewRequests(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		gateways int
		shared   bool
		flushed  bool
	}{
		"in process":                               {gateways: 1},
		"one gateway on a cache":                   {gateways: 1, shared: true},
		"two gateways on a cache":                  {gateways: 2, shared: true},
		"two gateways on a cache that was emptied": {gateways: 2, shared: true, flushed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const left, before = 7, 3
			a := apptest.NewUpstream(t, apptest.When("break", apptest.Status(500),
				apptest.When(`"stream":true`, apptest.OKStream(), apptest.After(20*time.Millisecond, apptest.OK()))))
			more := []string{under(fmt.Sprintf("requests_per_day: %d", left+before), "alpha")}
			var server *redistest.Server
			if tt.shared {
				server = redistest.Start(t)
				more = append(more, onCache(server))
			}
			nodes := fleet(t, tt.gateways, apptest.OneTarget(a, more...))
			for range before {
				served(t, nodes[0].Post(t, apptest.ChatBody), circuitA)
			}
			nodes[0].AwaitSpent(t, "chat", "requests_per_day", strconv.Itoa(before))
			if tt.flushed {
				awaitUsed(t, nodes[0], before) // by the database
				server.FlushAll()
			}
			storm(t, 200, nodes...)
			for _, g := range nodes {
				g.AwaitSpent(t, "chat", "requests_per_day", strconv.Itoa(left+before))
			}
			awaitReached(t, nodes[0], left+before)
			// A request whose client leaves while it is on its way may not arrive.
			if calls := a.Calls(); calls > left+before {
				t.Errorf("A has got %d calls, want at most %d", calls, left+before)
			}
		})
	}
}

// awaitReached waits until the records tell of so many attempts that asked an
// upstream.
func awaitReached(t *testing.T, g *apptest.Gateway, want int) {
	t.Helper()
	apptest.Eventually(t, func() string {
		var got int
		err := g.DB.QueryRow(t.Context(), "SELECT coalesce(sum(attempts), 0) FROM telemetry_runs").Scan(&got)
		if err != nil || got != want {
			return fmt.Sprintf("%d attempts have asked an upstream (%v), want %d", got, err, want)
		}
		return ""
	})
}

// storm makes so many calls at once: plain ones, streams, such that fail, and such
// whose clients leave at once.
func storm(t *testing.T, n int, nodes ...*apptest.Gateway) {
	t.Helper()
	bodies := []string{apptest.ChatBody, apptest.StreamBody, strings.Replace(apptest.ChatBody, "say ok", "break", 1), apptest.ChatBody}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			kind := i % len(bodies)
			if kind == 3 {
				time.AfterFunc(time.Duration(i)*time.Millisecond/4, leave)
			}
			answer, err := nodes[i%len(nodes)].TryPost(ctx, bodies[kind])
			if err != nil {
				if ctx.Err() == nil {
					t.Errorf("a call got no answer: %v", err)
				}
				return
			}
			switch answer.Status {
			case http.StatusOK, http.StatusPaymentRequired, http.StatusBadGateway:
			default:
				t.Errorf("a call got %d %s", answer.Status, answer.Body)
			}
		})
	}
	all.Wait()
}
