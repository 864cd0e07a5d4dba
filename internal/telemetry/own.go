package telemetry

import "github.com/breakwater-llm/breakwater/internal/llm"

// What the gateway asks on its own account says nothing about what callers got,
// so it has families of its own. They are rare: their series are looked up.

func (m *Metrics) observeOwn(run *llm.Run) {
	for i := range run.Attempts {
		a := &run.Attempts[i]
		t := a.Target
		m.ownCalls.WithLabelValues(string(run.Operation), t.Provider, t.Model, t.Region, string(a.Outcome)).Inc()
		if a.Cost != nil && !a.Cost.IsNegative() {
			m.ownCost.WithLabelValues(string(run.Operation), t.Provider, t.Model, t.Region).Add(a.Cost.InexactFloat64())
		}
		m.observeAlarm(a)
	}
}

// resolveOwn makes the series of what is asked of a target.
func (m *Metrics) resolveOwn(operation llm.Operation, t llm.Target) {
	for _, outcome := range []llm.Outcome{llm.OutcomeSuccess, llm.OutcomeFailure, llm.OutcomeNeutral, llm.OutcomeRefused} {
		m.ownCalls.WithLabelValues(string(operation), t.Provider, t.Model, t.Region, string(outcome))
	}
	if operation == llm.OperationCanary {
		m.ownCost.WithLabelValues(string(operation), t.Provider, t.Model, t.Region)
	}
}
