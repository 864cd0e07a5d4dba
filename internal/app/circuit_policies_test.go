package app

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/provider"
)

// What governs a circuit says so in everything that asks: its breaker, how long
// it rests without credit, and how long a credential rests for its target.
func TestEachCircuitHasItsOwnPolicy(t *testing.T) {
	t.Parallel()
	const text = "auth: {mode: open}\ndatabase: {private: true}\n" +
		"providers: {a: {kind: simulated, models: {m: {}, org/m: {}}}, b: {kind: simulated, models: {m: {}}}}\n" +
		"breakers:\n  - {match: 'a/org/*/*', profile: llm, cooldown: 10s}\n  - {match: 'a/*/*', quota_cooldown: 1m, max_retry_after: 2m, slow_call_duration: {base: 2s, per_1k_input_tokens: 1s, per_1k_output_tokens: 1s}}\n  - {match: 'b/*/*', enabled: false}\n"
	cfg, err := config.Parse("test.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	base := breakerSettings(config.Default().CircuitBreaker)
	with := func(change func(*breaker.Settings)) breaker.Settings {
		changed := base
		change(&changed)
		return changed
	}
	policies := newCircuitPolicies(cfg)
	tests := map[string]struct {
		name, override string
		settings       breaker.Settings
		quota          time.Duration
	}{
		"a/org/m/default": {"llm", "a/org/*/*", with(func(s *breaker.Settings) {
			s.SlowRate = breaker.All / 2
			s.FailureRate, s.RateTest, s.Window = breaker.All/4, breaker.AtLeast, breaker.Window{Calls: 20}
			s.HalfOpenCalls, s.SuccessThreshold, s.Cooldown = 3, 3, 10*time.Second
		}), 10 * time.Minute},
		"a/m/default":     {"circuit_breaker", "a/*/*", with(func(s *breaker.Settings) { s.MaxRetryAfter = 2 * time.Minute }), time.Minute},
		"b/m/default":     {"circuit_breaker", "b/*/*", with(func(s *breaker.Settings) { s.Enabled = false }), 10 * time.Minute},
		"a/gone/default":  {"circuit_breaker", "a/*/*", with(func(s *breaker.Settings) { s.MaxRetryAfter = 2 * time.Minute }), time.Minute},
		"other/m/default": {"circuit_breaker", "", base, 10 * time.Minute},
		"not a key":       {"circuit_breaker", "", base, 10 * time.Minute},
	}
	for key, tt := range tests {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			got := policies.of(key)
			if got.Name != tt.name || got.Override != tt.override {
				t.Errorf("governed by %q of %q, want %q of %q", got.Name, got.Override, tt.name, tt.override)
			}
			if diff := cmp.Diff(tt.settings, policies.settings(key)); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			if got := policies.quotaCooldown(key); got != tt.quota {
				t.Errorf("without credit it rests for %v, want %v", got, tt.quota)
			}
			target, _ := llm.ParseTarget(key)
			if got, want := policies.hold(target), (provider.HoldPolicy{MaxHint: tt.settings.MaxRetryAfter, Refused: tt.quota}); got != want {
				t.Errorf("credentials rest by %+v, want %+v", got, want)
			}
			slow := 10 * time.Second
			switch key {
			case "a/org/m/default":
				slow = 12 * time.Second
			case "a/m/default", "a/gone/default":
				slow = 3500 * time.Millisecond
			}
			if got := policies.slowAfter(key, llm.Facts{TextBytes: 4000, MaxOutput: 500}); got != slow {
				t.Errorf("a call is slow after %v, want %v", got, slow)
			}
			if err := policies.settings(key).Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}
