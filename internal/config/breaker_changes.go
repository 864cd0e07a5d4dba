package config

import (
	"reflect"
	"time"
)

// BreakerChanges are other values for keys of circuit_breaker; a key that is
// nil is left as it is. The keys and what they may be are those of
// CircuitBreaker.
type BreakerChanges struct {
	Enabled            *bool                `yaml:"enabled,omitempty"`
	FailureThreshold   *int                 `yaml:"failure_threshold,omitempty"`
	FailureRate        *Rate                `yaml:"failure_rate_threshold,omitempty"`
	RateTest           *string              `yaml:"rate_test,omitempty"`
	SlowRate           *Rate                `yaml:"slow_call_rate_threshold,omitempty"`
	SlowCall           *SlowCall            `yaml:"slow_call_duration,omitempty"`
	CountSlowCancels   *bool                `yaml:"count_slow_cancels,omitempty"`
	Window             *WindowChanges       `yaml:"window,omitempty"`
	MinCalls           *int                 `yaml:"min_calls,omitempty"`
	Cooldown           *time.Duration       `yaml:"cooldown,omitempty"`
	CooldownMultiplier *float64             `yaml:"cooldown_multiplier,omitempty"`
	MaxCooldown        *time.Duration       `yaml:"max_cooldown,omitempty"`
	CooldownJitter     *float64             `yaml:"cooldown_jitter,omitempty"`
	MaxRetryAfter      *time.Duration       `yaml:"max_retry_after,omitempty"`
	QuotaCooldown      *time.Duration       `yaml:"quota_cooldown,omitempty"`
	HalfOpenCalls      *int                 `yaml:"half_open_calls,omitempty"`
	SuccessThreshold   *int                 `yaml:"success_threshold,omitempty"`
	MaxHalfOpen        *time.Duration       `yaml:"max_half_open,omitempty"`
	Lease              *time.Duration       `yaml:"lease,omitempty"`
	StepDecay          *time.Duration       `yaml:"step_decay,omitempty"`
	RecoveryRamp       *time.Duration       `yaml:"recovery_ramp,omitempty"`
	SoftThrottle       *SoftThrottleChanges `yaml:"soft_throttle,omitempty"`
	MaxOpenPercent     *int                 `yaml:"max_open_percent,omitempty"`
	ProviderRollup     *RollupChanges       `yaml:"provider_rollup,omitempty"`
	Store              *string              `yaml:"store,omitempty"`
	Probe              *ProbeChanges        `yaml:"probe,omitempty"`
}

func (BreakerChanges) whole() any { return CircuitBreaker{} }

// WindowChanges are other values for keys of a window.
type WindowChanges struct {
	Type    *string     `yaml:"type,omitempty"`
	Size    *WindowSize `yaml:"size,omitempty"`
	Buckets *int        `yaml:"buckets,omitempty"`
}

func (WindowChanges) whole() any { return Window{} }

// SoftThrottleChanges are other values for keys of a soft throttle.
type SoftThrottleChanges struct {
	Enabled *bool          `yaml:"enabled,omitempty"`
	K       *float64       `yaml:"k,omitempty"`
	Window  *time.Duration `yaml:"window,omitempty"`
}

func (SoftThrottleChanges) whole() any { return SoftThrottle{} }

// RollupChanges are other values for keys of a rollup.
type RollupChanges struct {
	Enabled *bool `yaml:"enabled,omitempty"`
	Percent *int  `yaml:"percent,omitempty"`
	MinOpen *int  `yaml:"min_open,omitempty"`
}

func (RollupChanges) whole() any { return Rollup{} }

// ProbeChanges are other values for keys of a probe.
type ProbeChanges struct {
	Mode      *string        `yaml:"mode,omitempty"`
	Prompt    *string        `yaml:"prompt,omitempty"`
	Expect    *string        `yaml:"expect,omitempty"`
	Timeout   *time.Duration `yaml:"timeout,omitempty"`
	MaxTokens *int           `yaml:"max_tokens,omitempty"`
	Demand    *time.Duration `yaml:"demand,omitempty"`
	Closes    *bool          `yaml:"closes,omitempty"`
}

func (ProbeChanges) whole() any { return Probe{} }

// over returns base with the changes made to it.
func (c BreakerChanges) over(base CircuitBreaker) CircuitBreaker {
	change(reflect.ValueOf(&base).Elem(), reflect.ValueOf(c))
	return base
}

// change sets what a partial section holds in the whole one.
func change(whole, part reflect.Value) {
	for i := range part.NumField() {
		value := part.Field(i)
		if value.IsNil() {
			continue
		}
		into := whole.FieldByName(part.Type().Field(i).Name)
		if _, nested := value.Elem().Interface().(partial); nested {
			change(into, value.Elem())
			continue
		}
		into.Set(value.Elem())
	}
}
