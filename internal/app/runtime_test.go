package app

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// distinct is a configuration in which no number is a default, nor that of a
// neighbour, so that a value that goes nowhere, or to the wrong place, shows.
const distinct = `
server: {max_body: 3MiB, max_inflight_bytes: 5MiB, request_timeout: 11s, max_stream: 13s, write_timeout: 17s,
  stream_keepalive: 19s, stream_commit_after: 23s, metrics_token: scrape}
database: {private: true}
auth: {mode: open}
circuit_breaker: {failure_threshold: 3, cooldown: 29s, cooldown_multiplier: 3, max_cooldown: 31m, cooldown_jitter: 0.5,
  max_retry_after: 37m, quota_cooldown: 41m, half_open_calls: 7, success_threshold: 4, max_half_open: 43s, lease: 47s, step_decay: 53s,
  probe: {mode: canary, demand: 89s, closes: true},
  slow_call_rate_threshold: 0.4, count_slow_cancels: false}
providers:
  alpha:
    kind: simulated
    region: r1
    max_concurrent: 59
    retry: {max: 6, base: 61ms, max_delay: 67s, jitter: 0.75}
    models:
      m1: {input: 1, output: 2, context_window: 7100, max_output: 730}
      half: {input: 1}
configurations:
  chat:
    targets: [{provider: alpha, model: m1}]
    fallback_on: [auth]
    timeouts: {connect: 71s, first_token: 73s, idle: 79s, total: 83s}
`

func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("test.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestEveryLimitReachesTheAPI(t *testing.T) {
	t.Parallel()
	stack, err := pipeline.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := parsed(t, distinct)
	got := newSnapshot(cfg, newCircuitPolicies(cfg), stack)
	want := api.Limits{
		MaxBody: 3 << 20, MaxInflightBytes: 5 << 20, RequestTimeout: 11 * time.Second, MaxStream: 13 * time.Second,
		WriteTimeout: 17 * time.Second, StreamKeepalive: 19 * time.Second, StreamCommitAfter: 23 * time.Second,
	}
	if diff := cmp.Diff(want, got.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if got.MetricsToken != "scrape" {
		t.Errorf("metrics token is %q", got.MetricsToken)
	}
}

// CF-A6: the time-outs of a configuration go before those of its providers.
func TestRoutesCarryWhatTheirConfigurationSays(t *testing.T) {
	t.Parallel()
	m1 := llm.Target{Provider: "alpha", Model: "m1", Region: "r1"}
	half := llm.Target{Provider: "alpha", Model: "half", Region: "r1"}
	want := map[string]api.Route{
		"chat": {
			Configuration: "chat", Targets: []llm.Target{m1}, FallbackOn: llm.ClassSet{llm.ClassAuth: true},
			Timeouts: llm.Timeouts{Connect: 71 * time.Second, FirstToken: 73 * time.Second, Idle: 79 * time.Second, Total: 83 * time.Second},
		},
		"alpha/m1":   {Targets: []llm.Target{m1}, FallbackOn: llm.DefaultFallback()},
		"alpha/half": {Targets: []llm.Target{half}, FallbackOn: llm.DefaultFallback()},
	}
	if diff := cmp.Diff(want, routes(parsed(t, distinct))); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	closed := routes(parsed(t, distinct+"direct_targets: false\n"))
	if names := slices.Sorted(maps.Keys(closed)); !slices.Equal(names, []string{"chat"}) {
		t.Errorf("without direct targets clients may name %v", names)
	}
}

func TestEveryPolicyReachesThePipeline(t *testing.T) {
	t.Parallel()
	cfg := parsed(t, distinct)
	want := map[string]pipeline.Policy{"alpha": {
		MaxConcurrent: 59,
		Retry:         pipeline.Retry{Max: 6, Base: 61 * time.Millisecond, MaxDelay: 67 * time.Second, Jitter: 0.75},
	}}
	if diff := cmp.Diff(want, policies(cfg, nil).Providers); diff != "" {
		t.Errorf("policies (-want +got):\n%s", diff)
	}
	m1 := llm.Target{Provider: "alpha", Model: "m1", Region: "r1"}
	if diff := cmp.Diff(pipeline.Windows{m1: {Context: 7100, MaxOutput: 730}}, windows(cfg)); diff != "" {
		t.Errorf("windows (-want +got):\n%s", diff)
	}
	if hold := newCircuitPolicies(cfg).hold(m1); hold.MaxHint != 37*time.Minute || hold.Refused != 41*time.Minute {
		t.Errorf("holds %+v", hold)
	}
}

func TestEverySettingReachesTheBreaker(t *testing.T) {
	t.Parallel()
	got := breakerSettings(parsed(t, distinct).CircuitBreaker)
	want := breaker.Settings{
		Enabled: true, FailureThreshold: 3, Cooldown: 29 * time.Second, CooldownMultiplier: 3, MaxCooldown: 31 * time.Minute,
		CooldownJitter: 0.5, MaxRetryAfter: 37 * time.Minute, HalfOpenCalls: 7, SuccessThreshold: 4,
		MaxHalfOpen: 43 * time.Second, Lease: 47 * time.Second, StepDecay: 53 * time.Second,
		SlowRate: 400_000, SlowCancels: false,
		Canary: true, CanaryCloses: true, CanaryDemand: 89 * time.Second,
		FailureRate: got.FailureRate, RateTest: got.RateTest, Window: got.Window, MinCalls: got.MinCalls, // TestBreakerSettings
		MaxOpenPercent: 100,
		MaxNeutral:     breaker.DefaultMaxNeutral, IdleTTL: breaker.DefaultIdleTTL,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

// Half a price would be taken for a whole cost.
func TestHalfAPriceIsNone(t *testing.T) {
	t.Parallel()
	table := prices(parsed(t, distinct))
	usage := llm.Usage{Input: llm.Tokens(1_000_000), Output: llm.Tokens(1_000_000)}
	if cost, priced := table.Cost(llm.Target{Provider: "alpha", Model: "m1", Region: "r1"}, usage); !priced || !cost.Equal(decimal.NewFromInt(3)) {
		t.Errorf("m1 costs %v, priced %v, want 3", cost, priced)
	}
	if _, priced := table.Cost(llm.Target{Provider: "alpha", Model: "half", Region: "r1"}, usage); priced {
		t.Error("a model with an input price only has a price")
	}
}
