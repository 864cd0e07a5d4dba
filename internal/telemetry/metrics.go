package telemetry

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Known is what a configuration declares and labels are therefore made of.
// Every series that follows from it exists, at zero, from the start.
type Known struct {
	Targets        []llm.Target
	Helpers        []llm.Target // circuits in front of what is no target
	Canaries       []llm.Target // those that canaries are sent to
	HealthChecks   []llm.Target // the providers that are checked themselves; helpers, too
	Configurations []KnownConfiguration
	Credentials    map[string]int // how many a provider has, by its name, where it has several
	Direct         bool           // targets may be called by name, without a configuration
	RefusalCodes   []string       // the codes that Refused is called with
	Prices         Pricer
	Limits         []Limit // of configurations
}

// KnownConfiguration is a name that clients call and what it leads to.
type KnownConfiguration struct {
	Name       string
	Targets    []llm.Target
	FallbackOn llm.ClassSet
}

// Pricer says what a usage costs; it tells the input's share of a cost from
// the output's.
type Pricer interface {
	Cost(t llm.Target, u llm.Usage) (cost decimal.Decimal, priced bool)
}

// Metrics are the gateway's metric families (CONTRACT section 5). Their labels
// come from configuration and closed enums, never from a request.
type Metrics struct {
	requests        *prometheus.CounterVec
	requestDuration *prometheus.HistogramVec
	overhead        *prometheus.HistogramVec
	refusals        *prometheus.CounterVec
	attempts        *prometheus.CounterVec
	attemptDuration *prometheus.HistogramVec
	firstToken      *prometheus.HistogramVec
	transitions     *prometheus.CounterVec
	fallbacks       *prometheus.CounterVec
	tokens          *prometheus.CounterVec
	cost            *prometheus.CounterVec
	unpriced        *prometheus.CounterVec
	ownCalls        *prometheus.CounterVec
	ownCost         *prometheus.CounterVec
	build           *prometheus.GaugeVec
	reloads         reloads
	keys            idempotency
	kept            keptAnswers

	fates
	denials denials
	lost    sync.Once // logs the first run that a panic has cost

	handles atomic.Pointer[handles] // replaced as a whole by Learn
	scraped *scraped
	alarms  alarms
	log     *slog.Logger
}

// The buckets reach from a refusal to the longest reasoning; attempts end at a
// minute, since what is slower than that is slow.
var (
	requestBuckets  = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600}
	attemptBuckets  = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 20, 30, 45, 60}
	overheadBuckets = []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1}
)

// NewMetrics registers the families and makes every series that is known. What
// a person must see to is logged.
func NewMetrics(reg prometheus.Registerer, known Known, log *slog.Logger) *Metrics {
	f := families{reg}
	m := &Metrics{
		requests: f.counter("requests_total", "Client calls, by how they ended for the client.",
			"operation", "configuration", "outcome"),
		requestDuration: f.histogram("request_duration_seconds", "Client calls from arrival to their end.",
			requestBuckets, "operation", "configuration", "outcome"),
		overhead: f.histogram("gateway_overhead_seconds", "Time of a call that was not spent in upstreams or waiting for them.",
			overheadBuckets, "operation"),
		refusals: f.counter("refusals_total", "Requests refused before they became a call, by error code.", "code"),
		attempts: f.counter("attempts_total", "Permits and refusals on one target.",
			"provider", "model", "region", "outcome", "class"),
		attemptDuration: f.histogram("attempt_duration_seconds", "Last send of an attempt that said something about its target; slow is a success over its slow threshold.",
			attemptBuckets, "provider", "model", "region", "outcome"),
		firstToken: f.histogram("time_to_first_token_seconds", "From sending to the first content of a stream.",
			attemptBuckets, "provider", "model", "region"),
		transitions: f.counter("circuit_transitions_total", "Transitions of circuits.",
			"provider", "model", "region", "from_state", "to_state", "reason"),
		fallbacks: f.counter("fallbacks_total", "Moves from a failed target to the next.",
			"configuration", "from_provider", "to_provider", "class"),
		tokens: f.counter("tokens_total", "Tokens of all attempts; cached and cache-write ones are input, reasoning ones output.",
			"configuration", "provider", "model", "direction"),
		cost: f.counter("cost_usd_total", "Cost of all attempts that have a price.",
			"configuration", "provider", "model", "direction"),
		unpriced: f.counter("unpriced_attempts_total", "Attempts that used something and have no price, so that no cost counts them.",
			"configuration", "provider", "model"),
		ownCalls: f.counter("own_calls_total", "Calls that the gateway made on its own account, which are in no other family of calls.",
			"operation", "provider", "model", "region", "outcome"),
		ownCost: f.counter("own_cost_usd_total", "Cost of the gateway's own calls that have a price.",
			"operation", "provider", "model", "region"),
		build:   f.gauge("build_info", "Always 1; the labels say what runs.", "version", "commit", "go_version"),
		reloads: newReloads(f),
		keys:    newIdempotency(f),
		kept:    newKeptAnswers(f),
		scraped: newScraped(),
		log:     log,
	}
	m.scraped.alarms = m.Alarms
	m.fates = newFates(f)
	m.denials = newDenials(f)
	reg.MustRegister(m.scraped)
	m.Learn(known)
	return m
}

// Learn replaces what is known, as when a configuration was reloaded. Series of
// before keep their values; calls that still run under the old configuration
// are counted as ever.
func (m *Metrics) Learn(known Known) {
	h := m.resolve(known)
	targets := slices.Collect(maps.Keys(h.targets))
	m.handles.Store(h)
	asked := slices.Concat(targets, known.HealthChecks)
	m.scraped.targets.Store(&targets)
	m.scraped.helpers.Store(&known.Helpers)
	m.scraped.limits.Store(&known.Limits)
	m.alarms.end(func(key alarmKey) bool {
		return !slices.Contains(asked, key.target) || key.credential > known.Credentials[key.target.Provider]
	})
}

// Refused counts a request that was refused before it became a call. The code
// is one of the gateway's own error codes.
func (m *Metrics) Refused(code string) { m.refusals.WithLabelValues(code).Inc() }

// Build says what runs.
func (m *Metrics) Build(version, commit, goVersion string) {
	m.build.WithLabelValues(version, commit, goVersion).Set(1)
}

// families makes metric families under the gateway's prefix.
type families struct{ reg prometheus.Registerer }

const prefix = "breakwater_"

func (f families) counter(name, help string, labels ...string) *prometheus.CounterVec {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	f.reg.MustRegister(vec)
	return vec
}

func (f families) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels)
	f.reg.MustRegister(vec)
	return vec
}

func (f families) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}, labels)
	f.reg.MustRegister(vec)
	return vec
}
