package telemetry

import (
	"math"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Every limit of a configuration is there from the start; what is not known looks
// neither used up nor free.
func TestWhatIsLeftOfLimits(t *testing.T) {
	t.Parallel()
	m, reg := newMetrics(t)
	const cost, concurrent = `budget_left{configuration="chat",limit="cost_per_day"}`, `budget_left{configuration="chat",limit="concurrent"}`
	for _, name := range []string{cost, concurrent} {
		if got, there := series(t, reg)[name]; !there || !math.IsNaN(got) {
			t.Errorf("%s is %v, want NaN while nobody was asked", name, got)
		}
	}
	m.ReadFrom(Sources{Left: func() map[Limit]float64 {
		return map[Limit]float64{{"chat", llm.LimitCostPerDay}: 0.25, {"gone", llm.LimitCostPerDay}: 1}
	}})
	all := series(t, reg)
	if all[cost] != 0.25 || !math.IsNaN(all[concurrent]) {
		t.Errorf("left: %v USD and %v calls, want 0.25 and NaN", all[cost], all[concurrent])
	}
	if _, there := all[`budget_left{configuration="gone",limit="cost_per_day"}`]; there {
		t.Error("a limit that is not known has a series")
	}
}

func TestDenialsAreCountedByScope(t *testing.T) {
	t.Parallel()
	m, reg := newMetrics(t)
	m.Denied(llm.ScopeKey)
	m.Denied("of nobody's")
	all := series(t, reg)
	if key, configuration := all[`budget_denied_total{scope="key"}`], all[`budget_denied_total{scope="configuration"}`]; key != 1 || configuration != 0 {
		t.Errorf("denied: %v by keys, %v by configurations, want 1 and 0", key, configuration)
	}
}
