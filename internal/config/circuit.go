package config

import "time"

// CircuitBreaker is when a failing target is left alone, and for how long.
type CircuitBreaker struct {
	Enabled            bool          `yaml:"enabled" doc:"Whether failing targets are left alone at all."`
	FailureThreshold   int           `yaml:"failure_threshold" check:"min=0" doc:"Tripping failures in a row that open a circuit; 0 = off."`
	Cooldown           time.Duration `yaml:"cooldown" check:"over=0s" doc:"How long a circuit stays open the first time."`
	CooldownMultiplier float64       `yaml:"cooldown_multiplier" check:"min=1" doc:"By how much each further opening is longer."`
	MaxCooldown        time.Duration `yaml:"max_cooldown" check:"over=0s" doc:"Longest cooldown before jitter."`
	CooldownJitter     float64       `yaml:"cooldown_jitter" check:"min=0,max=1" doc:"Largest share added to a cooldown at random."`
	MaxRetryAfter      time.Duration `yaml:"max_retry_after" check:"over=0s" doc:"Longest Retry-After of a provider that is honoured."`
	QuotaCooldown      time.Duration `yaml:"quota_cooldown" check:"over=0s" doc:"How long \"no credit left\" opens a circuit."`
	HalfOpenCalls      int           `yaml:"half_open_calls" check:"min=1" doc:"Calls let through at once to probe a half-open circuit."`
	SuccessThreshold   int           `yaml:"success_threshold" check:"min=1" doc:"Probes that must succeed to close it; at most half_open_calls."`
	MaxHalfOpen        time.Duration `yaml:"max_half_open" check:"over=0s" doc:"How long a circuit stays half-open without a live probe."`
	Lease              time.Duration `yaml:"lease" check:"over=0s" doc:"How long a probe that is not heard of holds its place."`
	StepDecay          time.Duration `yaml:"step_decay" check:"over=0s" doc:"Healthy time that takes one step off the cooldown's growth."`
}

func defaultCircuitBreaker() CircuitBreaker {
	return CircuitBreaker{
		Enabled:            true,
		FailureThreshold:   5,
		Cooldown:           30 * time.Second,
		CooldownMultiplier: 2,
		MaxCooldown:        5 * time.Minute,
		CooldownJitter:     0.25,
		MaxRetryAfter:      time.Hour,
		QuotaCooldown:      10 * time.Minute,
		HalfOpenCalls:      1,
		SuccessThreshold:   1,
		MaxHalfOpen:        2 * time.Minute,
		Lease:              30 * time.Second,
		StepDecay:          time.Minute,
	}
}

// check refuses a breaker that could never open or never close (R45).
func (b CircuitBreaker) check(r *report) {
	at := path("circuit_breaker").key
	if r.sound(at("enabled"), at("failure_threshold")) && b.Enabled && b.FailureThreshold == 0 {
		r.fault(at("failure_threshold"), "is 0, so no circuit could ever open", "give it at least 1, or write enabled: false")
	}
	if r.sound(at("cooldown"), at("max_cooldown")) && b.MaxCooldown < b.Cooldown {
		r.fault(at("max_cooldown"), "is less than cooldown", "give it at least "+readable(b.Cooldown))
	}
	if r.sound(at("half_open_calls"), at("success_threshold")) && b.SuccessThreshold > b.HalfOpenCalls {
		r.fault(at("success_threshold"), "is more than half_open_calls, so no circuit could ever close", "give it at most half_open_calls")
	}
}
