package api

import "github.com/breakwater-llm/breakwater/internal/breaker"

// Policy is what governs a circuit.
type Policy struct {
	Name     string // of the profile
	Settings breaker.Settings
}

// policyView are a circuit's settings under the names of the configuration,
// durations in milliseconds.
type policyView struct {
	Enabled            bool    `json:"enabled"`
	FailureThreshold   int     `json:"failure_threshold"`
	CooldownMS         int64   `json:"cooldown_ms"`
	CooldownMultiplier float64 `json:"cooldown_multiplier"`
	MaxCooldownMS      int64   `json:"max_cooldown_ms"`
	CooldownJitter     float64 `json:"cooldown_jitter"`
	MaxRetryAfterMS    int64   `json:"max_retry_after_ms"`
	HalfOpenCalls      int     `json:"half_open_calls"`
	SuccessThreshold   int     `json:"success_threshold"`
	MaxHalfOpenMS      int64   `json:"max_half_open_ms"`
	LeaseMS            int64   `json:"lease_ms"`
	StepDecayMS        int64   `json:"step_decay_ms"`
}

func viewPolicy(s breaker.Settings) policyView {
	return policyView{
		Enabled: s.Enabled, FailureThreshold: s.FailureThreshold,
		CooldownMS: s.Cooldown.Milliseconds(), CooldownMultiplier: s.CooldownMultiplier,
		MaxCooldownMS: s.MaxCooldown.Milliseconds(), CooldownJitter: s.CooldownJitter,
		MaxRetryAfterMS: s.MaxRetryAfter.Milliseconds(),
		HalfOpenCalls:   s.HalfOpenCalls, SuccessThreshold: s.SuccessThreshold,
		MaxHalfOpenMS: s.MaxHalfOpen.Milliseconds(), LeaseMS: s.Lease.Milliseconds(), StepDecayMS: s.StepDecay.Milliseconds(),
	}
}
