package telemetry

import "github.com/prometheus/client_golang/prometheus"

// IdempotencyResults lists what may become of calls with an idempotency key.
func IdempotencyResults() []string {
	return []string{"stored", "replayed", "joined", "conflict", "mismatch", "oversized", "fenced", "unavailable"}
}

// idempotency counts them.
type idempotency struct{ results *prometheus.CounterVec }

func newIdempotency(f families) idempotency {
	i := idempotency{f.counter("idempotency_total", "What became of calls with an idempotency key: their answers stored, or not because they are too large or came too late; given again, or shared with calls that came meanwhile; refused; or their store away.", "result")}
	for _, result := range IdempotencyResults() {
		i.results.WithLabelValues(result)
	}
	return i
}

// Idempotency counts a result.
func (m *Metrics) Idempotency(result string) { m.keys.results.WithLabelValues(result).Inc() }
