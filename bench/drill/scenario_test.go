package main

import (
	"strings"
	"testing"
	"time"
)

// frame is a scenario without its phases.
const frame = "rate: 10\nprovider: p\ncircuit: p/m/default\nfallback: chat\nalone: alone\nphases:\n"

func TestTheScenarioIsShort(t *testing.T) {
	t.Parallel()
	s, err := readScenario("../../examples/scenarios/failure-drill.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if s.length() > 2*time.Minute {
		t.Errorf("it takes %s, want 2m at most", s.length())
	}
	for _, p := range s.Phases {
		if p.Opens == 0 && !p.well() || p.Extra == 0 || p.Upstream == 0 {
			t.Errorf("phase %s lacks a bound: %+v", p.Name, p)
		}
	}
}

func TestScenariosThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"no phase":             {frame + " []", "the first phase must be a well one"},
		"sick from the start":  {frame + "  - {name: a, for: 1s, set: {mode: hang}}", "the first phase must be a well one"},
		"no time":              {frame + "  - {name: a}", "phase 1 (a) must last some time"},
		"well yet opens":       {frame + "  - {name: a, for: 1s, opens: 1s}", "nothing may open"},
		"sick yet closes":      {frame + "  - {name: a, for: 1s}\n  - {name: b, for: 1s, set: {mode: cut}, closes: 1s}", "phase 2 (b) is a sick one"},
		"more than all failed": {frame + "  - {name: a, for: 1s, failed: 1.5}", "an impossible bound"},
		"no rate":              {strings.Replace(frame, "10", "0", 1) + "  - {name: a, for: 1s}", "rate 0"},
		"one configuration":    {strings.Replace(frame, "chat", "alone", 1) + "  - {name: a, for: 1s}", "two configurations"},
		"a word unheard of":    {frame + "  - {name: a, for: 1s, fails: 0.1}", "fails"},
	} {
		if _, err := parseScenario([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tt.want)
		}
	}
}

func TestACallCountsForTheSickPhaseThatItMeets(t *testing.T) {
	t.Parallel()
	sick := map[string]any{"mode": "hang"}
	d := &drill{scenario: &scenario{Phases: []phase{{}, {Set: sick}, {}, {Set: sick}, {}}}}
	for _, tt := range []struct{ from, to, want int }{{0, 0, 0}, {0, 1, 1}, {0, 2, 1}, {1, 1, 1}, {1, 4, 1}, {2, 3, 3}, {4, 4, 4}} {
		if got := d.belongs(tt.from, tt.to); got != tt.want {
			t.Errorf("a call from phase %d to %d counts for %d, want %d", tt.from, tt.to, got, tt.want)
		}
	}
}
