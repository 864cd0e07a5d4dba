package cases

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// followed is how soon a gateway learns from the database what was decided at
// another, on a busy machine.
const followed = time.Minute

// lastlyForcedOpen checks that no gateway lets a call of A through, in a row of
// calls that outlasts what the gateways do by themselves.
func lastlyForcedOpen(t *testing.T, a *apptest.Upstream, nodes ...*apptest.Gateway) {
	t.Helper()
	calls := a.Calls()
	for until := time.Now().Add(1500 * time.Millisecond); time.Now().Before(until); {
		for _, g := range nodes {
			refused(t, g.Post(t, apptest.ChatBody), 503, "service_unavailable_error", "circuit_open")
		}
	}
	for _, g := range nodes {
		equal(t, "state", g.Circuit(t, circuitA).State, "forced_open")
	}
	equal(t, "calls of A meanwhile", a.Calls()-calls, 0)
}

func TestADecisionHoldsEverywhereAtOnce(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	nodes := fleet(t, 2, apptest.OneTarget(a, onCache(redistest.Start(t))))
	one, two := nodes[0], nodes[1]

	steer(t, one, "open", `{"reason":"new driver","ttl_ms":3600000}`)
	within(t, "the news of the decision", spreads, func() { awaitState(t, two, circuitA, "forced_open") })
	is := two.Circuit(t, circuitA)
	equal(t, "who and why", is.Actor+": "+is.Note, "local: new driver")
	ends, err := time.Parse(time.RFC3339, is.Until)
	if left := time.Until(ends); err != nil || left < 59*time.Minute || left > time.Hour {
		t.Errorf("it lasts until %q: %v", is.Until, err)
	}
	lastlyForcedOpen(t, a, one, two)

	steer(t, two, "reset", "")
	within(t, "the news of the reset", spreads, func() { awaitState(t, one, circuitA, "closed") })
	for _, g := range nodes {
		served(t, g.Post(t, apptest.ChatBody), circuitA)
	}
	events := byTime(one.CircuitEvents(t, 2))
	rows(t, "events", events, apptest.Row{"to_state": "forced_open", "reason": "operator", "note": "new driver"}, apptest.Row{"to_state": "closed", "reason": "operator", "note": nil})
	equal(t, "gateways by event", byBoot(events), []int{0, 1})
}

func TestADecisionOutlivesTheCacheAndRestarts(t *testing.T) {
	t.Parallel()
	server, database := redistest.Start(t), postgrestest.URL(t)
	a := apptest.NewUpstream(t, apptest.OK())
	text := apptest.OneTarget(a, onCache(server))
	one, two := apptest.StartWith(t, text, database), apptest.StartWith(t, text, database)
	steer(t, one, "open", "")
	awaitState(t, two, circuitA, "forced_open")
	one.CircuitEvents(t, 1) // it is written before anybody stops

	server.FlushAll()
	lastlyForcedOpen(t, a, one, two)
	apptest.Eventually(t, func() string {
		if len(server.Keys()) == 0 {
			return "the cache does not know of the decision again"
		}
		return ""
	})

	for _, lose := range []func(){func() {}, server.FlushAll, server.Restart} {
		equal(t, "stop", one.Stop(), error(nil))
		equal(t, "stop", two.Stop(), error(nil))
		lose()
		one, two = apptest.StartWith(t, text, database), apptest.StartWith(t, text, database)
		awaitDecision(t, one, "forced_open")
		awaitDecision(t, two, "forced_open")
		lastlyForcedOpen(t, a, one, two)
	}
	one.CircuitEvents(t, 1)
	equal(t, "calls of A", a.Calls(), 0)
}

func TestADecisionIsFollowedThroughTheDatabaseAlone(t *testing.T) {
	t.Parallel()
	for name, section := range map[string]func(t *testing.T) string{
		"no cache": func(*testing.T) string { return "" },
		"cache away": func(t *testing.T) string {
			server := redistest.Start(t)
			server.Kill()
			return onCache(server)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := apptest.NewUpstream(t, apptest.OK())
			nodes := scattered(t, 2, apptest.OneTarget(a, section(t)))
			_, saved := steer(t, nodes[0], "open", "")
			equal(t, "saved", saved, true)
			within(t, "the news of the decision", followed, func() { awaitState(t, nodes[1], circuitA, "forced_open") })
			lastlyForcedOpen(t, a, nodes...)
			steer(t, nodes[1], "reset", "")
			within(t, "the news of the reset", followed, func() { awaitState(t, nodes[0], circuitA, "closed") })
			nodes[0].CircuitEvents(t, 2)
		})
	}
}

func TestADecisionMadeWithoutTheCacheHoldsWhenItIsBack(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]struct {
		leave, comeBack func(*redistest.Server)
		section         func(*redistest.Server) string
	}{
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart, onCache},
		"frozen": {(*redistest.Server).Freeze, (*redistest.Server).Thaw, impatient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			a := apptest.NewUpstream(t, apptest.OK())
			nodes := fleet(t, 2, apptest.OneTarget(a, away.section(server)))
			one, two := nodes[0], nodes[1]
			gone := func(decide func()) {
				t.Helper()
				away.leave(server)
				for _, g := range nodes {
					awaitShared(t, g, true)
				}
				decide()
				away.comeBack(server)
				for _, g := range nodes {
					awaitShared(t, g, false)
				}
			}

			gone(func() {
				steer(t, one, "open", "")
				awaitState(t, two, circuitA, "forced_open")
			})
			lastlyForcedOpen(t, a, one, two)
			gone(func() { // a frozen cache still has it open when it thaws
				steer(t, two, "reset", "")
				awaitState(t, one, circuitA, "closed")
			})
			for _, g := range nodes {
				awaitState(t, g, circuitA, "closed")
				served(t, g.Post(t, apptest.ChatBody), circuitA)
			}
			gone(func() { steer(t, one, "open", "") })
			for _, g := range nodes {
				awaitState(t, g, circuitA, "forced_open")
			}
			lastlyForcedOpen(t, a, one, two)
		})
	}
}

func TestADecisionMadeWithoutTheDatabaseHoldsEverywhere(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	url := postgrestest.URL(t)
	link := apptest.NewLink(t, url)
	server := redistest.Start(t)
	text := apptest.OneTarget(a, onCache(server))
	cut, whole := apptest.StartWith(t, text, link.URL), apptest.StartWith(t, text, url)
	link.Cut()

	_, saved := steer(t, cut, "open", `{"reason":"it burns"}`)
	equal(t, "saved", saved, false)
	within(t, "the news of the decision", spreads, func() { awaitState(t, whole, circuitA, "forced_open") })
	lastlyForcedOpen(t, a, cut, whole)

	// A later word, said where the database is there, is the last one.
	steer(t, whole, "reset", "")
	within(t, "the news of the reset", spreads, func() { awaitState(t, cut, circuitA, "closed") })
	link.Mend()
	awaitOverrides(t, whole, 0)
	for _, g := range []*apptest.Gateway{cut, whole} {
		equal(t, "state", g.Circuit(t, circuitA).State, "closed")
		served(t, g.Post(t, apptest.ChatBody), circuitA)
	}

	link.Cut()
	steer(t, cut, "open", "")
	awaitState(t, whole, circuitA, "forced_open")
	link.Mend()
	awaitOverrides(t, whole, 1)
	server.FlushAll()
	lastlyForcedOpen(t, a, cut, whole)
}

// awaitOverrides waits until so many decisions are kept, and a while longer.
func awaitOverrides(t *testing.T, g *apptest.Gateway, n int) {
	t.Helper()
	kept := func() string {
		var rows int
		if err := g.DB.QueryRow(t.Context(), "SELECT count(*) FROM circuit_overrides").Scan(&rows); err != nil || rows != n {
			return fmt.Sprintf("%d decisions are kept, want %d (%v)", rows, n, err)
		}
		return ""
	}
	apptest.Eventually(t, kept)
}

func TestADecisionWithNothingThereHoldsWhereItWasMade(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	url := postgrestest.URL(t)
	link := apptest.NewLink(t, url)
	server := redistest.Start(t)
	text := apptest.OneTarget(a, onCache(server))
	one, two := apptest.StartWith(t, text, link.URL), apptest.StartWith(t, text, url)
	link.Cut()
	server.Kill()
	awaitShared(t, two, true)

	steer(t, one, "open", "")
	refused(t, one.Post(t, apptest.ChatBody), 503, "service_unavailable_error", "circuit_open")
	served(t, two.Post(t, apptest.ChatBody), circuitA)
	equal(t, "readiness", apptest.Get(t, one.URL+"/readyz").Status, http.StatusOK)

	server.Restart()
	awaitState(t, two, circuitA, "forced_open")
	link.Mend()
	awaitOverrides(t, two, 1)
	lastlyForcedOpen(t, a, one, two)
}
