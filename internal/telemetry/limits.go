package telemetry

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Limit is one limit of a configuration. Those of API keys are no labels: there
// may be any number of keys.
type Limit struct {
	Configuration string
	Name          llm.LimitName
}

// denials counts what limits refused, by whose limits they were.
type denials map[llm.ScopeKind]prometheus.Counter

func newDenials(f families) denials {
	vec := f.counter("budget_denied_total", "Attempts that a limit refused, by whose limit it was.", "scope")
	d := denials{}
	for _, scope := range []llm.ScopeKind{llm.ScopeKey, llm.ScopeConfiguration} {
		d[scope] = vec.WithLabelValues(string(scope))
	}
	return d
}

// Denied counts an attempt that a limit refused.
func (m *Metrics) Denied(scope llm.ScopeKind) {
	if counter, ok := m.denials[scope]; ok {
		counter.Inc()
	}
}

// newLimits is the family of what is left of the limits of configurations.
func newLimits() *prometheus.Desc {
	return prometheus.NewDesc(prefix+"budget_left", "What is left of a limit of a configuration, in requests, tokens or USD; NaN while nobody can tell.", []string{"configuration", "limit"}, nil)
}

// collectLimits sends every limit that is known. What cannot be told is not a
// number: 0 would look used up.
func (s *scraped) collectLimits(metrics chan<- prometheus.Metric, sources Sources) {
	var left map[Limit]float64
	if sources.Left != nil {
		left = sources.Left()
	}
	for _, limit := range *s.limits.Load() {
		value, known := left[limit]
		if !known {
			value = math.NaN()
		}
		metrics <- prometheus.MustNewConstMetric(s.left, prometheus.GaugeValue, value, limit.Configuration, string(limit.Name))
	}
}
