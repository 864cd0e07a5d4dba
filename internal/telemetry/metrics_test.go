package telemetry

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// series returns every series by its name and labels: the value of a counter or
// gauge, the number of observations of a histogram.
func series(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	gathered, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range gathered {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			name := strings.TrimPrefix(family.GetName(), prefix) + "{" + strings.Join(labels, ",") + "}"
			// Only one of the three is there; the others read as zero.
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

// changed returns the series whose value is no longer what it was, or that are
// new.
func changed(before, after map[string]float64) map[string]float64 {
	diff := map[string]float64{}
	for name, value := range after {
		if was, ok := before[name]; (!ok || was != value) && !math.IsNaN(value) {
			diff[name] = value
		}
	}
	return diff
}

func TestEveryKnownSeriesIsThereFromTheStart(t *testing.T) {
	t.Parallel()
	_, reg := newMetrics(t)
	all := series(t, reg)

	want := []string{
		`requests_total{configuration="chat",operation="chat",outcome="cancelled"}`,
		`requests_total{configuration="",operation="chat",outcome="success"}`,
		`request_duration_seconds{configuration="chat",operation="chat",outcome="failure"}`,
		`gateway_overhead_seconds{operation="chat"}`,
		`refusals_total{code="invalid_json"}`,
		`attempts_total{class="",model="m1",outcome="success",provider="alpha",region="r1"}`,
		`attempts_total{class="server_error",model="m1",outcome="failure",provider="beta",region="r2"}`,
		`attempts_total{class="client_error",model="m1",outcome="neutral",provider="beta",region="r2"}`,
		`attempts_total{class="circuit_open",model="m1",outcome="refused",provider="beta",region="r2"}`,
		`attempt_duration_seconds{model="m1",outcome="slow",provider="alpha",region="r1"}`,
		`time_to_first_token_seconds{model="m1",provider="alpha",region="r1"}`,
		`circuit_state{model="m1",provider="alpha",region="r1"}`,
		`circuit_transitions_total{from_state="closed",model="m1",provider="alpha",reason="consecutive",region="r1",to_state="open"}`,
		`circuit_transitions_total{from_state="closed",model="m1",provider="alpha",reason="failure_rate",region="r1",to_state="open"}`,
		`circuit_rejected_calls_total{model="m1",provider="alpha",region="r1"}`,
		`circuit_probes_total{model="m1",provider="alpha",region="r1"}`,
		`circuit_probe_results_total{model="m1",provider="alpha",region="r1",result="success"}`,
		`circuit_probe_results_total{model="m1",provider="alpha",region="r1",result="failure"}`,
		`circuit_lease_expired_total{model="m1",provider="alpha",region="r1"}`,
		`circuit_stale_results_total{model="m1",provider="alpha",region="r1"}`,
		`circuit_neutral_results_total{model="m1",provider="alpha",region="r1"}`,
		`circuit_double_done_total{model="m1",provider="alpha",region="r1"}`,
		`circuit_events_dropped_total{}`,
		`fallbacks_total{class="circuit_open",configuration="chat",from_provider="alpha",to_provider="beta"}`,
		`fallbacks_total{class="quota",configuration="chat",from_provider="beta",to_provider="alpha"}`,
		`tokens_total{configuration="chat",direction="input",model="m1",provider="beta"}`,
		`cost_usd_total{configuration="",direction="output",model="m1",provider="alpha"}`,
		`unpriced_attempts_total{configuration="chat",model="m1",provider="alpha"}`,
		`telemetry_rows_total{result="dropped"}`,
		`telemetry_rows_total{result="written"}`,
		`telemetry_dropped_rows_total{reason="queue_full"}`,
		`telemetry_dropped_rows_total{reason="refused"}`,
		`telemetry_dropped_rows_total{reason="shutdown"}`,
		`telemetry_dropped_rows_total{reason="panic"}`,
		`config_reloads_total{result="refused"}`,
		`idempotency_total{result="stored"}`,
		`idempotency_total{result="mismatch"}`,
		`telemetry_queue_length{}`,
		`database_degraded{}`,
	}
	for _, name := range want {
		if value, ok := all[name]; !ok || value != 0 {
			t.Errorf("%s: there %t, value %v, want it to be there at zero", name, ok, value)
		}
	}
	for _, name := range []string{"provider_health_score", "circuit_failure_rate", "circuit_slow_call_rate"} {
		if got, ok := all[name+`{model="m1",provider="alpha",region="r1"}`]; !ok || !math.IsNaN(got) {
			t.Errorf("%s without data: there %t, value %v, want NaN", name, ok, got)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, "fallbacks_total") && (strings.Contains(name, `configuration=""`) || strings.Contains(name, `class="auth"`)) {
			t.Errorf("%s cannot happen and is there", name)
		}
	}
}

// Whoever reads a graph finds what it shows in the operators' handbook.
func TestEveryMetricIsInTheHandbook(t *testing.T) {
	t.Parallel()
	handbook, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(handbook), "\n## Metrics\n")
	if !found {
		t.Fatal("the handbook has no section on metrics")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	m, reg := newMetrics(t)
	m.Build("v1", "abc", "go1")
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if name := strings.TrimPrefix(family.GetName(), prefix); !strings.Contains(section, "`"+name+"`") {
			t.Errorf("%s is not in the section on metrics", name)
		}
	}
}

func TestMetricsAreFineByTheLinter(t *testing.T) {
	t.Parallel()
	_, reg := newMetrics(t)
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// rescued failed on alpha and was answered by beta.
func rescued() llm.Run {
	run := answered(noon)
	run.Served, run.TTFT = beta, ptr(time.Second)
	failed := llm.Attempt{
		Target: alpha, Outcome: llm.OutcomeFailure, FailureClass: llm.ClassServerError, Reached: true,
		Latency: ptr(time.Second), Usage: llm.Usage{Input: llm.Tokens(10)}, Cost: ptr(decimal.RequireFromString("0.00001")),
	}
	served := run.Attempts[0]
	served.Target, served.TTFT, served.Slow = beta, ptr(time.Second), true
	served.Cost = ptr(decimal.RequireFromString("0.00005"))
	run.Attempts = []llm.Attempt{failed, served}
	return run
}

func TestARunIsCountedInEveryFamilyItTouches(t *testing.T) {
	t.Parallel()
	m, reg := newMetrics(t)
	known := known()
	known.Prices = budget.NewPrices(map[llm.Target]budget.Price{
		alpha: {TokenPrice: budget.TokenPrice{Input: decimal.NewFromInt(1), Output: decimal.NewFromInt(5)}},
		beta:  {TokenPrice: budget.TokenPrice{Input: decimal.NewFromInt(1), Output: decimal.NewFromInt(20)}},
	})
	m.Learn(known)
	before := series(t, reg)
	run := rescued()
	m.Record(run)

	want := map[string]float64{
		`requests_total{configuration="chat",operation="chat",outcome="success"}`:                             1,
		`request_duration_seconds{configuration="chat",operation="chat",outcome="success"}`:                   1,
		`gateway_overhead_seconds{operation="chat"}`:                                                          1,
		`attempts_total{class="server_error",model="m1",outcome="failure",provider="alpha",region="r1"}`:      1,
		`attempts_total{class="",model="m1",outcome="success",provider="beta",region="r2"}`:                   1,
		`attempt_duration_seconds{model="m1",outcome="failure",provider="alpha",region="r1"}`:                 1,
		`attempt_duration_seconds{model="m1",outcome="slow",provider="beta",region="r2"}`:                     1,
		`time_to_first_token_seconds{model="m1",provider="beta",region="r2"}`:                                 1,
		`fallbacks_total{class="server_error",configuration="chat",from_provider="alpha",to_provider="beta"}`: 1,
		`tokens_total{configuration="chat",direction="input",model="m1",provider="alpha"}`:                    10,
		`tokens_total{configuration="chat",direction="input",model="m1",provider="beta"}`:                     10,
		`tokens_total{configuration="chat",direction="output",model="m1",provider="beta"}`:                    2,
		`cost_usd_total{configuration="chat",direction="input",model="m1",provider="alpha"}`:                  0.00001,
		`cost_usd_total{configuration="chat",direction="input",model="m1",provider="beta"}`:                   0.00001,
		`cost_usd_total{configuration="chat",direction="output",model="m1",provider="beta"}`:                  0.00004,
	}
	if diff := cmp.Diff(want, changed(before, series(t, reg))); diff != "" {
		t.Errorf("changed series (-want +got):\n%s", diff)
	}
}

// A run that a panic has cost is counted like any other that is in no table,
// whether rows are wanted or not; a storm of them is one line.
func TestRunsThatAPanicHasCostAreCounted(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg, known(), slog.New(slog.NewTextHandler(&log, nil)))
	r := New(config(), newMemory(works), m, quiet())
	first := uuid.New()
	r.Lost(first, "no queue", []byte("where it was"))
	for range 3 {
		m.Lost(uuid.New(), "no queue", nil)
	}

	all := series(t, reg)
	for name, want := range map[string]float64{
		`telemetry_rows_total{result="dropped"}`:       4,
		`telemetry_dropped_rows_total{reason="panic"}`: 4,
	} {
		if all[name] != want {
			t.Errorf("%s = %v, want %v", name, all[name], want)
		}
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), first.String()) || !strings.Contains(log.String(), "where it was") {
		t.Errorf("%d lines, want one about the first:\n%s", lines, log.String())
	}
}

func TestOnlyAVerdictIsTimed(t *testing.T) {
	t.Parallel()
	for _, outcome := range []llm.Outcome{llm.OutcomeNeutral, llm.OutcomeRefused} {
		t.Run(string(outcome), func(t *testing.T) {
			t.Parallel()
			m, reg := newMetrics(t)
			before := series(t, reg)
			run := answered(noon)
			run.Attempts = []llm.Attempt{{Target: alpha, Outcome: outcome, FailureClass: llm.ClassCancelled, Latency: ptr(time.Second)}}
			m.Record(run)
			for name := range changed(before, series(t, reg)) {
				if strings.HasPrefix(name, "attempt_duration_seconds") {
					t.Errorf("%s was observed", name)
				}
			}
		})
	}
}

// A call that began before a reload ends under the new configuration: it is
// counted where it belongs, and what was counted before stays.
func TestAReloadLosesNoCount(t *testing.T) {
	t.Parallel()
	m, reg := newMetrics(t)
	run := answered(noon)
	m.Record(run)
	gamma := llm.Target{Provider: "gamma", Model: "m2", Region: "r3"}
	m.Learn(Known{
		Targets:        []llm.Target{gamma},
		Configurations: []KnownConfiguration{{Name: "new", Targets: []llm.Target{gamma}, FallbackOn: llm.DefaultFallback()}},
	})
	m.Record(run)

	all := series(t, reg)
	for name, want := range map[string]float64{
		`requests_total{configuration="chat",operation="chat",outcome="success"}`:            2,
		`attempts_total{class="",model="m1",outcome="success",provider="alpha",region="r1"}`: 2,
		`tokens_total{configuration="chat",direction="output",model="m1",provider="alpha"}`:  4,
		`requests_total{configuration="new",operation="chat",outcome="success"}`:             0,
		`circuit_state{model="m2",provider="gamma",region="r3"}`:                             0,
	} {
		if got, ok := all[name]; !ok || got != want {
			t.Errorf("%s = %v (there %t), want %v", name, got, ok, want)
		}
	}
	if _, ok := all[`circuit_state{model="m1",provider="alpha",region="r1"}`]; ok {
		t.Error("the circuit of a target that is gone is still shown")
	}
}

func TestCircuitsAndHealthAreReadAtEachScrape(t *testing.T) {
	t.Parallel()
	m, reg := newMetrics(t)
	m.ReadFrom(Sources{
		Circuits: func() []breaker.Snapshot {
			return []breaker.Snapshot{
				{Key: alpha.Key(), State: breaker.Open, FailureRate: new(0.75), SlowRate: new(0.5), Rejected: 130, Probes: 9,
					ProbeSuccesses: 1, ProbeFailures: 3, LeaseExpired: 4, Stale: 2, Neutral: 5, DoubleDone: 6},
				{Key: "something else", State: breaker.Open},
			}
		},
		EventsDropped:    func() uint64 { return 7 },
		Health:           func(target llm.Target) (float64, bool) { return 0.2, target == alpha },
		DatabaseDegraded: func() bool { return true },
	})
	m.CircuitEvent(opened(1, noon))
	m.Refused("invalid_json")
	m.Build("v1", "abc", "go1")

	want := map[string]float64{
		`circuit_state{model="m1",provider="alpha",region="r1"}`:                                                                      1,
		`circuit_failure_rate{model="m1",provider="alpha",region="r1"}`:                                                               0.75,
		`circuit_slow_call_rate{model="m1",provider="alpha",region="r1"}`:                                                             0.5,
		`circuit_rejected_calls_total{model="m1",provider="alpha",region="r1"}`:                                                       130,
		`circuit_probes_total{model="m1",provider="alpha",region="r1"}`:                                                               9,
		`circuit_probe_results_total{model="m1",provider="alpha",region="r1",result="success"}`:                                       1,
		`circuit_probe_results_total{model="m1",provider="alpha",region="r1",result="failure"}`:                                       3,
		`circuit_lease_expired_total{model="m1",provider="alpha",region="r1"}`:                                                        4,
		`circuit_neutral_results_total{model="m1",provider="alpha",region="r1"}`:                                                      5,
		`circuit_double_done_total{model="m1",provider="alpha",region="r1"}`:                                                          6,
		`circuit_events_dropped_total{}`:                                                                                              7,
		`circuit_stale_results_total{model="m1",provider="alpha",region="r1"}`:                                                        2,
		`provider_health_score{model="m1",provider="alpha",region="r1"}`:                                                              0.2,
		`circuit_transitions_total{from_state="closed",model="m1",provider="alpha",reason="consecutive",region="r1",to_state="open"}`: 1,
		`refusals_total{code="invalid_json"}`:                                                                                         1,
		`database_degraded{}`:                                                                                                         1,
		`build_info{commit="abc",go_version="go1",version="v1"}`:                                                                      1,
	}
	_, fresh := newMetrics(t)
	if diff := cmp.Diff(want, changed(series(t, fresh), series(t, reg))); diff != "" {
		t.Errorf("changed series (-want +got):\n%s", diff)
	}
}
