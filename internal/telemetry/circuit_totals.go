package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// circuitCounter is a series of every circuit that only grows.
type circuitCounter struct {
	desc   *prometheus.Desc
	labels []string // values of the labels behind those of the target
	total  func(breaker.Snapshot) uint64
}

func circuitCounters() []circuitCounter {
	perTarget := []string{"provider", "model", "region"}
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(prefix+name, help, append(perTarget, more...), nil)
	}
	verdicts := desc("circuit_probe_results_total", "Verdicts of probes.", "result")
	return []circuitCounter{
		{desc("circuit_rejected_calls_total", "Calls that a circuit did not admit."), nil,
			func(c breaker.Snapshot) uint64 { return c.Rejected }},
		{desc("circuit_probes_total", "Calls that a half-open circuit admitted as probes."), nil,
			func(c breaker.Snapshot) uint64 { return c.Probes }},
		{verdicts, []string{"success"}, func(c breaker.Snapshot) uint64 { return c.ProbeSuccesses }},
		{verdicts, []string{"failure"}, func(c breaker.Snapshot) uint64 { return c.ProbeFailures }},
		{desc("circuit_lease_expired_total", "Probes that were given up because nothing was heard of them."), nil,
			func(c breaker.Snapshot) uint64 { return c.LeaseExpired }},
		{desc("circuit_stale_results_total", "Outcomes of calls that were admitted before the circuit's last transition."), nil,
			func(c breaker.Snapshot) uint64 { return c.Stale }},
		{desc("circuit_neutral_results_total", "Outcomes that say nothing about the target and are not counted."), nil,
			func(c breaker.Snapshot) uint64 { return c.Neutral }},
		{desc("circuit_double_done_total", "Calls that reported a second outcome, which is a fault of the gateway."), nil,
			func(c breaker.Snapshot) uint64 { return c.DoubleDone }},
	}
}

// circuitTotals keeps the counters growing over circuits that are let go when
// they are idle and begin at zero when they are needed again. What such a
// circuit had counted is carried on as it was seen last.
type circuitTotals struct {
	counters []circuitCounter

	mu      sync.Mutex
	circuit map[llm.Target]carried
}

// carried is what a target's circuits have counted: those that are gone, and
// the present one.
type carried struct{ gone, present []uint64 }

func newCircuitTotals() *circuitTotals {
	return &circuitTotals{counters: circuitCounters(), circuit: map[llm.Target]carried{}}
}

// look reads the circuits and returns them with their totals in the order of
// counters. One look after the other, so that none takes an older one's figures
// for those of a new circuit.
func (k *circuitTotals) look(sources Sources) (circuits map[llm.Target]breaker.Snapshot, totals map[llm.Target][]uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	circuits = circuitsByTarget(sources)
	for t := range circuits {
		if _, known := k.circuit[t]; !known {
			k.circuit[t] = carried{make([]uint64, len(k.counters)), make([]uint64, len(k.counters))}
		}
	}
	totals = make(map[llm.Target][]uint64, len(k.circuit))
	for t, c := range k.circuit {
		totals[t] = k.update(c, circuits[t])
	}
	return circuits, totals
}

// update takes over what a circuit has counted; the zero snapshot is that of one
// which is gone. Less than before means that another one has begun.
func (k *circuitTotals) update(c carried, now breaker.Snapshot) []uint64 {
	anew := false
	for i, counter := range k.counters {
		anew = anew || counter.total(now) < c.present[i]
	}
	totals := make([]uint64, len(k.counters))
	for i, counter := range k.counters {
		if anew {
			c.gone[i] += c.present[i]
		}
		c.present[i] = counter.total(now)
		totals[i] = c.gone[i] + c.present[i]
	}
	return totals
}

// collect sends the totals of a target; without any, all are zero.
func (k *circuitTotals) collect(metrics chan<- prometheus.Metric, t llm.Target, totals []uint64) {
	for i, counter := range k.counters {
		total := uint64(0)
		if totals != nil {
			total = totals[i]
		}
		labels := append([]string{t.Provider, t.Model, t.Region}, counter.labels...)
		metrics <- prometheus.MustNewConstMetric(counter.desc, prometheus.CounterValue, float64(total), labels...)
	}
}
