package telemetry

import (
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// A circuit in front of what is no target is seen like any other; what only
// targets have is not made up for it.
func TestCircuitsOfHelpersAreScraped(t *testing.T) {
	t.Parallel()
	m, reg := newMetrics(t)
	helper := llm.Target{Provider: "context", Model: "chat", Region: "default"}
	m.ReadFrom(Sources{Circuits: func() []breaker.Snapshot {
		return []breaker.Snapshot{{Key: helper.Key(), State: breaker.Open, Rejected: 3}}
	}})
	m.Learn(Known{Targets: []llm.Target{alpha}, Helpers: []llm.Target{helper}})

	const labels = `model="chat",provider="context",region="default"}`
	all := series(t, reg)
	for name, want := range map[string]float64{
		`circuit_state{` + labels: 1, `circuit_rejected_calls_total{` + labels: 3,
		`circuit_transitions_total{from_state="closed",model="chat",provider="context",reason="consecutive",region="default",to_state="open"}`: 0,
	} {
		if got, shown := all[name]; !shown || got != want {
			t.Errorf("%s: got %v, shown: %v; want %v", name, got, shown, want)
		}
	}
	for name := range all {
		if strings.Contains(name, `provider="context"`) && !strings.HasPrefix(name, "circuit_") {
			t.Errorf("%s makes a target of it", name)
		}
	}
}
