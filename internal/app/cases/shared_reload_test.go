package cases

import (
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// R45: with whom a circuit is shared may change while the gateway runs; what was
// counted stays.
func TestAReloadChangesWithWhomCircuitsAreShared(t *testing.T) {
	t.Parallel()
	server, database := redistest.Start(t), postgrestest.URL(t)
	a := apptest.NewUpstream(t, apptest.Status(500))
	text := func(store string) string {
		return apptest.OneTarget(a, "circuit_breaker: {failure_threshold: 6, window: {size: 10m}, cooldown: 10m, max_cooldown: 10m, store: "+store+"}", onCache(server))
	}
	g := apptest.StartWith(t, text("local"), database)
	other := apptest.StartWith(t, text("cached"), database)
	counted := func(when string, failures int) {
		t.Helper()
		is := g.Circuit(t, circuitA)
		equal(t, "failures in a row and in the window "+when, []int{is.ConsecutiveFailures, is.Failures, is.Calls}, []int{failures, failures, failures})
	}

	g.Post(t, apptest.ChatBody)
	g.Post(t, apptest.ChatBody)
	counted("alone", 2)
	g.MustReload(t, text("cached"))
	counted("when it is shared", 2)
	g.Post(t, apptest.ChatBody)
	record(t, server)
	counted("and goes on", 3)
	g.MustReload(t, text("strict"))
	counted("when it is asked about", 3)
	g.Post(t, apptest.ChatBody)
	counted("and goes on", 4)
	equal(t, "state elsewhere", other.Circuit(t, circuitA).State, "closed")
	g.MustReload(t, text("local"))
	counted("alone again", 4)
	g.MustReload(t, text("strict"))
	counted("and shared again", 4)
	g.Post(t, apptest.ChatBody)
	g.Post(t, apptest.ChatBody)

	equal(t, "state", g.Circuit(t, circuitA).State, "open")
	within(t, "the news that A is open", spreads, func() { awaitState(t, other, circuitA, "open") })
	rows(t, "events", g.CircuitEvents(t, 1), apptest.Row{"from_state": "closed", "to_state": "open", "reason": "consecutive"})
}

// An open circuit that was kept alone stays open when it is shared, and becomes
// so for all.
func TestAnOpenCircuitStaysOpenWhenItIsShared(t *testing.T) {
	t.Parallel()
	server, database := redistest.Start(t), postgrestest.URL(t)
	a, b := apptest.NewUpstream(t, apptest.Status(500)), apptest.NewUpstream(t, apptest.OK())
	text := func(store string) string {
		return apptest.TwoTargets(a, b, strings.TrimSuffix(lasting, "}")+", store: "+store+"}", onCache(server))
	}
	g := apptest.StartWith(t, text("local"), database)
	served(t, g.Post(t, apptest.ChatBody), circuitB)
	equal(t, "state", g.Circuit(t, circuitA).State, "open")

	for _, store := range []string{"cached", "strict", "local", "strict", "cached"} {
		g.MustReload(t, text(store))
		for range 3 {
			served(t, g.Post(t, apptest.ChatBody), circuitB)
		}
		equal(t, "state with store "+store, g.Circuit(t, circuitA).State, "open")
	}
	equal(t, "calls of A", a.Calls(), 1)
}

func TestAnotherCacheNeedsARestart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a, onCache(server)))
	awaitShared(t, g, false)

	for _, elsewhere := range []string{"", `cache: {url: "redis://127.0.0.1:1"}`} {
		equal(t, "reload", g.Reload(t, apptest.OneTarget(a, elsewhere)), apptest.ReloadUnchanged)
	}
	told := 0
	for line := range strings.Lines(g.Logs.String()) {
		if strings.Contains(line, `"level":"WARN"`) && strings.Contains(line, "need a restart") && strings.Contains(line, `"cache.url"`) {
			told++
		}
	}
	equal(t, "warnings", told, 2)
	served(t, g.Post(t, apptest.ChatBody), circuitA)
	awaitShared(t, g, false)
}
