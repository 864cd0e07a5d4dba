package cases

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// sharedCircuits are circuits as a second gateway finds them.
var sharedCircuits = theme{
	"CF_S5":  openCircuitIsFoundAsItWas,
	"CF_S6":  unreadableCircuitReadsClosed,
	"CF_S7":  unknownCircuitReadsClosed,
	"CF_S8":  streakGoesOnElsewhere,
	"CF_S9":  namesWithReservedCharactersDoNotCollide,
	"CF_S10": laterStateReplacesTheEarlier,
}

// lasting opens at the first failure for longer than any test takes.
const lasting = "circuit_breaker: {failure_threshold: 1, window: {size: 10m}, cooldown: 10m, max_cooldown: 10m, cooldown_jitter: 0}"

func openCircuitIsFoundAsItWas(t *testing.T) {
	server, database := redistest.Start(t), postgrestest.URL(t)
	a := apptest.NewUpstream(t, apptest.Status(500))
	text := apptest.OneTarget(a, lasting, onCache(server))
	first := apptest.StartWith(t, text, database)
	first.Post(t, apptest.ChatBody)
	was := first.Circuit(t, circuitA)
	equal(t, "state", was.State, "open")
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}

	second := apptest.StartWith(t, text, database)
	awaitState(t, second, circuitA, "open") // before anybody calls
	is := second.Circuit(t, circuitA)

	if is.RetryAfterMS > was.RetryAfterMS || is.RetryAfterMS < was.RetryAfterMS-60_000 {
		t.Errorf("it is open for another %d ms, and was for %d ms before the restart", is.RetryAfterMS, was.RetryAfterMS)
	}
	was.RetryAfterMS, is.RetryAfterMS, was.Rejected, is.Rejected = 0, 0, 0, 0
	equal(t, "the circuit after a restart", is, was)
	calls := a.Calls()
	refused(t, second.Post(t, apptest.ChatBody), 503, "service_unavailable_error", "circuit_open")
	equal(t, "calls of A", a.Calls(), calls)
}

// record is the key under which the only circuit is shared.
func record(t *testing.T, server *redistest.Server) string {
	t.Helper()
	found := ""
	apptest.Eventually(t, func() string {
		for _, key := range server.Keys() {
			if strings.Contains(key, ":key:") {
				found = key
				return ""
			}
		}
		return "no circuit is shared"
	})
	return found
}

func unreadableCircuitReadsClosed(t *testing.T) {
	for name, spoil := range map[string]func(key, was string) []string{
		"empty":        func(key, _ string) []string { return []string{"SET", key, "", "PX", "600000"} },
		"text":         func(key, _ string) []string { return []string{"SET", key, "open", "PX", "600000"} },
		"half":         func(key, was string) []string { return []string{"SET", key, was[:len(was)/2], "PX", "600000"} },
		"other_format": func(key, was string) []string { return []string{"SET", key, "\x63" + was[1:], "PX", "600000"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			a := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(500), apptest.OK()))
			text := apptest.OneTarget(a, lasting, onCache(server))
			one := apptest.Start(t, text)
			one.Post(t, apptest.ChatBody)
			awaitState(t, one, circuitA, "open")
			key := record(t, server)
			was, err := server.Do("GET", key)
			if err != nil {
				t.Fatal(err)
			}
			if err := one.Stop(); err != nil {
				t.Fatal(err)
			}

			if _, err := server.Do(spoil(key, was.(string))...); err != nil {
				t.Fatal(err)
			}
			two := apptest.Start(t, text)
			for range 3 {
				served(t, two.Post(t, apptest.ChatBody), circuitA)
			}
			awaitShared(t, two, false)
			untroubled(t, two, circuitA)
			a.SetScript(apptest.Status(500))
			two.Post(t, apptest.ChatBody)
			awaitState(t, two, circuitA, "open")
			three := apptest.Start(t, text)
			awaitState(t, three, circuitA, "open") // over what was there
		})
	}
}

func unknownCircuitReadsClosed(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OK())
	nodes := fleet(t, 2, apptest.OneTarget(a, lasting, onCache(redistest.Start(t))))

	untroubled(t, nodes[0], circuitA)
	served(t, nodes[1].Post(t, apptest.ChatBody), circuitA)
	for _, g := range nodes {
		untroubled(t, g, circuitA)
	}
}

func streakGoesOnElsewhere(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Status(500))
	nodes := fleet(t, 2, apptest.OneTarget(a,
		"circuit_breaker: {failure_threshold: 5, failure_rate_threshold: 0, cooldown: 10m, max_cooldown: 10m}", onCache(redistest.Start(t))))
	one, two := nodes[0], nodes[1]

	for range 3 {
		one.Post(t, apptest.ChatBody)
	}
	two.Post(t, apptest.ChatBody)
	within(t, "the news of four failures", spreads, func() { awaitFailures(t, two, 4) })
	for _, g := range nodes {
		equal(t, "state after four failures", g.Circuit(t, circuitA).State, "closed")
	}
	two.Post(t, apptest.ChatBody)
	for _, g := range nodes {
		within(t, "the news of the fifth", spreads, func() { awaitState(t, g, circuitA, "open") })
		equal(t, "failures in a row", g.Circuit(t, circuitA).ConsecutiveFailures, 5)
	}
	rows(t, "events", one.CircuitEvents(t, 1), apptest.Row{"from_state": "closed", "to_state": "open", "reason": "consecutive"})
}

// awaitFailures waits until a gateway knows of so many failures in a row.
func awaitFailures(t *testing.T, g *apptest.Gateway, n int) {
	t.Helper()
	apptest.Eventually(t, func() string {
		if got := g.Circuit(t, circuitA).ConsecutiveFailures; got != n {
			return fmt.Sprintf("%d failures in a row, want %d", got, n)
		}
		return ""
	})
}

func namesWithReservedCharactersDoNotCollide(t *testing.T) {
	models := []string{"m", "m:1", "m{1}", "{m}1", "m}{1", "a/m", "m*", "m?[1]", "m\u00e9", "key:m"}
	var listed, targets strings.Builder
	for i, m := range models {
		fmt.Fprintf(&listed, "%q: {}, ", m)
		fmt.Fprintf(&targets, "  c%d: {targets: [{provider: alpha, model: %q}]}\n", i, m)
	}
	a := apptest.NewUpstream(t, apptest.When(`"m{1}"`, apptest.Status(500), apptest.OK()))
	nodes := fleet(t, 2, apptest.Configuration(strings.Join([]string{lasting, onCache(redistest.Start(t)), "configurations:\n" + targets.String()}, "\n"),
		alpha(a, "models: {"+strings.TrimSuffix(listed.String(), ", ")+"}")))

	for _, g := range nodes {
		for i := range models {
			g.Post(t, fmt.Sprintf(`{"model":"c%d","messages":[]}`, i))
		}
		awaitState(t, nodes[1], "alpha/m{1}/r1", "open") // before it asks
	}
	for _, g := range nodes {
		for _, m := range models {
			want := "closed"
			if m == "m{1}" {
				want = "open"
			}
			awaitState(t, g, "alpha/"+m+"/r1", want)
		}
	}
	equal(t, "calls of A", a.Calls(), 2*len(models)-1)
}

func laterStateReplacesTheEarlier(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OK())
	nodes := fleet(t, 2, apptest.OneTarget(a, eager, onCache(redistest.Start(t))))
	one, two := nodes[0], nodes[1]
	served(t, one.Post(t, apptest.ChatBody), circuitA)
	served(t, two.Post(t, apptest.ChatBody), circuitA)

	for range 2 { // what one has found the other replaces
		a.SetScript(apptest.Status(500))
		one.Post(t, apptest.ChatBody)
		within(t, "the news that A is open", spreads, func() { awaitState(t, two, circuitA, "open") })
		a.SetScript(apptest.OK())
		two.AwaitEligible(t, circuitA)
		served(t, two.Post(t, apptest.ChatBody), circuitA)
		within(t, "the news that A is closed", spreads, func() { awaitState(t, one, circuitA, "closed") })
	}
	events := one.CircuitEvents(t, 6)
	equal(t, "gateways by event", byBoot(byTime(events)), []int{0, 1, 1, 0, 1, 1})
}

// byTime puts events of several gateways in the order in which they happened.
func byTime(events []apptest.Row) []apptest.Row {
	slices.SortStableFunc(events, func(x, y apptest.Row) int {
		return x["at"].(time.Time).Compare(y["at"].(time.Time))
	})
	return events
}
