package cases

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/operators"
)

var adminSecurity = theme{
	"ADM_03":      callerCannotChooseTheHost,
	"ADM_06":      foreignPageChangesNothing,
	"ADM_viewers": viewersChangeNothingOfCallers,
	"ADM_08":      metricsAreNotOnThePublicListener,
}

func callerCannotChooseTheHost(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OK())
	foreign := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a))

	body := `{"model":"chat","messages":[],"api_base":"URL","base_url":"URL","api_key":"sk-foreign","custom_llm_provider":"URL"}`
	served(t, g.Post(t, strings.ReplaceAll(body, "URL", foreign.URL),
		"X-Breakwater-Base-Url", foreign.URL, "X-Base-Url", foreign.URL, "X-OpenAI-Base-Url", foreign.URL), circuitA)

	equal(t, "calls of the foreign host", foreign.Calls(), 0)
	equal(t, "A's credential", a.Requests()[0].Header.Get("Authorization"), "Bearer sk-alpha-secret")
}

func foreignPageChangesNothing(t *testing.T) {
	g := apptest.Start(t, `
providers:
  sim: {kind: simulated, models: {m1: {}}}
configurations:
  chat: {targets: [{provider: sim, model: m1}]}
`)
	route := g.AdminURL + "/api/v1/simulated/sim"
	change := func(headers ...string) int {
		t.Helper()
		answer, err := apptest.Do(t.Context(), http.MethodPut, route, `{"mode":"error"}`, headers...)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Status
	}
	mode := func() string {
		t.Helper()
		var model struct{ Mode string }
		if err := json.Unmarshal([]byte(apptest.Get(t, route).Body), &model); err != nil {
			t.Fatal(err)
		}
		return model.Mode
	}

	equal(t, "status of another origin's change", change("Origin", "https://evil.test", "Cookie", "session=valid"), http.StatusForbidden)
	equal(t, "status of a cross-site change", change("Sec-Fetch-Site", "cross-site", "Cookie", "session=valid"), http.StatusForbidden)
	equal(t, "status of another origin's command", g.Steer(t, "sim/m1/default", "open", "", "Origin", "https://evil.test", "Cookie", "session=valid").Status, http.StatusForbidden)
	equal(t, "mode after them", mode(), "ok")
	equal(t, "state after them", g.Circuit(t, "sim/m1/default").State, "closed")
	equal(t, "status of a program's change", change("Authorization", "Bearer "+g.Token(t, "ci", operators.RoleOperator)), http.StatusOK)
	equal(t, "mode after it", mode(), "error")
}

func metricsAreNotOnThePublicListener(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a))
	served(t, g.Post(t, `{"model":"chat","messages":[],"user":"bob@acme","metadata":{"team":"acme-corp"}}`,
		"Authorization", "Bearer bw_acme-corp", "X-Correlation-ID", "acme-corp"), circuitA)
	g.AwaitMetric(t, `breakwater_requests_total{configuration="chat",operation="chat",outcome="success"}`, "1")

	equal(t, "status on the public listener", apptest.Get(t, g.URL+"/metrics").Status, http.StatusNotFound)
	if page := apptest.Get(t, g.AdminURL+"/metrics").Body; strings.Contains(page, "acme") || strings.Contains(page, "bob") {
		t.Errorf("metrics name a caller:\n%s", page)
	}
}

// viewersChangeNothingOfCallers: who may only look neither mints nor ends a key,
// and makes nobody pay for an answer again.
func viewersChangeNothingOfCallers(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a, authKeys, caching))
	caller := g.MintKey(t, "shop", "")
	viewer := bearer(g.Token(t, "vic", operators.RoleViewer))
	cached(t, g, apptest.ChatBody, "miss", caller.Authorization()...)
	for _, change := range []struct{ method, path, body string }{
		{http.MethodDelete, "/api/v1/response-cache", ""},
		{http.MethodDelete, "/api/v1/response-cache?configuration=chat", ""},
		{http.MethodPost, "/api/v1/keys", `{"name":"till"}`},
		{http.MethodPost, "/api/v1/keys/" + caller.ID + "/revoke", ""},
	} {
		answer, err := apptest.Do(t.Context(), change.method, g.AdminURL+change.path, change.body, viewer...)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, change.method+" "+change.path, []any{answer.Status, answer.Error(t).Code}, []any{http.StatusForbidden, "operator_required"})
	}
	cached(t, g, apptest.ChatBody, "hit", caller.Authorization()...)
	listed, err := apptest.Do(t.Context(), http.MethodGet, g.AdminURL+"/api/v1/keys", "", viewer...)
	if err != nil || listed.Status != http.StatusOK || strings.Contains(listed.Body, "till") {
		t.Errorf("the keys that a viewer sees: %d %s (%v)", listed.Status, listed.Body, err)
	}
}
