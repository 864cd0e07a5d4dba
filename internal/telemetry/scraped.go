package telemetry

import (
	"math"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Sources are asked at each scrape; what they know is kept nowhere else.
type Sources struct {
	Circuits         func() []breaker.Snapshot
	EventsDropped    func() uint64 // events of circuits that nobody was told
	Health           func(llm.Target) (score float64, known bool)
	DatabaseDegraded func() bool
	Left             func() map[Limit]float64                        // of the limits of configurations; what is not known is left out
	Shared           func() (state breaker.SharedState, shared bool) // how replicas stand with what they share
}

// ReadFrom says where the figures come from that are read at each scrape. Until
// then they are zero, and health is unknown.
func (m *Metrics) ReadFrom(s Sources) { m.scraped.sources.Store(&s) }

// readQueue says where the length of the queue is read from.
func (m *Metrics) readQueue(length func() int) { m.scraped.queue.Store(&length) }

// readSpool says where the size of the spool is read from, and what it may be.
func (m *Metrics) readSpool(bytes func() int64, limit int64) {
	m.scraped.spool.Store(&spoolSize{bytes, limit})
}

// spoolSize is what the spool takes on disk, and may take.
type spoolSize struct {
	bytes func() int64
	limit int64
}

// scraped collects the families that are read at each scrape.
type scraped struct {
	targets atomic.Pointer[[]llm.Target]
	helpers atomic.Pointer[[]llm.Target] // which have circuits, and no health
	limits  atomic.Pointer[[]Limit]
	sources atomic.Pointer[Sources]
	queue   atomic.Pointer[func() int]
	spool   atomic.Pointer[spoolSize]
	alarms  func() []Alarm
	totals  *circuitTotals

	state, rate, slowRate, dropped *prometheus.Desc
	health, queueLength, degraded  *prometheus.Desc
	spoolBytes, spoolLimit         *prometheus.Desc
	shared, steps, unknown         *prometheus.Desc
	alarm, left                    *prometheus.Desc
}

func newScraped() *scraped {
	perTarget := []string{"provider", "model", "region"}
	desc := func(name, help string, labels []string) *prometheus.Desc {
		return prometheus.NewDesc(prefix+name, help, labels, nil)
	}
	return &scraped{
		totals:      newCircuitTotals(),
		left:        newLimits(),
		state:       desc("circuit_state", "0 closed, 1 open, 2 half_open; set by an operator: 3 forced_open, 4 disabled, 5 shadow.", perTarget),
		rate:        desc("circuit_failure_rate", "Share of failures in the window of a circuit, or of those that opened it; NaN below min_calls.", perTarget),
		slowRate:    desc("circuit_slow_call_rate", "Share of slow calls in the window of a circuit, or of those that opened it; NaN below min_calls and where slow calls open nothing.", perTarget),
		dropped:     desc("circuit_events_dropped_total", "Events of circuits that were neither told, recorded nor counted, because too many waited.", nil),
		health:      desc("provider_health_score", "Health of a target from 0 to 1; NaN while there is no data.", perTarget),
		queueLength: desc("telemetry_queue_length", "Rows that wait for the database.", nil),
		spoolBytes:  desc("telemetry_spool_bytes", "What rows take that wait on disk for the database; NaN where there is no spool.", nil),
		spoolLimit:  desc("telemetry_spool_limit_bytes", "What they may take; NaN where there is no spool.", nil),
		degraded:    desc("database_degraded", "1 while the database cannot be reached.", nil),
		shared:      desc("shared_state_degraded", "1 while the cache that replicas share cannot be reached, and each decides by itself.", nil),
		steps:       desc("shared_state_steps_total", "Steps of circuits that the shared cache was asked for; missed ones failed or took too long.", []string{"result"}),
		unknown:     desc("shared_state_unknown_outcomes_total", "Outcomes of calls that the shared cache may not have counted, because its answer was lost.", nil),
		alarm:       desc("alarms", "1 while a provider needs a person: its credentials, credit or set-up.", []string{"provider", "kind"}),
	}
}

// Describe implements prometheus.Collector.
func (s *scraped) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.state, s.rate, s.slowRate, s.dropped, s.health, s.queueLength, s.spoolBytes, s.spoolLimit, s.degraded, s.shared, s.steps, s.unknown, s.alarm, s.left} {
		descs <- d
	}
	for _, counter := range s.totals.counters {
		descs <- counter.desc
	}
}

// Collect implements prometheus.Collector.
func (s *scraped) Collect(metrics chan<- prometheus.Metric) {
	sources := s.sourcesOrEmpty()
	circuits, totals := s.totals.look(sources)
	for _, t := range *s.targets.Load() {
		s.collectCircuit(metrics, t, circuits[t])
		s.totals.collect(metrics, t, totals[t])
		metrics <- gauge(s.health, t, score(sources, t))
	}
	for _, t := range *s.helpers.Load() {
		s.collectCircuit(metrics, t, circuits[t])
		s.totals.collect(metrics, t, totals[t])
	}
	s.collectOwn(metrics, sources)
	s.collectShared(metrics, sources)
	s.collectAlarms(metrics)
	s.collectLimits(metrics, sources)
}

// collectOwn sends what is said of the gateway itself.
func (s *scraped) collectOwn(metrics chan<- prometheus.Metric, sources Sources) {
	dropped, waiting, degraded := uint64(0), 0, 0.0
	if sources.EventsDropped != nil {
		dropped = sources.EventsDropped()
	}
	if queue := s.queue.Load(); queue != nil {
		waiting = (*queue)()
	}
	if sources.DatabaseDegraded != nil && sources.DatabaseDegraded() {
		degraded = 1
	}
	spooled, limit := math.NaN(), math.NaN()
	if spool := s.spool.Load(); spool != nil {
		spooled, limit = float64(spool.bytes()), float64(spool.limit)
	}
	metrics <- prometheus.MustNewConstMetric(s.spoolBytes, prometheus.GaugeValue, spooled)
	metrics <- prometheus.MustNewConstMetric(s.spoolLimit, prometheus.GaugeValue, limit)
	metrics <- prometheus.MustNewConstMetric(s.dropped, prometheus.CounterValue, float64(dropped))
	metrics <- prometheus.MustNewConstMetric(s.queueLength, prometheus.GaugeValue, float64(waiting))
	metrics <- prometheus.MustNewConstMetric(s.degraded, prometheus.GaugeValue, degraded)
}

// collectShared sends how this replica stands with what it shares with others;
// zeros where it shares nothing.
func (s *scraped) collectShared(metrics chan<- prometheus.Metric, sources Sources) {
	var state breaker.SharedState
	if sources.Shared != nil {
		state, _ = sources.Shared()
	}
	degraded := 0.0
	if state.Degraded {
		degraded = 1
	}
	metrics <- prometheus.MustNewConstMetric(s.shared, prometheus.GaugeValue, degraded)
	metrics <- prometheus.MustNewConstMetric(s.steps, prometheus.CounterValue, float64(state.Steps-state.Misses), "done")
	metrics <- prometheus.MustNewConstMetric(s.steps, prometheus.CounterValue, float64(state.Misses), "missed")
	metrics <- prometheus.MustNewConstMetric(s.unknown, prometheus.CounterValue, float64(state.Unknown))
}

// collectAlarms sends every provider with every kind, so that a series that is
// 1 was 0 before.
func (s *scraped) collectAlarms(metrics chan<- prometheus.Metric) {
	raised := map[[2]string]float64{}
	for _, t := range *s.targets.Load() {
		for _, kind := range AlarmKinds() {
			raised[[2]string{t.Provider, string(kind)}] = 0
		}
	}
	for _, alarm := range s.alarms() {
		raised[[2]string{alarm.Provider, string(alarm.Kind)}] = 1
	}
	for labels, value := range raised {
		metrics <- prometheus.MustNewConstMetric(s.alarm, prometheus.GaugeValue, value, labels[0], labels[1])
	}
}

func (s *scraped) collectCircuit(metrics chan<- prometheus.Metric, t llm.Target, c breaker.Snapshot) {
	metrics <- gauge(s.state, t, float64(c.State))
	metrics <- gauge(s.rate, t, orNaN(c.FailureRate))
	metrics <- gauge(s.slowRate, t, orNaN(c.SlowRate))
}

func gauge(d *prometheus.Desc, t llm.Target, value float64) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, t.Provider, t.Model, t.Region)
}

func (s *scraped) sourcesOrEmpty() Sources {
	if sources := s.sources.Load(); sources != nil {
		return *sources
	}
	return Sources{}
}

// circuitsByTarget leaves out what is no target. A target without a circuit is
// one that nobody has called yet: closed, and all zero.
func circuitsByTarget(sources Sources) map[llm.Target]breaker.Snapshot {
	circuits := map[llm.Target]breaker.Snapshot{}
	if sources.Circuits == nil {
		return circuits
	}
	for _, c := range sources.Circuits() {
		if t, ok := llm.ParseTarget(c.Key); ok {
			circuits[t] = c
		}
	}
	return circuits
}

// orNaN is not a number while there are too few calls to speak of a rate.
func orNaN(rate *float64) float64 {
	if rate == nil {
		return math.NaN()
	}
	return *rate
}

// score is not a number while nothing is known: neither zero, which is sick,
// nor the neutral value that orders candidates, may look measured.
func score(sources Sources, t llm.Target) float64 {
	if sources.Health == nil {
		return math.NaN()
	}
	if score, known := sources.Health(t); known {
		return score
	}
	return math.NaN()
}
