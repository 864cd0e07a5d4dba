package app

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/config"
)

// What the configuration accepts is valid for the breaker, and says the same.
func TestBreakerSettings(t *testing.T) {
	t.Parallel()
	standard := breaker.Settings{
		Enabled: true, FailureThreshold: 5,
		FailureRate: 500_000, RateTest: breaker.Above, Window: breaker.Window{Span: 30 * time.Second, Buckets: 10}, MinCalls: 10,
		SlowCancels: true,
		Cooldown:    30 * time.Second, CooldownMultiplier: 2, MaxCooldown: 5 * time.Minute, CooldownJitter: 0.25,
		MaxRetryAfter: time.Hour, HalfOpenCalls: 1, SuccessThreshold: 1,
		MaxHalfOpen: 2 * time.Minute, Lease: 30 * time.Second, StepDecay: time.Minute,
		CanaryDemand: 5 * time.Minute, MaxOpenPercent: 100,
		MaxNeutral: breaker.DefaultMaxNeutral, IdleTTL: breaker.DefaultIdleTTL,
	}
	tests := map[string]struct {
		text string
		want func(*breaker.Settings)
	}{
		"nothing":     {"{}", func(*breaker.Settings) {}},
		"streak only": {"{failure_rate_threshold: 0}", func(s *breaker.Settings) { s.FailureRate = 0 }},
		"rate only": {"{failure_threshold: 0, failure_rate_threshold: 0.333333}", func(s *breaker.Settings) {
			s.FailureThreshold, s.FailureRate = 0, 333_333
		}},
		"slow only": {"{failure_threshold: 0, failure_rate_threshold: 0, slow_call_rate_threshold: 0.25, count_slow_cancels: false}", func(s *breaker.Settings) {
			s.FailureThreshold, s.FailureRate, s.SlowRate, s.SlowCancels = 0, 0, 250_000, false
		}},
		"all of them": {"{failure_rate_threshold: 1.0, min_calls: 1}", func(s *breaker.Settings) { s.FailureRate, s.MinCalls = breaker.All, 1 }},
		"of calls": {"{failure_rate_threshold: 0.25, rate_test: at_least, window: {type: count, size: 20}}", func(s *breaker.Settings) {
			s.FailureRate, s.RateTest, s.Window = 250_000, breaker.AtLeast, breaker.Window{Calls: 20}
		}},
		"canaries": {"{probe: {mode: canary, demand: 1m, closes: true}}", func(s *breaker.Settings) {
			s.Canary, s.CanaryDemand, s.CanaryCloses = true, time.Minute, true
		}},
		"most calls": {"{window: {type: count, size: 100000}}", func(s *breaker.Settings) { s.Window = breaker.Window{Calls: 100_000} }},
		"shortest":   {"{window: {size: 10ms, buckets: 1}}", func(s *breaker.Settings) { s.Window = breaker.Window{Span: 10 * time.Millisecond, Buckets: 1} }},
		"finest":     {"{window: {size: 10s, buckets: 1000}}", func(s *breaker.Settings) { s.Window = breaker.Window{Span: 10 * time.Second, Buckets: 1000} }},
		"canary": {"{probe: {mode: canary, demand: 1m, closes: true}}", func(s *breaker.Settings) {
			s.Canary, s.CanaryDemand, s.CanaryCloses = true, time.Minute, true
		}},
		"a ramp": {"{recovery_ramp: 20s}", func(s *breaker.Settings) { s.RecoveryRamp = 20 * time.Second }},
		"a throttle": {"{failure_rate_threshold: 0, soft_throttle: {enabled: true, k: 1.5}}", func(s *breaker.Settings) {
			s.FailureRate, s.Throttle = 0, breaker.Throttle{K: 1.5, Window: 2 * time.Minute}
		}},
		"not all at once": {"{max_open_percent: 50, provider_rollup: {enabled: true, percent: 75}}", func(s *breaker.Settings) {
			s.MaxOpenPercent, s.Rollup = 50, breaker.Rollup{Percent: 75, MinOpen: 3}
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := "auth: {mode: open}\ndatabase: {private: true}\nproviders: {a: {kind: simulated, models: {m: {}}}}\n" +
				"configurations: {chat: {targets: [{provider: a, model: m}]}}\ncircuit_breaker: " + tt.text + "\n"
			cfg, err := config.Parse("test.yaml", []byte(text), func(string) (string, bool) { return "", false })
			if err != nil {
				t.Fatal(err)
			}
			want := standard
			tt.want(&want)
			got := breakerSettings(cfg.CircuitBreaker)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			if err := got.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}
