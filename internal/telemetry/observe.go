package telemetry

import (
	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Record counts a run and its attempts. A Recorder does so itself; where rows
// are not wanted, Metrics take its place.
func (m *Metrics) Record(run llm.Run) { m.observe(&run) }

// Lost counts a run that a panic has kept from being recorded. The first of them
// is logged; they have one cause, most likely.
func (m *Metrics) Lost(runID uuid.UUID, panicked any, stack []byte) {
	m.drop(dropPanic, 1)
	m.lost.Do(func() {
		m.log.Error("a run could not be recorded, it and further ones are counted as dropped", "run_id", runID, "panic", llm.DescribePanic(panicked), "stack", string(stack))
	})
}

// observe runs on the call's own goroutine, so that metrics stay whole when
// rows are dropped.
func (m *Metrics) observe(run *llm.Run) {
	if run.Operation.Own() {
		m.observeOwn(run)
		return
	}
	h := m.handles.Load()
	request := m.requestOf(h, run)
	request.count.Inc()
	request.duration.Observe(run.Latency.Seconds())
	m.kept.observe(run)
	if overhead, ok := h.overhead[run.Operation]; ok {
		overhead.Observe(run.Overhead.Seconds())
	} else {
		m.overhead.WithLabelValues(string(run.Operation)).Observe(run.Overhead.Seconds())
	}
	for i := range run.Attempts {
		a := &run.Attempts[i]
		m.observeAttempt(h, a)
		m.observeSpend(h, run.Configuration, a)
		m.observeAlarm(a)
		if i > 0 {
			m.observeHop(h, run.Configuration, &run.Attempts[i-1], a.Target)
		}
	}
}

func (m *Metrics) requestOf(h *handles, run *llm.Run) requestSeries {
	key := requestKey{run.Operation, run.Configuration, run.Outcome}
	if s, ok := h.requests[key]; ok {
		return s
	}
	return m.requestSeries(key)
}

func (m *Metrics) observeAttempt(h *handles, a *llm.Attempt) {
	s, ok := h.targets[a.Target]
	if !ok {
		s = m.targetSeries(a.Target)
	}
	v := verdict{a.Outcome, a.FailureClass}
	if counter, ok := s.verdicts[v]; ok {
		counter.Inc()
	} else {
		m.verdict(a.Target, v).Inc()
	}
	if a.TTFT != nil {
		s.firstToken.Observe(a.TTFT.Seconds())
	}
	if a.Latency == nil {
		return
	}
	switch {
	case a.Outcome == llm.OutcomeFailure:
		s.failure.Observe(a.Latency.Seconds())
	case a.Outcome == llm.OutcomeSuccess && a.Slow:
		s.slow.Observe(a.Latency.Seconds())
	case a.Outcome == llm.OutcomeSuccess:
		s.success.Observe(a.Latency.Seconds())
	}
}

func (m *Metrics) observeSpend(h *handles, configuration string, a *llm.Attempt) {
	if !a.Usage.Known() && a.Cost == nil {
		return
	}
	key := spendKey{configuration, a.Target.Provider, a.Target.Model}
	s, ok := h.spend[key]
	if !ok {
		s = m.spendSeries(key)
	}
	s.inputTokens.Add(float64(max(0, a.Usage.Input.N)))
	s.outputTokens.Add(float64(max(0, a.Usage.Output.N)))
	if a.Unpriced {
		s.unpriced.Inc()
	}
	if a.Cost == nil || a.Cost.IsNegative() {
		return
	}
	input := h.inputShare(a)
	s.inputCost.Add(input.InexactFloat64())
	s.outputCost.Add(a.Cost.Sub(input).InexactFloat64())
}

// observeHop counts a move from a failed target to the next.
func (m *Metrics) observeHop(h *handles, configuration string, from *llm.Attempt, to llm.Target) {
	key := hopKey{configuration, from.Target.Provider, to.Provider, from.FailureClass}
	if counter, ok := h.hops[key]; ok {
		counter.Inc()
		return
	}
	m.hop(key).Inc()
}

// CircuitEvent counts a transition. They are rare, so their series are looked
// up. Like Record it stands in where rows are not wanted.
func (m *Metrics) CircuitEvent(e breaker.Event) {
	target, ok := llm.ParseTarget(e.Key)
	if !ok {
		return // the row of such an event is refused and counted
	}
	m.transitions.WithLabelValues(target.Provider, target.Model, target.Region, e.From.String(), e.To.String(), e.Reason).Inc()
}
