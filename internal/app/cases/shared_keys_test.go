package cases

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// everything is all that gateways keep in a cache: limits of speed and budgets of
// a key and of configurations, answers, idempotency keys, and circuits.
const everything = `
response_cache: {ttl: 1h}
configurations:
  chat:
    targets: [{provider: alpha, model: m1}]
    limits: {requests_per_minute: 100, tokens_per_minute: 100000, concurrent: 9, requests_per_day: 100, tokens_per_month: 100000, cost_per_month: 5}
    degrade: {stale: 1h}
`

// limitsOfAKey are all that a key can have.
const limitsOfAKey = `"requests_per_minute": 100, "tokens_per_minute": 100000, "concurrent": 9, "requests_per_day": 100, "tokens_per_day": 100000,
	"cost_per_day": 5, "requests_per_month": 100, "tokens_per_month": 100000, "cost_per_month": 5`

// everythingSharedExpires takes a gateway with everything through all that it
// keeps in a cache, and looks at every key on the way.
func everythingSharedExpires(t *testing.T) {
	server := redistest.Start(t)
	release := make(chan struct{})
	a := apptest.NewUpstream(t, apptest.When("hold", apptest.Held(release, apptest.OK()), apptest.When("break", apptest.Status(500), apptest.OK())))
	g := apptest.Start(t, apptest.OneTarget(a, everything, authKeys, lasting, onCache(server)))
	awaitShared(t, g, false)
	caller := g.MintKey(t, "shop", limitsOfAKey)
	body := func(says string) string { return strings.Replace(apptest.ChatBody, "say ok", says, 1) }
	post := func(says string, more ...string) apptest.Answer {
		return g.Post(t, body(says), append(caller.Authorization(), more...)...)
	}
	seen := map[string]bool{}
	expire := func(when string) {
		t.Helper()
		for _, key := range server.Keys() {
			seen[room(key)] = true
			if endless(server, key) {
				t.Errorf("%s: %q has no end", when, key)
			}
		}
	}

	first := post("say ok", key, "stored")
	served(t, first, circuitA)
	expire("an answer that is stored")
	replayed(t, post("say ok", key, "stored"), first)
	cached(t, g, body("say ok"), "hit", caller.Authorization()...)
	expire("an answer that is given again")

	var running sync.WaitGroup
	running.Go(func() {
		headers := append(caller.Authorization(), key, "running")
		if answer, err := g.TryPost(t.Context(), body("hold"), headers...); err != nil || answer.Status != http.StatusOK {
			t.Errorf("the call under way got %d %v", answer.Status, err)
		}
	})
	apptest.Eventually(t, func() string {
		if a.Calls() < 2 {
			return "A was not asked"
		}
		return ""
	})
	expire("a call under way")
	close(release)
	running.Wait()
	g.AwaitSpent(t, "chat", "concurrent", "0")
	expire("a call that has ended")

	if answer := post("break", key, "released"); answer.Status < 500 {
		t.Errorf("the failure is answered with %d %s", answer.Status, answer.Body)
	}
	awaitState(t, g, circuitA, "open")
	expire("a failure")
	equal(t, "behind an open circuit", post("break", key, "released").Status, http.StatusServiceUnavailable)
	g.AwaitSpent(t, "chat", "concurrent", "0")
	expire("a refusal")
	equal(t, "what is kept", seen, map[string]bool{"answers": true, "keys": true, "limits": true, "circuits": true})
}

// endless reports whether a key stays for ever. One whose time was over meanwhile
// does not.
func endless(server *redistest.Server, key string) bool {
	const noEnd = -time.Millisecond // PTTL says -1, and -2 of a key that is not there
	return server.TTL(key) == noEnd
}

// room is what a key of the cache is for.
func room(key string) string {
	for part, what := range map[string]string{"responses:": "answers", "ik:": "keys", "budget:": "limits", "cb:": "circuits"} {
		if strings.HasPrefix(strings.TrimPrefix(key, "breakwater:"), part) {
			return what
		}
	}
	return key
}
