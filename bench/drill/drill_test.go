package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/breakwater-llm/breakwater/internal/leaktest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { leaktest.Main(postgrestest.Main(m)) }

const (
	rate     = 12               // calls per second: a drill costs little
	most     = 16               // calls at once: on a machine that is too busy for the rate they would pile up
	hurry    = 10               // how much shorter than by hand the phases are
	patience = 90 * time.Second // for a circuit, on a machine that is busy with many tests
	slow     = 4 * time.Second  // what no call of a well provider takes there
)

// TestTheDrill goes through the scenario of the examples with their
// configuration. Times are not judged here, only what must hold however busy
// the machine is.
func TestTheDrill(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cache func(*testing.T) string
		probe string
	}{
		"circuits in the gateway": {func(*testing.T) string { return "" }, "traffic"},
		"circuits on Redis": {func(t *testing.T) string {
			return fmt.Sprintf("cache: {url: %q, timeout: 10s}\n", redistest.Start(t).URL())
		}, "traffic"},
		"canaries": {func(*testing.T) string { return "" }, "canary"},
	} {
		t.Run(name, func(t *testing.T) { // one after the other: together they would be what keeps the machine busy
			g := apptest.Start(t, tt.cache(t)+policyOfTheExample(t, tt.probe))
			s := hurried(t)
			d := newDrill(s, g.URL, g.AdminURL)
			d.places = make(chan struct{}, most)
			r, err := d.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r.late = patience
			check(t, s, r)
			if n := closedUnasked(r.events); n > 0 && tt.probe == "canary" {
				t.Errorf("the circuit closed %d times without a canary", n)
			}
			if t.Failed() || testing.Verbose() {
				t.Log(newScorecard(s, r, true).report(name, "unknown"))
			}
		})
	}
}

// policyOfTheExample is the example without listeners, database and cache, with
// cooldowns for people in a hurry and slow calls for a busy machine.
func policyOfTheExample(t *testing.T, probe string) string {
	t.Helper()
	text, err := os.ReadFile("../../examples/failure-drill.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, policy, found := strings.Cut(string(text), "\ncircuit_breaker:")
	for _, change := range [][2]string{
		{"\n  cooldown: 1s\n", "\n  cooldown: 500ms\n"},
		{"\n  max_cooldown: 2s\n", "\n  max_cooldown: 1s\n"},
		{"\n  slow_call_duration: 800ms\n", "\n  slow_call_duration: " + slow.String() + "\n"},
		{`{mode: "${PROBE:-traffic}", timeout: 1s}`, `{mode: ` + probe + `, timeout: 4s}`},
		{"\n    timeouts: {first_token: 3s, idle: 3s, total: 3s}\n", "\n    timeouts: {first_token: 10s, idle: 10s, total: 10s}\n"},
	} {
		found = found && strings.Contains(policy, change[0])
		policy = strings.Replace(policy, change[0], change[1], 1)
	}
	if !found {
		t.Fatalf("the example does not say what this test changes:\n%s", text)
	}
	return "circuit_breaker:" + policy
}

// hurried is the scenario of the examples in a fraction of its time.
func hurried(t *testing.T) *scenario {
	t.Helper()
	s, err := readScenario("../../examples/scenarios/failure-drill.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.Rate = rate
	for i := range s.Phases {
		p := &s.Phases[i]
		p.For, p.Extra, p.Upstream = p.For/hurry, 0, 0
		switch p.Set["mode"] {
		case "slow":
			p.Set["latency_ms"] = slow.Milliseconds() / 8 // of which it makes ten times as much
		case "cut":
			p.Failed = 1 // how many there are is a matter of time
		}
		if p.well() && i > 0 {
			p.Closes = patience
		} else if !p.well() {
			p.Opens = patience
		}
	}
	return s
}

// check fails the test for each broken bound, and for what bounds do not say.
func check(t *testing.T, s *scenario, r *record) {
	t.Helper()
	spared, helped, helpless := 0, 0, 0
	for i, row := range newScorecard(s, r, true).rows {
		if row.circuit.wrong > 0 && starved(r, i) {
			t.Logf("%s: calls took over %s, so that the circuit opened with reason", row.Name, slow)
			row.circuit.wrong = 0
		}
		for _, broken := range row.judge() {
			t.Error(broken)
		}
		spared += row.alone.refused
		if !row.well() {
			helped, helpless = helped+row.chat.failed, helpless+row.alone.failed
		}
	}
	// Not phase by phase: one that goes on until its circuit opens, and no longer,
	// may have lost as many streams on both sides.
	if helped >= helpless {
		t.Errorf("%d calls to a sick provider failed with a fallback, %d without", helped, helpless)
	}
	if spared == 0 {
		t.Error("no call without a fallback was refused at once")
	}
}

// closedUnasked counts the closings before which no canary went since the circuit
// opened last: in the same phase, or at the end of the one before.
func closedUnasked(events []event) (n int) {
	asked := false
	for _, e := range events {
		switch {
		case e.To == stateOpen:
			asked = false
		case e.To == stateHalfOpen && e.Reason == reasonCanary:
			asked = true
		case e.To == stateClosed && !asked:
			n++
		}
	}
	return n
}

// starved reports whether this machine, not the provider, was slow in a phase.
func starved(r *record, phase int) bool {
	return slices.ContainsFunc(r.calls, func(c call) bool {
		return c.phase == phase && c.took > slow
	})
}
