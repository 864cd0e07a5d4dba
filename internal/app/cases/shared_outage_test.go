package cases

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// loading makes calls of several clients to all gateways until it is told to
// stop, and then returns how long each took. None may fail.
func loading(t *testing.T, nodes ...*apptest.Gateway) (stop func() []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var took []time.Duration
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				answer, err := nodes[i%len(nodes)].TryPost(context.Background(), apptest.ChatBody)
				if err != nil || answer.Status != http.StatusOK || answer.Body != apptest.OKBody {
					t.Errorf("a call got %d %q %v", answer.Status, answer.Body, err)
					return
				}
				mu.Lock()
				took = append(took, answer.Took)
				mu.Unlock()
			}
		})
	}
	stop = func() []time.Duration {
		cancel()
		clients.Wait()
		return took
	}
	t.Cleanup(func() { stop() })
	return stop
}

// crossing makes at least so many calls while something happens, and says how
// long they took.
func crossing(t *testing.T, what string, calls int, happen func(), nodes ...*apptest.Gateway) {
	t.Helper()
	stop := loading(t, nodes...)
	happen()
	took := stop()
	for len(took) < calls {
		for i := range 20 {
			answer := nodes[i%len(nodes)].Post(t, apptest.ChatBody)
			served(t, answer, circuitA)
			took = append(took, answer.Took)
		}
	}
	slices.Sort(took)
	at := func(share float64) time.Duration {
		return took[int(share*float64(len(took)-1))].Round(time.Microsecond)
	}
	t.Logf("%s: %d calls, median %v, 99%% within %v, longest %v", what, len(took), at(0.5), at(0.99), at(1))
	// Four clients at once, and whatever else the machine does: what the cache
	// adds is measured elsewhere, here nobody hangs.
	if at(0.5) > 5*time.Second || at(1) > 25*time.Second {
		t.Errorf("%s: half of the calls took over %v, the longest %v", what, at(0.5), at(1))
	}
}

func TestCallsAreServedWhateverHappensToTheCache(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]struct {
		leave, comeBack func(*redistest.Server)
		section         func(*redistest.Server) string
	}{
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart, onCache},
		"frozen": {(*redistest.Server).Freeze, (*redistest.Server).Thaw, impatient},
	} {
		for _, store := range []string{"cached", "strict"} {
			t.Run(name+" "+store, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				a := apptest.NewUpstream(t, apptest.OK())
				nodes := fleet(t, 2, apptest.OneTarget(a, sharing(store), away.section(server)))
				awaitAll := func(degraded bool) {
					for _, g := range nodes {
						awaitShared(t, g, degraded)
					}
				}
				crossing(t, "there", 20, func() { awaitAll(false) }, nodes...)
				crossing(t, "on its way out", 20, func() { away.leave(server); awaitAll(true) }, nodes...)
				crossing(t, "away", 500, func() {}, nodes...)
				crossing(t, "on its way back", 20, func() { away.comeBack(server); awaitAll(false) }, nodes...)
				for _, g := range nodes {
					saidInTurns(t, g, name == "killed")
					untroubled(t, g, circuitA)
				}
				nodes[0].CircuitEvents(t, 0)
			})
		}
	}
}

// saidInTurns checks that the log tells of the end of the cache and of its
// return, and not of every call: once each, unless it was given up also for a
// busy machine.
func saidInTurns(t *testing.T, g *apptest.Gateway, once bool) {
	t.Helper()
	var lines []string
	apptest.Eventually(t, func() string { // the log may say it a little later than the metrics
		if lines = cacheLines(g); len(lines) == 0 || len(lines)%2 == 1 {
			return fmt.Sprintf("lines about the cache: %v", lines)
		}
		return ""
	})
	for i, line := range lines {
		if want := []string{"cache is away", "cache is back"}[i%2]; line != want {
			t.Errorf("lines about the cache: %v", lines)
			return
		}
	}
	if len(lines) < 2 || once && len(lines) > 2 || len(lines) > 20 {
		t.Errorf("%d lines about the cache: %v", len(lines), lines)
	}
}

// Each gateway guards itself then, tells what it finds once, and is of one mind
// with the others again when the cache is back.
func TestCircuitsOpenWithoutTheCacheAndAgreeWhenItIsBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := apptest.NewUpstream(t, apptest.OK())
	b := apptest.NewUpstream(t, apptest.OK())
	nodes := fleet(t, 2, apptest.TwoTargets(a, b, lasting, onCache(server)))
	one, two := nodes[0], nodes[1]
	server.Kill()
	for _, g := range nodes {
		awaitShared(t, g, true)
	}

	a.SetScript(apptest.Status(500))
	served(t, one.Post(t, apptest.ChatBody), circuitB)
	equal(t, "state where it failed", one.Circuit(t, circuitA).State, "open")
	equal(t, "state elsewhere", two.Circuit(t, circuitA).State, "closed")
	one.AwaitMetric(t, gaugeOfA, "1")
	two.AwaitMetric(t, gaugeOfA, "0")
	opened := apptest.Row{"from_state": "closed", "to_state": "open", "reason": "consecutive"}
	rows(t, "events", one.CircuitEvents(t, 1), opened)

	server.Restart()
	for _, g := range nodes {
		awaitShared(t, g, false)
	}
	// The failure is told to all, so that what one had found alone holds for all.
	for _, g := range nodes {
		awaitState(t, g, circuitA, "open")
	}
	served(t, two.Post(t, apptest.ChatBody), circuitB)
	equal(t, "calls of A", a.Calls(), 1)
	rows(t, "events", one.CircuitEvents(t, 1), opened)
}

func TestCallsAreServedWithNothingThere(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	link := apptest.NewLink(t, postgrestest.URL(t))
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.StartWith(t, apptest.OneTarget(a, onCache(server), "health: {refresh: 100ms}"), link.URL)
	plain := apptest.Start(t, apptest.OneTarget(apptest.NewUpstream(t, apptest.OK())))
	served(t, g.Post(t, apptest.ChatBody), circuitA)
	g.Runs(t, 1)

	server.Kill()
	link.Cut()
	g.AwaitMetric(t, "breakwater_shared_state_degraded", "1")
	g.AwaitMetric(t, "breakwater_database_degraded", "1")
	equal(t, "readiness", apptest.Get(t, g.URL+"/readyz").Body, `{"status":"ready","degraded":["database","cache"]}`+"\n")
	servedSoon(t, g, plain, 50)
	a.SetScript(apptest.Status(500))
	for range 5 {
		g.Post(t, apptest.ChatBody)
	}
	server.Restart()
	link.Mend()
	g.AwaitMetric(t, "breakwater_shared_state_degraded", "0")
	g.Runs(t, 56)
}

func TestAGatewayStartsWithNothingThere(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	link := apptest.NewLink(t, postgrestest.EmptyURL(t))
	link.Cut()
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.StartWith(t, apptest.OneTarget(a, onCache(server)), link.URL)
	plain := apptest.Start(t, apptest.OneTarget(a))
	servedSoon(t, g, plain, 20)
	server.Restart()
	served(t, g.Post(t, apptest.ChatBody), circuitA)
	record(t, server)
	link.Mend()
	g.AwaitMetric(t, "breakwater_database_degraded", "0")
	g.Runs(t, 21)
}

// A cache that is full, or does not let its user write, goes on answering who
// only asks. It is as good as away: circuits open and stay so, and it is said
// once what is the matter.
func TestACacheThatRefusesIsAway(t *testing.T) {
	t.Parallel()
	for name, orders := range map[string]struct{ refuse, obey []string }{
		"full":          {[]string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"}},
		"no scripts":    {[]string{"ACL", "SETUSER", "default", "-eval", "-evalsha"}, []string{"ACL", "SETUSER", "default", "+@all"}},
		"no writes":     {[]string{"ACL", "SETUSER", "default", "-set", "-hset"}, []string{"ACL", "SETUSER", "default", "+@all"}},
		"no keys":       {[]string{"ACL", "SETUSER", "default", "resetkeys", "~other:*"}, []string{"ACL", "SETUSER", "default", "~*"}},
		"no publishing": {[]string{"ACL", "SETUSER", "default", "resetchannels"}, []string{"ACL", "SETUSER", "default", "&*"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			tell := func(order []string) {
				t.Helper()
				if _, err := server.Do(order...); err != nil {
					t.Fatal(err)
				}
			}
			a, b := apptest.NewUpstream(t, apptest.Status(500)), apptest.NewUpstream(t, apptest.OK())
			g := apptest.Start(t, apptest.TwoTargets(a, b, "circuit_breaker: {failure_threshold: 5, cooldown: 10m, max_cooldown: 10m}", onCache(server)))
			awaitShared(t, g, false)

			tell(orders.refuse)
			pace := time.NewTicker(10 * time.Millisecond)
			defer pace.Stop()
			for range 300 { // longer than a store is left alone
				served(t, g.Post(t, apptest.ChatBody), circuitB)
				<-pace.C
			}
			// An order may cost the connection, and with it what is on its way.
			if calls := a.Calls(); calls > 10 {
				t.Errorf("A was called %d times, want 5, or 10", calls)
			}
			equal(t, "state", g.Circuit(t, circuitA).State, "open")
			awaitShared(t, g, true)
			awaitRefusalLines(t, g, refuses)

			tell(orders.obey)
			awaitShared(t, g, false)
			awaitRefusalLines(t, g, refuses, "cache keeps circuits again")
			// What it was not told is found anew, once at most.
			calls := a.Calls()
			for range 20 {
				served(t, g.Post(t, apptest.ChatBody), circuitB)
			}
			awaitState(t, g, circuitA, "open")
			if more := a.Calls() - calls; more > 5 {
				t.Errorf("A was called %d times more, want at most 5", more)
			}
		})
	}
}

// refuses is what the log says of a cache that is there and keeps nothing.
const refuses = "cache refuses to keep circuits, each gateway decides by itself"

// awaitRefusalLines waits until the log says this of a cache and of circuits, and
// nothing else: it may say it a little later than the metrics.
func awaitRefusalLines(t *testing.T, g *apptest.Gateway, want ...string) {
	t.Helper()
	apptest.Eventually(t, func() string { return cmp.Diff(want, refusalLines(g)) })
}

// refusalLines are those of the log that speak of a cache and of circuits: an
// order may also cost connections, which the cache tells of itself.
func refusalLines(g *apptest.Gateway) []string {
	return slices.DeleteFunc(cacheLines(g), func(line string) bool { return !strings.Contains(line, "circuits") })
}
