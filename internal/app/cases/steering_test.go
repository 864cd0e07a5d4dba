package cases

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/operators"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// steer does something to A's circuit and returns what the answer says of it.
func steer(t *testing.T, g *apptest.Gateway, action, body string, headers ...string) (circuit apptest.Circuit, saved bool) {
	t.Helper()
	answer := g.Steer(t, circuitA, action, body, headers...)
	if answer.Status != http.StatusOK {
		t.Fatalf("%s got %d %s", action, answer.Status, answer.Body)
	}
	var view struct {
		apptest.Circuit
		Saved bool
	}
	if err := json.Unmarshal([]byte(answer.Body), &view); err != nil {
		t.Fatal(err)
	}
	return view.Circuit, view.Saved
}

// awaitDecision waits for what somebody has decided about A where a gateway's
// database was too slow to tell it at the start; else it is known by then.
func awaitDecision(t *testing.T, g *apptest.Gateway, state string) {
	t.Helper()
	for _, late := range []string{"operator decisions cannot be read", "database is away"} {
		if strings.Contains(g.Logs.String(), late) {
			awaitState(t, g, circuitA, state)
			return
		}
	}
}

// R31, T20: nobody can say when a person will end it.
func TestAForcedOpenCircuitRefusesUntilItIsReset(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	url := postgrestest.URL(t)
	g := apptest.StartWith(t, apptest.OneTarget(a), url)

	circuit, saved := steer(t, g, "open", `{"reason":"new driver"}`, "Authorization", "Bearer "+g.Token(t, "ada", operators.RoleOperator))
	equal(t, "state", circuit.State, "forced_open")
	equal(t, "saved", saved, true)
	equal(t, "who, why and until when", circuit.Actor+", "+circuit.Note+", "+circuit.Until, "ada, new driver, ")
	isRefused := func(g *apptest.Gateway) {
		t.Helper()
		answer := g.Post(t, apptest.ChatBody)
		refused(t, answer, 503, "service_unavailable_error", "circuit_open")
		equal(t, "Retry-After", answer.Header.Get("Retry-After"), "")
		equal(t, "x-should-retry", answer.Header.Get("X-Should-Retry"), "false")
		rows(t, "attempts", g.AttemptsOf(t, answer), apptest.Row{"outcome": "refused", "failure_class": "circuit_open", "circuit_state": "forced_open"})
	}
	isRefused(g)
	g.AwaitMetric(t, `breakwater_circuit_state{model="m1",provider="alpha",region="r1"}`, "3")
	rows(t, "events", g.CircuitEvents(t, 1), apptest.Row{"from_state": "closed", "to_state": "forced_open", "reason": "operator", "actor": "ada", "note": "new driver"})
	equal(t, "stop", g.Stop(), error(nil))

	g = apptest.StartWith(t, apptest.OneTarget(a), url)
	awaitDecision(t, g, "forced_open")
	isRefused(g)
	again := g.Circuit(t, circuitA)
	equal(t, "after a restart", again.State+", "+again.Actor+", "+again.Note, "forced_open, ada, new driver")
	equal(t, "calls of A", a.Calls(), 0)

	circuit, _ = steer(t, g, "reset", "")
	equal(t, "state after the reset", circuit.State+", "+circuit.Actor+circuit.Note+circuit.Until, "closed, ")
	served(t, g.Post(t, apptest.ChatBody), circuitA)
	g.CircuitEvents(t, 2) // the restart told none
	equal(t, "stop", g.Stop(), error(nil))

	g = apptest.StartWith(t, apptest.OneTarget(a), url)
	equal(t, "state after one more restart", g.Circuit(t, circuitA).State, "closed")
}

func TestAForcedOpenPrimaryLeadsToTheNextTarget(t *testing.T) {
	t.Parallel()
	a, b := apptest.NewUpstream(t, apptest.OK()), apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.TwoTargets(a, b))
	steer(t, g, "open", "")
	served(t, g.Post(t, apptest.ChatBody), circuitB)
	equal(t, "calls of A", a.Calls(), 0)
}

func TestTheTimeOfAForcedOpenCircuitEndsInAProbe(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a))
	circuit, _ := steer(t, g, "open", `{"ttl_ms":10000}`)
	until, err := time.Parse(time.RFC3339, circuit.Until)
	if left := time.Until(until); err != nil || left < 0 || left > 10*time.Second {
		t.Errorf("it lasts until %q: %v", circuit.Until, err)
	}
	answer := g.Post(t, apptest.ChatBody)
	refused(t, answer, 503, "service_unavailable_error", "circuit_open")
	if wait, err := strconv.Atoi(answer.Header.Get("Retry-After")); err != nil || wait < 1 || wait > 10 {
		t.Errorf("Retry-After is %q", answer.Header.Get("Retry-After"))
	}
	apptest.Eventually(t, func() string {
		if state := g.Circuit(t, circuitA).State; state != "half_open" {
			return "the circuit is " + state
		}
		return ""
	})
	probe := g.Post(t, apptest.ChatBody)
	served(t, probe, circuitA)
	rows(t, "probe", g.AttemptsOf(t, probe), apptest.Row{"outcome": "success", "probe": "probe"})
	transitions(t, g, "closed forced_open", "forced_open half_open", "half_open closed")
	rows(t, "events", g.CircuitEvents(t, 3),
		apptest.Row{"reason": "operator", "actor": "local", "note": nil}, apptest.Row{"reason": "override_over", "actor": "breaker"}, apptest.Row{"reason": "probe_success"})
	apptest.Eventually(t, func() string {
		var rows int
		if err := g.DB.QueryRow(t.Context(), "SELECT count(*) FROM circuit_overrides").Scan(&rows); err != nil || rows > 0 {
			return "the override is still kept"
		}
		return ""
	})
}

// T21: what a disabled and a shadow circuit admit, and what they tell of it.
func TestDisabledAndShadowCircuitsAdmitEveryCall(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]struct {
		state  string
		failed int
		events []string
	}{
		"disable": {"disabled", 0, []string{"closed disabled"}},
		"shadow":  {"shadow", 3, []string{"closed shadow", "shadow shadow", "shadow shadow"}},
	} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			a := apptest.NewUpstream(t, apptest.Status(500))
			// One opening is told, and the next once it would have been half-open.
			g := apptest.Start(t, apptest.OneTarget(a, "circuit_breaker: {failure_threshold: 3, cooldown: 100ms, cooldown_multiplier: 600, max_cooldown: 1m, cooldown_jitter: 0}"))
			steer(t, g, action, `{"reason":"just looking"}`)
			call := func() {
				t.Helper()
				answer := g.Post(t, apptest.ChatBody)
				refused(t, answer, 502, "upstream_error", "upstream_failed")
				rows(t, "attempts", g.AttemptsOf(t, answer), apptest.Row{"outcome": "failure", "circuit_state": want.state})
			}
			for range 3 {
				call()
			}
			equal(t, "state", g.Circuit(t, circuitA).State, want.state)
			if action == "shadow" {
				apptest.Eventually(t, func() string {
					call()
					if n := g.Metrics(t, "breakwater_circuit_transitions_total")[`breakwater_circuit_transitions_total{from_state="shadow",model="m1",provider="alpha",reason="consecutive",region="r1",to_state="shadow"}`]; n != "2" {
						return n + " openings were told"
					}
					return ""
				})
			}
			transitions(t, g, want.events...)
			equal(t, "calls refused", g.Circuit(t, circuitA).Rejected, 0)
		})
	}
}

// A person's word holds at once, and is written when the database is back.
func TestSteeringWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	url := postgrestest.URL(t)
	link := apptest.NewLink(t, url)
	text := apptest.OneTarget(a, "health: {refresh: 100ms}")
	g := apptest.StartWith(t, text, link.URL)
	direct := apptest.StartWith(t, text, url)

	link.Cut()
	circuit, saved := steer(t, g, "open", `{"reason":"it burns"}`)
	equal(t, "state and saved", circuit.State, "forced_open")
	equal(t, "saved", saved, false)
	refused(t, g.Post(t, apptest.ChatBody), 503, "service_unavailable_error", "circuit_open")
	served(t, direct.Post(t, apptest.ChatBody), circuitA)
	if answer := g.Steer(t, circuitA, "close", "", "Authorization", "Bearer "+direct.Token(t, "ada", operators.RoleOperator)); answer.Status != 503 || answer.Header.Get("Retry-After") == "" {
		t.Errorf("a token that cannot be checked got %d %s", answer.Status, answer.Body)
	}

	link.Mend()
	apptest.Eventually(t, func() string {
		if state := direct.Circuit(t, circuitA); state.State != "forced_open" || state.Note != "it burns" {
			return "the other gateway has " + state.State
		}
		return ""
	})
	refused(t, direct.Post(t, apptest.ChatBody), 503, "service_unavailable_error", "circuit_open")
	steer(t, direct, "close", "")
	apptest.Eventually(t, func() string {
		if state := g.Circuit(t, circuitA).State; state != "closed" {
			return "the first gateway has " + state
		}
		return ""
	})
}

func TestRolesAndRevocationsCount(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a))
	viewer, operator := "Bearer "+g.Token(t, "vic", operators.RoleViewer), "Bearer "+g.Token(t, "ada", operators.RoleOperator)
	do := func(method, path, token string) apptest.Answer {
		t.Helper()
		answer, err := apptest.Do(t.Context(), method, g.AdminURL+"/api/v1/"+path, "", "Authorization", token)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	equal(t, "a viewer reads", do("GET", "circuits", viewer).Status, 200)
	refused(t, do("POST", "circuits/alpha%2Fm1%2Fr1/open", viewer), 403, "permission_error", "operator_required")
	equal(t, "state after that", g.Circuit(t, circuitA).State, "closed")
	wrong := do("POST", "circuits/alpha%2Fm1%2Fr1/open", "Bearer bwo_nobody")
	refused(t, wrong, 401, "authentication_error", "invalid_token")
	equal(t, "an operator opens", do("POST", "circuits/alpha%2Fm1%2Fr1/open", operator).Status, 200)

	if _, _, err := operators.NewTokens(operators.NewRepository(g.DB)).Revoke(t.Context(), strings.TrimPrefix(operator, "Bearer ")); err != nil {
		t.Fatal(err)
	}
	apptest.Eventually(t, func() string {
		if status := do("GET", "circuits", operator).Status; status != 401 {
			return "the revoked token still reads"
		}
		return ""
	})
	if logs := g.Logs.String(); strings.Contains(logs, strings.Split(operator, "_")[2]) || strings.Contains(logs, "bwo_nobody") {
		t.Error("the log holds a token")
	}
}

// The page gives the same orders.
func TestTheDecisionOfAPageIsKept(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	url := postgrestest.URL(t)
	g := apptest.StartWith(t, apptest.OneTarget(a), url)
	answer, err := apptest.Do(t.Context(), http.MethodPost, g.AdminURL+"/circuits/alpha%2Fm1%2Fr1/shadow", "reason=just+looking&for=0", "Content-Type", "application/x-www-form-urlencoded")
	if err != nil || answer.Status >= 400 {
		t.Fatalf("the page got %d %s, %v", answer.Status, answer.Body, err)
	}
	equal(t, "stop", g.Stop(), error(nil))
	g = apptest.StartWith(t, apptest.OneTarget(a), url)
	awaitDecision(t, g, "shadow")
	circuit := g.Circuit(t, circuitA)
	equal(t, "after a restart", circuit.State+", "+circuit.Actor+", "+circuit.Note, "shadow, local, just looking")
}

// A circuit that a person has steered is shown and can be let go when its target
// is not declared any more.
func TestASteeredCircuitOfARemovedTargetCanBeLetGo(t *testing.T) {
	t.Parallel()
	a, b := apptest.NewUpstream(t, apptest.OK()), apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.TwoTargets(a, b))
	steer(t, g, "open", "")
	g.MustReload(t, apptest.Configuration("", beta(b)))
	equal(t, "state", g.Circuit(t, circuitA).State, "forced_open")
	steer(t, g, "close", "")
	refused(t, g.Steer(t, circuitA, "open", ""), 404, "invalid_request_error", "not_found")
}
