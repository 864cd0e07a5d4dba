package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// handles are the series of one configuration, resolved once so that a call
// finds its own by one look-up each. What is not in here, because a call began
// under an older configuration, is resolved when it is needed.
type handles struct {
	requests map[requestKey]requestSeries
	overhead map[llm.Operation]prometheus.Observer
	targets  map[llm.Target]targetSeries
	spend    map[spendKey]spendSeries
	hops     map[hopKey]prometheus.Counter
	prices   Pricer
}

type requestKey struct {
	operation     llm.Operation
	configuration string
	outcome       llm.RunOutcome
}

type requestSeries struct {
	count    prometheus.Counter
	duration prometheus.Observer
}

// targetSeries are the series of one target.
type targetSeries struct {
	verdicts               map[verdict]prometheus.Counter
	success, failure, slow prometheus.Observer
	firstToken             prometheus.Observer
}

// verdict is how an attempt ended.
type verdict struct {
	outcome llm.Outcome
	class   llm.FailureClass
}

type spendKey struct{ configuration, provider, model string }

type spendSeries struct {
	inputTokens, outputTokens prometheus.Counter
	inputCost, outputCost     prometheus.Counter
	unpriced                  prometheus.Counter
}

type hopKey struct {
	configuration, from, to string
	class                   llm.FailureClass
}

// resolve makes the series of everything known.
func (m *Metrics) resolve(known Known) *handles {
	h := &handles{
		requests: map[requestKey]requestSeries{},
		overhead: map[llm.Operation]prometheus.Observer{},
		targets:  map[llm.Target]targetSeries{},
		spend:    map[spendKey]spendSeries{},
		hops:     map[hopKey]prometheus.Counter{},
		prices:   known.Prices,
	}
	for _, operation := range operations() {
		h.overhead[operation] = m.overhead.WithLabelValues(string(operation))
	}
	for _, target := range known.Targets {
		h.targets[target] = m.targetSeries(target)
		m.resolveTransitions(target)
	}
	for _, helper := range known.Helpers {
		m.resolveTransitions(helper)
	}
	for _, target := range known.Canaries {
		m.resolveOwn(llm.OperationCanary, target)
	}
	for _, provider := range known.HealthChecks {
		m.resolveOwn(llm.OperationHealthCheck, provider)
	}
	for _, configuration := range known.Configurations {
		m.resolveConfiguration(h, configuration)
	}
	if known.Direct {
		m.resolveConfiguration(h, KnownConfiguration{Targets: known.Targets})
	}
	for _, code := range known.RefusalCodes {
		m.refusals.WithLabelValues(code)
	}
	return h
}

// resolveConfiguration makes the series that bear a configuration's name. A
// direct target has none and no fallbacks.
func (m *Metrics) resolveConfiguration(h *handles, c KnownConfiguration) {
	for _, operation := range operations() {
		for _, outcome := range runOutcomes() {
			key := requestKey{operation, c.Name, outcome}
			h.requests[key] = m.requestSeries(key)
		}
	}
	for _, from := range c.Targets {
		key := spendKey{c.Name, from.Provider, from.Model}
		h.spend[key] = m.spendSeries(key)
		if c.Name == "" {
			continue
		}
		for _, to := range c.Targets {
			if from != to {
				m.resolveHops(h, c, from, to)
			}
		}
	}
}

func (m *Metrics) resolveHops(h *handles, c KnownConfiguration, from, to llm.Target) {
	for _, class := range llm.Classes() {
		longContext := class == llm.ClassClientError && c.FallbackOn[llm.FallbackOnContextLength]
		if class.Refusal() || c.FallbackOn[class] || longContext {
			key := hopKey{c.Name, from.Provider, to.Provider, class}
			h.hops[key] = m.hop(key)
		}
	}
}

func (m *Metrics) resolveTransitions(t llm.Target) {
	for _, step := range knownTransitions() {
		m.transitions.WithLabelValues(t.Provider, t.Model, t.Region, step.from.String(), step.to.String(), step.reason)
	}
}

func (m *Metrics) requestSeries(k requestKey) requestSeries {
	labels := []string{string(k.operation), k.configuration, string(k.outcome)}
	return requestSeries{
		count:    m.requests.WithLabelValues(labels...),
		duration: m.requestDuration.WithLabelValues(labels...),
	}
}

func (m *Metrics) targetSeries(t llm.Target) targetSeries {
	timed := func(outcome string) prometheus.Observer {
		return m.attemptDuration.WithLabelValues(t.Provider, t.Model, t.Region, outcome)
	}
	s := targetSeries{
		verdicts:   map[verdict]prometheus.Counter{},
		success:    timed("success"),
		failure:    timed("failure"),
		slow:       timed("slow"),
		firstToken: m.firstToken.WithLabelValues(t.Provider, t.Model, t.Region),
	}
	for _, v := range verdicts() {
		s.verdicts[v] = m.verdict(t, v)
	}
	return s
}

func (m *Metrics) verdict(t llm.Target, v verdict) prometheus.Counter {
	return m.attempts.WithLabelValues(t.Provider, t.Model, t.Region, string(v.outcome), string(v.class))
}

func (m *Metrics) spendSeries(k spendKey) spendSeries {
	return spendSeries{
		inputTokens:  m.tokens.WithLabelValues(k.configuration, k.provider, k.model, "input"),
		outputTokens: m.tokens.WithLabelValues(k.configuration, k.provider, k.model, "output"),
		inputCost:    m.cost.WithLabelValues(k.configuration, k.provider, k.model, "input"),
		outputCost:   m.cost.WithLabelValues(k.configuration, k.provider, k.model, "output"),
		unpriced:     m.unpriced.WithLabelValues(k.configuration, k.provider, k.model),
	}
}

func (m *Metrics) hop(k hopKey) prometheus.Counter {
	return m.fallbacks.WithLabelValues(k.configuration, k.from, k.to, string(k.class))
}

// inputShare returns the part of a cost that the input made. Without a price to
// tell by, it is all of it.
func (h *handles) inputShare(a *llm.Attempt) decimal.Decimal {
	if h.prices == nil {
		return *a.Cost
	}
	input := a.Usage
	input.Output, input.Reasoning = llm.Count{}, llm.Count{}
	share, priced := h.prices.Cost(a.Target, input)
	if !priced || share.GreaterThan(*a.Cost) {
		return *a.Cost
	}
	return share
}

// The closed enums that labels are made of.

func operations() []llm.Operation { return []llm.Operation{llm.OperationChat} }

func runOutcomes() []llm.RunOutcome {
	return []llm.RunOutcome{llm.RunSuccess, llm.RunFailure, llm.RunDenied, llm.RunCancelled}
}

// verdicts are a success, and each class with the outcome that it has.
func verdicts() []verdict {
	all := []verdict{{outcome: llm.OutcomeSuccess}}
	for _, class := range llm.Classes() {
		failure := llm.Failure{Class: class}
		all = append(all, verdict{failure.Outcome(), class})
	}
	return all
}

type transition struct {
	from, to breaker.State
	reason   string
}

func knownTransitions() []transition {
	return append(operatorTransitions(),
		transition{breaker.Closed, breaker.Open, breaker.ReasonConsecutive},
		transition{breaker.Closed, breaker.Open, breaker.ReasonFailureRate},
		transition{breaker.Closed, breaker.Open, breaker.ReasonSlowRate},
		transition{breaker.Closed, breaker.Open, breaker.ReasonRetryAfter},
		transition{breaker.Open, breaker.HalfOpen, breaker.ReasonHalfOpen},
		transition{breaker.Open, breaker.HalfOpen, breaker.ReasonCanary},
		transition{breaker.HalfOpen, breaker.HalfOpen, breaker.ReasonCanarySuccess},
		transition{breaker.HalfOpen, breaker.HalfOpen, breaker.ReasonCanaryUnable},
		transition{breaker.HalfOpen, breaker.Open, breaker.ReasonCanaryFailure},
		transition{breaker.HalfOpen, breaker.Closed, breaker.ReasonCanarySuccess},
		transition{breaker.HalfOpen, breaker.Open, breaker.ReasonRetryAfter},
		transition{breaker.HalfOpen, breaker.Open, breaker.ReasonProbeFailure},
		transition{breaker.HalfOpen, breaker.Open, breaker.ReasonProbeLost},
		transition{breaker.HalfOpen, breaker.Open, breaker.ReasonHalfOpenTimeout},
		transition{breaker.HalfOpen, breaker.Closed, breaker.ReasonProbeSuccess},
	)
}

// operatorTransitions are what operators do, what follows when the time of an
// operator state is up, and the openings that a shadow circuit only tells.
func operatorTransitions() []transition {
	var all []transition
	states := []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen, breaker.ForcedOpen, breaker.Disabled, breaker.Shadow}
	for _, from := range states {
		for _, to := range []breaker.State{breaker.Closed, breaker.ForcedOpen, breaker.Disabled, breaker.Shadow} {
			if from != to || to == breaker.Closed { // a reset of a closed circuit counts anew
				all = append(all, transition{from, to, breaker.ReasonOperator})
			}
		}
	}
	for _, reason := range []string{breaker.ReasonConsecutive, breaker.ReasonFailureRate, breaker.ReasonSlowRate, breaker.ReasonRetryAfter} {
		all = append(all, transition{breaker.Shadow, breaker.Shadow, reason})
	}
	return append(all,
		transition{breaker.ForcedOpen, breaker.HalfOpen, breaker.ReasonOverrideOver},
		transition{breaker.ForcedOpen, breaker.Closed, breaker.ReasonOverrideOver}, // where the breaker is not enabled
		transition{breaker.Disabled, breaker.Closed, breaker.ReasonOverrideOver},
		transition{breaker.Shadow, breaker.Closed, breaker.ReasonOverrideOver},
	)
}
