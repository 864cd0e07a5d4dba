package breaker_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// R45, C44, C50, CFG-06: numbers that would make a circuit that never opens,
// never closes or never ends a probe are refused by the name of the setting.
func TestValidateRefuses(t *testing.T) {
	t.Parallel()
	type S = breaker.Settings
	tests := []struct {
		setting string
		change  func(*S)
	}{
		{"failure_threshold", func(s *S) { s.FailureThreshold, s.FailureRate = 0, 0 }},
		{"failure_threshold", func(s *S) { s.FailureThreshold = -1 }},
		{"failure_rate_threshold", func(s *S) { s.FailureRate = breaker.All + 1 }},
		{"window.size", func(s *S) { s.Window = breaker.Window{Calls: -1} }},
		{"window.size", func(s *S) { s.Window = breaker.Window{Calls: 1 << 40} }},
		{"window.size", func(s *S) { s.Window.Span = 0 }},
		{"window.size", func(s *S) { s.Window.Span = 100*time.Millisecond - 1 }},
		{"window.buckets", func(s *S) { s.Window.Buckets = 0 }},
		{"window.buckets", func(s *S) { s.Window.Buckets = -1 }},
		{"window.buckets", func(s *S) { s.Window.Buckets = 1 << 40 }},
		{"min_calls", func(s *S) { s.MinCalls = 0 }},
		{"cooldown", func(s *S) { s.Cooldown = 0 }},
		{"cooldown", func(s *S) { s.Cooldown = -time.Second }},
		{"cooldown_multiplier", func(s *S) { s.CooldownMultiplier = 0.99 }},
		{"cooldown_multiplier", func(s *S) { s.CooldownMultiplier = math.NaN() }},
		{"cooldown_multiplier", func(s *S) { s.CooldownMultiplier = math.Inf(1) }},
		{"max_cooldown", func(s *S) { s.MaxCooldown = s.Cooldown - 1 }},
		{"cooldown_jitter", func(s *S) { s.CooldownJitter = -0.01 }},
		{"cooldown_jitter", func(s *S) { s.CooldownJitter = 1.01 }},
		{"cooldown_jitter", func(s *S) { s.CooldownJitter = math.NaN() }},
		{"step_decay", func(s *S) { s.StepDecay = 0 }},
		{"max_retry_after", func(s *S) { s.MaxRetryAfter = 0 }},
		{"half_open_calls", func(s *S) { s.HalfOpenCalls = 0 }},
		{"half_open_calls", func(s *S) { s.HalfOpenCalls = -3 }},
		{"half_open_calls", func(s *S) { s.HalfOpenCalls = 1 << 40 }},
		{"success_threshold", func(s *S) { s.SuccessThreshold = 0 }},
		{"success_threshold", func(s *S) { s.SuccessThreshold = 2 }}, // BRK-06
		{"max_half_open", func(s *S) { s.MaxHalfOpen = -time.Millisecond }},
		{"lease", func(s *S) { s.Lease = 0 }},
		{"max_neutral", func(s *S) { s.MaxNeutral = 0 }},
		{"idle_ttl", func(s *S) { s.IdleTTL = 0 }},
	}
	for _, tt := range tests {
		s := with(tt.change)
		err := s.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), tt.setting+": ") {
			t.Errorf("%s in %+v: got %v, want a fault of that name first", tt.setting, s, err)
		}
	}
}

// Every fault is named at once.
func TestValidateNamesEveryFault(t *testing.T) {
	t.Parallel()
	err := breaker.Settings{Enabled: true}.Validate()
	if err == nil {
		t.Fatal("empty settings are valid")
	}
	if got, want := strings.Count(err.Error(), "\n")+1, 13; got != want {
		t.Errorf("got %d faults, want %d:\n%v", got, want, err)
	}
}

func TestValidateAccepts(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]breaker.Settings{
		"the defaults":           defaults(),
		"a breaker that is off":  {},
		"three probes, two good": with(halfOpen(3, 2)),
		"no streak":              with(func(s *breaker.Settings) { s.FailureThreshold = 0 }),
		"no rate":                with(func(s *breaker.Settings) { s.FailureRate = 0 }),
		"all of one bucket": with(func(s *breaker.Settings) {
			s.FailureRate, s.Window = breaker.All, breaker.Window{Span: 10 * time.Millisecond, Buckets: 1}
		}),
		"the last twenty calls":  with(func(s *breaker.Settings) { s.Window = breaker.Window{Calls: 20} }),
		"no growth, full jitter": with(func(s *breaker.Settings) { s.CooldownMultiplier, s.CooldownJitter, s.MaxCooldown = 1, 1, s.Cooldown }),
	} {
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
