package cases

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// sharedState is what gateways have in common through a cache, and what is left
// without it.
var sharedState = theme{
	"SCO_04":     oneProbeOpensTheWayForAll,
	"SCO_05":     oneProbeOverAllGateways,
	"RED_01":     cacheIsAnAidAndNoDependency,
	"RED_03":     everySharedKeyExpires,
	"RED_03_all": everythingSharedExpires,
	"RED_06":     stepsOfACircuitStayInOneSlot,
}

// spreads is how soon every gateway has to know what one of them has found: in a
// second, on a machine that does nothing else.
const spreads = 30 * time.Second

// onCache is the section of a cache that the gateways share, patient enough for
// a machine that is busy with many tests: a server that is killed says so at once,
// and news whose answer is late would not be told twice.
func onCache(server *redistest.Server) string {
	return fmt.Sprintf("cache: {url: %q, timeout: 10s}", server.URL())
}

// fleet starts so many gateways with one configuration, on one database, and waits
// until each has reached the cache, if they share one: on a busy machine a gateway
// serves before.
func fleet(t *testing.T, n int, text string) []*apptest.Gateway {
	t.Helper()
	gateways := scattered(t, n, text)
	for _, g := range gateways {
		g.AwaitMetric(t, "breakwater_shared_state_degraded", "0")
	}
	return gateways
}

// scattered is fleet for gateways whose cache is away, if they have one.
func scattered(t *testing.T, n int, text string) []*apptest.Gateway {
	t.Helper()
	database := postgrestest.URL(t)
	gateways := make([]*apptest.Gateway, n)
	for i := range gateways {
		gateways[i] = apptest.StartWith(t, text, database)
	}
	return gateways
}

// awaitState waits until a gateway shows a circuit in a state.
func awaitState(t *testing.T, g *apptest.Gateway, circuit, state string) {
	t.Helper()
	apptest.Eventually(t, func() string {
		if got := g.Circuit(t, circuit).State; got != state {
			return circuit + " is " + got + ", want " + state
		}
		return ""
	})
}

// within complains when something took longer than it may.
func within(t *testing.T, what string, limit time.Duration, happen func()) {
	t.Helper()
	begun := time.Now()
	happen()
	if took := time.Since(begun); took > limit {
		t.Errorf("%s took %v, want at most %v", what, took, limit)
	}
}

// gaugeOfA is the state of A's circuit as the metrics tell it.
const gaugeOfA = `breakwater_circuit_state{model="m1",provider="alpha",region="r1"}`

// byBoot says which gateway wrote each event, as the number of its first event.
func byBoot(events []apptest.Row) []int {
	var boots []any
	var all []int
	for _, e := range events {
		if !slices.Contains(boots, e["boot_id"]) {
			boots = append(boots, e["boot_id"])
		}
		all = append(all, slices.Index(boots, e["boot_id"]))
	}
	return all
}

func oneProbeOpensTheWayForAll(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.OK(), apptest.OK(), apptest.Status(500), apptest.OK()))
	b := apptest.NewUpstream(t, apptest.OK())
	nodes := fleet(t, 2, apptest.TwoTargets(a, b, "circuit_breaker: {failure_threshold: 1, cooldown: 15s, cooldown_jitter: 0}", onCache(redistest.Start(t))))
	one, two := nodes[0], nodes[1]
	served(t, one.Post(t, apptest.ChatBody), circuitA)
	served(t, two.Post(t, apptest.ChatBody), circuitA)

	served(t, one.Post(t, apptest.ChatBody), circuitB) // A has failed
	within(t, "the news that A is open", spreads, func() { awaitState(t, two, circuitA, "open") })
	answer := two.Post(t, apptest.ChatBody)
	served(t, answer, circuitB)
	equal(t, "attempts behind an open circuit", answer.Header.Get("X-Breakwater-Attempts"), "1")

	for _, g := range nodes { // the cache may have heard late that it opened, as the other did
		g.AwaitEligible(t, circuitA)
	}
	served(t, one.Post(t, apptest.ChatBody), circuitA) // the probe
	within(t, "the news that A is closed", spreads, func() { awaitState(t, two, circuitA, "closed") })
	answer = two.Post(t, apptest.ChatBody)
	served(t, answer, circuitA)

	rows(t, "the other gateway's call", two.AttemptsOf(t, answer), apptest.Row{"outcome": "success", "probe": nil})
	equal(t, "calls of A", a.Calls(), 5)
	for _, g := range nodes {
		g.AwaitMetric(t, gaugeOfA, "0")
		g.AwaitMetric(t, "breakwater_shared_state_degraded", "0")
	}
	events := one.CircuitEvents(t, 3)
	rows(t, "events", events, apptest.Row{"to_state": "open"}, apptest.Row{"to_state": "half_open"}, apptest.Row{"to_state": "closed"})
	equal(t, "gateways by event", byBoot(events), []int{0, 0, 0})
}

func oneProbeOverAllGateways(t *testing.T) {
	const each = 10
	release := make(chan struct{})
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(500), apptest.Held(release, apptest.OK())))
	b := apptest.NewUpstream(t, apptest.OK())
	nodes := fleet(t, 3, apptest.TwoTargets(a, b, eager, onCache(redistest.Start(t))))

	served(t, nodes[0].Post(t, apptest.ChatBody), circuitB) // A has failed
	for _, g := range nodes {
		awaitState(t, g, circuitA, "open")
	}
	for _, g := range nodes {
		g.AwaitEligible(t, circuitA)
	}
	answers := crowdOver(t, nodes, each, release)

	equal(t, "answers by target", targetsOf(answers), map[string]int{circuitA: 1, circuitB: 3*each - 1})
	equal(t, "calls of A", a.Calls(), 2)
	for _, g := range nodes {
		awaitState(t, g, circuitA, "closed")
	}
	rows(t, "events", nodes[0].CircuitEvents(t, 3), apptest.Row{"to_state": "open"}, apptest.Row{"to_state": "half_open"}, apptest.Row{"to_state": "closed"})
}

// awaitShared waits until the metric, readiness and the page say whether the
// cache is away; calls are served either way.
func awaitShared(t *testing.T, g *apptest.Gateway, degraded bool) {
	t.Helper()
	want := fmt.Sprint("1 ", http.StatusOK, " [cache] ", true)
	if !degraded {
		want = fmt.Sprint("0 ", http.StatusOK, " [] ", false)
	}
	apptest.Eventually(t, func() string {
		answer := apptest.Get(t, g.URL+"/readyz")
		var ready struct{ Degraded []string }
		if err := json.Unmarshal([]byte(answer.Body), &ready); err != nil {
			return fmt.Sprintf("readiness is %q: %v", answer.Body, err)
		}
		metric := g.Metrics(t, "breakwater_shared_state_degraded")["breakwater_shared_state_degraded"]
		onPage := strings.Contains(apptest.Get(t, g.AdminURL+"/").Body, "cache away")
		if got := fmt.Sprint(metric, " ", answer.Status, " ", ready.Degraded, " ", onPage); got != want {
			return "metric, readiness and page say " + got + ", want " + want
		}
		return ""
	})
}

func cacheIsAnAidAndNoDependency(t *testing.T) {
	for _, store := range []string{"cached", "strict"} {
		t.Run("from_the_start_"+store, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			server.Kill()
			a := apptest.NewUpstream(t, apptest.OK())
			g := apptest.Start(t, apptest.OneTarget(a, sharing(store), onCache(server)))
			plain := apptest.Start(t, apptest.OneTarget(a))

			awaitShared(t, g, true)
			servedSoon(t, g, plain, 20)
			server.Restart()
			awaitShared(t, g, false)
			servedSoon(t, g, plain, 5)
			awaitCacheLines(t, g, "cache is away", "cache is back")
		})
		t.Run("during_traffic_"+store, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			a := apptest.NewUpstream(t, apptest.OK())
			g := apptest.Start(t, apptest.OneTarget(a, sharing(store), onCache(server)))
			plain := apptest.Start(t, apptest.OneTarget(a))

			servedSoon(t, g, plain, 5)
			awaitShared(t, g, false)
			server.Kill()
			servedSoon(t, g, plain, 20)
			awaitShared(t, g, true)
			servedSoon(t, g, plain, 20)
			server.Restart()
			awaitShared(t, g, false)
			servedSoon(t, g, plain, 5)
			awaitCacheLines(t, g, "cache is away", "cache is back")
		})
	}
}

// awaitCacheLines waits until the log says this of the cache, and nothing else: it
// may say it a little later than the metrics.
func awaitCacheLines(t *testing.T, g *apptest.Gateway, want ...string) {
	t.Helper()
	apptest.Eventually(t, func() string { return cmp.Diff(want, cacheLines(g)) })
}

// sharing is a circuit breaker that shares its circuits so.
func sharing(store string) string { return "circuit_breaker: {store: " + store + "}" }

// impatient is the section of a cache that is given up soon.
func impatient(server *redistest.Server) string {
	return fmt.Sprintf("cache: {url: %q, timeout: 200ms}", server.URL())
}

// servedSoon makes calls one by one that are all answered. The first may meet
// the end of the cache; the others take hardly longer than those that a gateway
// without a cache serves at the same time, whatever else the machine does.
func servedSoon(t *testing.T, g, plain *apptest.Gateway, calls int) {
	t.Helper()
	var took, without []time.Duration
	for range calls {
		answer, other := g.Post(t, apptest.ChatBody), plain.Post(t, apptest.ChatBody)
		served(t, answer, circuitA)
		took, without = append(took, answer.Took), append(without, other.Took)
	}
	took, without = took[1:], without[1:]
	slices.Sort(took)
	slices.Sort(without)
	usual := without[len(without)/2]
	const atMost = 5 * time.Second // on a busy machine; one that waited for a cache would take its time-out of 10 s
	if added := took[len(took)/2] - usual; added > atMost {
		t.Errorf("the cache added %v to a call, want at most %v: %v, without it %v", added, atMost, took, without)
	}
}

// cacheLines are the messages of the log that speak of the cache.
func cacheLines(g *apptest.Gateway) []string {
	var all []string
	for line := range strings.Lines(g.Logs.String()) {
		var said struct{ Msg string }
		if json.Unmarshal([]byte(line), &said) == nil && strings.Contains(said.Msg, "cache") {
			all = append(all, said.Msg)
		}
	}
	return all
}

func everySharedKeyExpires(t *testing.T) {
	server := redistest.Start(t)
	release := make(chan struct{})
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.OK(), apptest.OK(), apptest.Status(500), apptest.Held(release, apptest.OK())))
	g := apptest.Start(t, apptest.OneTarget(a, eager, onCache(server)))
	expire := func(when string) {
		t.Helper()
		keys := server.Keys()
		if len(keys) == 0 {
			t.Errorf("%s: nothing is shared", when)
		}
		for _, key := range keys {
			if endless(server, key) {
				t.Errorf("%s: %q has no end", when, key)
			}
		}
	}
	awaitShared(t, g, false)

	g.Post(t, apptest.ChatBody)
	apptest.Eventually(t, func() string {
		if len(server.Keys()) == 0 {
			return "the success is not shared"
		}
		return ""
	})
	expire("closed")
	first := g.Post(t, apptest.ChatBody, key, "k1")
	replayed(t, g.Post(t, apptest.ChatBody, key, "k1"), first)
	expire("a key")
	g.Post(t, apptest.ChatBody)
	awaitState(t, g, circuitA, "open")
	expire("open")
	g.AwaitEligible(t, circuitA)
	probe := make(chan struct{})
	go func() {
		defer close(probe)
		// The cache may have heard late that it opened, and so open it for longer.
		for status := http.StatusServiceUnavailable; status == http.StatusServiceUnavailable; {
			answer, err := g.TryPost(t.Context(), apptest.ChatBody)
			if err != nil {
				return
			}
			status = answer.Status
		}
	}()
	awaitState(t, g, circuitA, "half_open")
	expire("with a lease")
	close(release)
	<-probe
	for _, action := range []string{"open", "disable", "shadow", "reset"} {
		equal(t, action, g.Steer(t, circuitA, action, "").Status, http.StatusOK)
		expire("after " + action)
	}
}

// stepsOfACircuitStayInOneSlot runs two gateways on a cluster, which refuses what
// would cross its slots and keys that a script does not name, and looks at every
// command besides.
func stepsOfACircuitStayInOneSlot(t *testing.T) {
	server := redistest.Start(t, "--cluster-enabled", "yes")
	if _, err := server.Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383"); err != nil {
		t.Fatal(err)
	}
	apptest.Eventually(t, func() string {
		if info, err := server.Do("CLUSTER", "INFO"); err != nil || !strings.Contains(fmt.Sprint(info), "cluster_state:ok") {
			return fmt.Sprint("the cluster is not up: ", info, err)
		}
		return ""
	})
	heard := listenTo(t, server)
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(500), apptest.OK()))
	nodes := fleet(t, 2, apptest.OneTarget(a, eager, onCache(server)))

	nodes[0].Post(t, apptest.ChatBody)
	awaitState(t, nodes[1], circuitA, "open")
	nodes[1].AwaitEligible(t, circuitA)
	served(t, nodes[1].Post(t, apptest.ChatBody), circuitA)
	awaitState(t, nodes[0], circuitA, "closed")
	equal(t, "force open", nodes[0].Steer(t, circuitA, "open", "").Status, http.StatusOK)
	awaitState(t, nodes[1], circuitA, "forced_open")
	for _, g := range nodes {
		awaitShared(t, g, false)
	}

	scripts, touched := 0, 0
	var keys []string // of the script that runs
	for _, c := range heard() {
		switch {
		case c.words[0] == "EVALSHA", c.words[0] == "EVAL":
			keys = declared(t, c.words)
			scripts++
			for _, key := range keys {
				if !strings.Contains(key, "{") || cache.Slot(key) != cache.Slot(keys[0]) {
					t.Errorf("a step names %q", keys)
				}
			}
		case c.inside && c.words[0] != "TIME" && c.words[0] != "PUBLISH":
			touched++
			if !slices.Contains(keys, c.words[1]) {
				t.Errorf("a step that names %q does %q", keys, c.words[:2])
			}
		}
	}
	if scripts < 10 || touched < 10 {
		t.Errorf("%d steps with %d commands were seen: too few to mean anything", scripts, touched)
	}
}
