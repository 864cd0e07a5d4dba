package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// keptAnswers are the families about answers that no target gave just now.
type keptAnswers struct {
	cached   map[llm.CacheResult]prometheus.Counter
	degraded map[llm.Degradation]prometheus.Counter
}

func newKeptAnswers(f families) keptAnswers {
	cached := f.counter("response_cache_total", "Calls whose answer may be given again, by what the response cache had for them.", "result")
	degraded := f.counter("degraded_answers_total", "Answers that had to do without something: context, or any target.", "degradation")
	k := keptAnswers{cached: map[llm.CacheResult]prometheus.Counter{}, degraded: map[llm.Degradation]prometheus.Counter{}}
	for _, result := range []llm.CacheResult{llm.CacheHit, llm.CacheMiss, llm.CacheStale} {
		k.cached[result] = cached.WithLabelValues(string(result))
	}
	for _, how := range []llm.Degradation{llm.DegradedContext, llm.DegradedStale, llm.DegradedMessage} {
		k.degraded[how] = degraded.WithLabelValues(string(how))
	}
	return k
}

// Cached counts what the response cache had for a call.
func (m *Metrics) Cached(result llm.CacheResult) { m.kept.cached[result].Inc() }

func (k keptAnswers) observe(run *llm.Run) {
	if counter, ok := k.degraded[run.Degraded]; ok && run.Outcome == llm.RunSuccess {
		counter.Inc()
	}
}
