package cases

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

const askingKeys = "auth: {mode: keys, cache_ttl: 1h}"

func bearer(key string) []string { return []string{"Authorization", "Bearer " + key} }

// Covers SEC-01: what a caller says of itself stays here.
func TestWhatACallerProvesItselfWithStaysHere(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a, askingKeys))
	key := g.MintKeyWith(t, "shop")
	given := map[string]string{
		"Authorization": "Bearer " + key.Text, "X-Api-Key": key.Text, "Api-Key": "marked-1", "X-Goog-Api-Key": "marked-2",
		"Cookie": "session=marked-3", "Proxy-Authorization": "Basic marked-4", "X-Forwarded-For": "203.0.113.77",
	}
	var headers []string
	for name, value := range given {
		headers = append(headers, name, value)
	}

	served(t, g.Post(t, apptest.ChatBody, headers...), circuitA)

	requests := a.Requests()
	equal(t, "requests", len(requests), 1)
	equal(t, "Authorization", requests[0].Header["Authorization"], []string{"Bearer sk-alpha-secret"})
	equal(t, "query", requests[0].Query, "")
	for name, values := range requests[0].Header {
		for _, mark := range []string{"marked-", key.Text, "203.0.113.77"} {
			if strings.Contains(strings.Join(values, " "), mark) {
				t.Errorf("the upstream got %s: %q", name, values)
			}
		}
	}
	equal(t, "api_key_id", g.Runs(t, 1)[0]["api_key_id"], any(key.ID))
	if logged := g.Logs.String(); strings.Contains(logged, key.Text) {
		t.Error("the log holds a key")
	}
}

// Covers SEC-05.
func TestARejectedKeyIsNotLogged(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a, askingKeys))

	answer := g.Post(t, apptest.ChatBody, bearer("gk-UNKNOWN-0123456789")...)

	refused(t, answer, 401, "authentication_error", "invalid_api_key")
	if logged := g.Logs.String(); strings.Contains(logged, "UNKNOWN-0123456789") || strings.Contains(answer.Body, "UNKNOWN") {
		t.Error("a rejected key is shown")
	}
	equal(t, "calls of A", len(a.Requests()), 0)
	g.AwaitMetric(t, `breakwater_refusals_total{code="invalid_api_key"}`, "1")
}

// A key that is revoked on one gateway is worth nothing on any a second later.
func TestARevocationReachesEveryGateway(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	url := postgrestest.URL(t)
	one, other := apptest.StartWith(t, apptest.OneTarget(a, askingKeys), url), apptest.StartWith(t, apptest.OneTarget(a, askingKeys), url)
	key := one.MintKeyWith(t, "shop")
	served(t, one.Post(t, apptest.ChatBody, key.Authorization()...), circuitA)
	served(t, other.Post(t, apptest.ChatBody, key.Authorization()...), circuitA)

	equal(t, "status of revoking", one.Operator(t, http.MethodPost, "/api/v1/keys/"+key.ID+"/revoke", "").Status, 200)

	begun := time.Now()
	refused(t, one.Post(t, apptest.ChatBody, key.Authorization()...), 401, "authentication_error", "invalid_api_key") // at once
	apptest.Eventually(t, func() string {
		if answer := other.Post(t, apptest.ChatBody, key.Authorization()...); answer.Status != 401 {
			return "the other gateway still serves the key"
		}
		return ""
	})
	took := time.Since(begun)
	t.Logf("the other gateway refused the key after %s", took)
	if took > 30*time.Second { // a second, and room for a machine under load; not auth.cache_ttl
		t.Errorf("the revocation took %s, want 1s", took)
	}
}

// While the database is away known keys go on, and unknown ones are told that
// nobody can tell.
func TestKnownKeysOutliveTheDatabase(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	link := apptest.NewLink(t, postgrestest.URL(t))
	g := apptest.StartWith(t, apptest.OneTarget(a, "auth: {cache_ttl: 1ms}"), link.URL)
	known, revoked, unknown := g.MintKeyWith(t, "known"), g.MintKeyWith(t, "revoked"), g.MintKeyWith(t, "unknown")
	served(t, g.Post(t, apptest.ChatBody, known.Authorization()...), circuitA)
	served(t, g.Post(t, apptest.ChatBody, revoked.Authorization()...), circuitA)
	g.Operator(t, http.MethodPost, "/api/v1/keys/"+revoked.ID+"/revoke", "")

	for name, hurt := range map[string]func(){"cut": link.Cut, "frozen": link.Freeze} {
		hurt()
		answer := g.Post(t, apptest.ChatBody, known.Authorization()...)
		served(t, answer, circuitA)
		if answer.Took >= 3*time.Second { // what a look-up may take that is waited for
			t.Errorf("%s: a known key took %s", name, answer.Took)
		}
		refused(t, g.Post(t, apptest.ChatBody, revoked.Authorization()...), 401, "authentication_error", "invalid_api_key")
		refused(t, g.Post(t, apptest.ChatBody, unknown.Authorization()...), 503, "service_unavailable_error", "key_store_unavailable")
		link.Mend()
	}
	apptest.Eventually(t, func() string {
		if answer := g.Post(t, apptest.ChatBody, unknown.Authorization()...); answer.Status != 200 {
			return answer.Body
		}
		return ""
	})
}

// Whoever tries keys is told to wait, and keeps nobody out whose key is known.
func TestWhoTriesKeysIsTold(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a, askingKeys))
	key := g.MintKeyWith(t, "shop")
	served(t, g.Post(t, apptest.ChatBody, key.Authorization()...), circuitA)

	var last apptest.Answer
	apptest.Eventually(t, func() string {
		guess := "bw_" + strings.ReplaceAll(time.Now().Format("150405.0000"), ".", "")[:10] + "_" + strings.Repeat("x", 43)
		if last = g.Post(t, apptest.ChatBody, bearer(guess)...); last.Status != 429 {
			return "guessing goes on"
		}
		return ""
	})

	refused(t, last, 429, "rate_limit_error", "rate_limit_exceeded")
	equal(t, "Retry-After", last.Header.Get("Retry-After"), "1")
	served(t, g.Post(t, apptest.ChatBody, key.Authorization()...), circuitA)
}

// Keys that were minted on another gateway are served by one where somebody guesses
// from the same address all the time.
func TestGuessersKeepNoGoodKeyOut(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	url := postgrestest.URL(t)
	one, other := apptest.StartWith(t, apptest.OneTarget(a, askingKeys), url), apptest.StartWith(t, apptest.OneTarget(a, askingKeys), url)
	guessing, stop := context.WithCancel(t.Context())
	var guessers sync.WaitGroup
	var throttled atomic.Int64
	defer guessers.Wait()
	defer stop()
	for i := range 4 {
		guessers.Go(func() {
			for n := 0; guessing.Err() == nil; n++ {
				answer, err := one.TryPost(guessing, apptest.ChatBody, bearer(fmt.Sprintf("bw_guess%d%04d_%s", i, n%10000, strings.Repeat("x", 43)))...)
				if err == nil && answer.Status == http.StatusTooManyRequests {
					throttled.Add(1)
				}
			}
		})
	}
	apptest.Eventually(t, func() string {
		if throttled.Load() == 0 {
			return "guessing goes on"
		}
		return ""
	})
	minted := make([]apptest.Key, 50)
	for i := range minted {
		minted[i] = other.MintKeyWith(t, fmt.Sprint("shop", i))
	}
	apptest.Eventually(t, func() string { // until the gateway has heard of the last of them
		if answer := one.Post(t, apptest.ChatBody, minted[49].Authorization()...); answer.Status != 200 {
			return answer.Body
		}
		return ""
	})

	for _, key := range minted[:49] {
		served(t, one.Post(t, apptest.ChatBody, key.Authorization()...), circuitA)
	}
	t.Logf("%d guesses were told to wait meanwhile", throttled.Load())
}

func TestTheCallsOfAKeyAreListed(t *testing.T) {
	t.Parallel()
	g := apptest.Start(t, apptest.OneTarget(apptest.NewUpstream(t, apptest.OK()), askingKeys))
	shop, crm := g.MintKeyWith(t, "shop"), g.MintKeyWith(t, "crm")
	for _, key := range []apptest.Key{shop, crm, shop} {
		served(t, g.Post(t, apptest.ChatBody, key.Authorization()...), circuitA)
	}
	g.Runs(t, 3)

	for asked, want := range map[string]int{shop.ID: 2, "shop": 2, "crm": 1, "nobody": 0, "": 3} {
		list := apptest.Read(t, g.AdminURL+"/api/v1/runs?key="+asked).Body
		equal(t, "calls of "+asked, strings.Count(list, `"run_id"`), want)
	}
	page := apptest.Get(t, g.AdminURL+"/").Body
	for name, want := range map[string]int{"shop": 2, "crm": 1} {
		equal(t, "rows of "+name, strings.Count(page, `<td class="asked">`+name+"</td>"), want)
	}
}

func TestAKeyIsHeldToItsConfigurations(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a, askingKeys))
	key := g.MintKeyWith(t, "shop", `"configurations":["chat"],"limits":{"requests_per_day":100,"cost_per_month":"25.50"},"ttl_ms":3600000`)

	served(t, g.Post(t, apptest.ChatBody, key.Authorization()...), circuitA)
	refused(t, g.Post(t, strings.Replace(apptest.ChatBody, "chat", "alpha/m1", 1), key.Authorization()...), 403, "permission_error", "model_not_allowed")

	list := apptest.Read(t, g.AdminURL+"/api/v1/keys").Body
	for _, part := range []string{`"configurations":["chat"]`, `"requests_per_day":100`, `"cost_per_month":"25.5"`, `"state":"live"`, key.Prefix} {
		if !strings.Contains(list, part) {
			t.Errorf("the list lacks %s: %s", part, list)
		}
	}
	if strings.Contains(list, key.Text) {
		t.Error("the list holds a key's text")
	}
	for body, code := range map[string]string{
		`{"name":"shop"}`: "name_taken",
		`{"name":"a b"}`:  "invalid_value",
		`{"name":"b","limits":{"cost_per_day":-1}}`: "invalid_value",
		`{"name":"b","limits":{"cost_per_week":1}}`: "invalid_value",
		`{"name":"b","limits":{"concurrent":true}}`: "invalid_value",
		`{"name":"b","ttl_ms":9223372036854775807}`: "invalid_value",
		`{"name":"b","configurations":[""]}`:        "invalid_value",
	} {
		answer := g.Operator(t, http.MethodPost, "/api/v1/keys", body)
		equal(t, "code for "+body, answer.Error(t).Code, code)
	}
}
