package config

import "time"

// CircuitBreaker is when a failing target is left alone, and for how long.
type CircuitBreaker struct {
	Enabled            bool          `yaml:"enabled" doc:"Whether failing targets are left alone at all."`
	FailureThreshold   int           `yaml:"failure_threshold" check:"min=0" doc:"Tripping failures in a row that open a circuit; 0 = off."`
	FailureRate        Rate          `yaml:"failure_rate_threshold" check:"min=0,max=1" doc:"Share of tripping failures in the window that opens a circuit; 1 = all failed, 0 = off."`
	RateTest           string        `yaml:"rate_test" check:"oneof=above|at_least" doc:"Whether that share must be passed, or only reached."`
	SlowRate           Rate          `yaml:"slow_call_rate_threshold" check:"min=0,max=1" doc:"Share of slow calls in the window that opens a circuit; 1 = all were, 0 = off."`
	SlowCall           SlowCall      `yaml:"slow_call_duration" doc:"How long a call may take until it is slow, a stream until its first content: one time, or one that grows with the request."`
	CountSlowCancels   bool          `yaml:"count_slow_cancels" doc:"Whether a call that its caller gave up after it had become slow counts as a slow one."`
	Window             Window        `yaml:"window" doc:"The calls that the shares are taken of."`
	MinCalls           int           `yaml:"min_calls" check:"min=1" doc:"Calls that the window must show before a share of them counts; never more than it can hold."`
	Cooldown           time.Duration `yaml:"cooldown" check:"over=0s" doc:"How long a circuit stays open the first time."`
	CooldownMultiplier float64       `yaml:"cooldown_multiplier" check:"min=1,max=1000" doc:"By how much each further opening is longer."`
	MaxCooldown        time.Duration `yaml:"max_cooldown" check:"over=0s" doc:"Longest cooldown before jitter."`
	CooldownJitter     float64       `yaml:"cooldown_jitter" check:"min=0,max=1" doc:"Largest share added to a cooldown at random."`
	MaxRetryAfter      time.Duration `yaml:"max_retry_after" check:"over=0s" doc:"Longest Retry-After of a provider that is honoured."`
	QuotaCooldown      time.Duration `yaml:"quota_cooldown" check:"over=0s" doc:"How long \"no credit left\" opens a circuit."`
	HalfOpenCalls      int           `yaml:"half_open_calls" check:"min=1,max=1000" doc:"Calls let through at once to probe a half-open circuit."`
	SuccessThreshold   int           `yaml:"success_threshold" check:"min=1" doc:"Probes that must succeed to close it; at most half_open_calls."`
	MaxHalfOpen        time.Duration `yaml:"max_half_open" check:"over=0s" doc:"How long a circuit stays half-open without a live probe."`
	Lease              time.Duration `yaml:"lease" check:"over=0s" doc:"How long a probe that is not heard of holds its place."`
	StepDecay          time.Duration `yaml:"step_decay" check:"over=0s" doc:"Healthy time that takes one step off the cooldown's growth."`
	RecoveryRamp       time.Duration `yaml:"recovery_ramp" check:"min=0s" doc:"How long after a recovery only a growing share of the calls is let through, from a fifth on; 0 = all are at once."`
	SoftThrottle       SoftThrottle  `yaml:"soft_throttle" doc:"Whether calls are let through by chance where a target answers few of them, instead of opening by a failure rate."`
	MaxOpenPercent     int           `yaml:"max_open_percent" check:"min=1,max=100" doc:"How many of a configuration's targets may be open for one more to open by what it counts; 100 = all."`
	ProviderRollup     Rollup        `yaml:"provider_rollup" doc:"Whether all targets of a provider are left alone when many of them are open."`
	Store              string        `yaml:"store" check:"oneof=|local|cached|strict" doc:"With whom circuits are shared: local = nobody, cached = all replicas, a little later, strict = all replicas, before each call. Empty = cached when cache.url is set, else local."`
	Probe              Probe         `yaml:"probe" doc:"Who finds out whether the target of an open circuit is well again."`
}

func defaultCircuitBreaker() CircuitBreaker {
	return CircuitBreaker{
		Enabled:            true,
		FailureThreshold:   5,
		FailureRate:        500_000,
		RateTest:           "above",
		SlowCall:           SlowCall{Base: 10 * time.Second},
		CountSlowCancels:   true,
		Window:             Window{Type: WindowTime, Size: WindowSize{Span: 30 * time.Second}, Buckets: 10},
		MinCalls:           10,
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
		SoftThrottle:       SoftThrottle{K: 2, Window: 2 * time.Minute},
		MaxOpenPercent:     100,
		ProviderRollup:     Rollup{Percent: 50, MinOpen: 3},
		Probe:              defaultProbe(),
	}
}

// check refuses a breaker that could never open or never close (R45).
func (b CircuitBreaker) check(r *report, section path) {
	at := section.key
	if r.sound(at("enabled"), at("failure_threshold"), at("failure_rate_threshold"), at("slow_call_rate_threshold")) &&
		b.Enabled && b.FailureThreshold == 0 && b.FailureRate == 0 && b.SlowRate == 0 {
		r.fault(at("failure_threshold"), "is 0 and so are failure_rate_threshold and slow_call_rate_threshold, so no circuit could ever open", "give one of them more, or write enabled: false")
	}
	b.SlowCall.check(r, at("slow_call_duration"))
	if r.sound(at("max_half_open"), at("probe")) && b.Probe.Mode == ProbeCanary && b.Probe.Timeout > b.MaxHalfOpen {
		r.fault(section.key("probe").key("timeout"), "is more than max_half_open, for which callers would be kept out", "give it at most "+readable(b.MaxHalfOpen))
	}
	b.SoftThrottle.check(r, at("soft_throttle"), b.FailureRate)
	b.Window.check(r, at("window"))
	b.Probe.check(r, at("probe"))
	if r.sound(at("cooldown"), at("max_cooldown")) && b.MaxCooldown < b.Cooldown {
		r.fault(at("max_cooldown"), "is less than cooldown", "give it at least "+readable(b.Cooldown))
	}
	if r.sound(at("half_open_calls"), at("success_threshold")) && b.SuccessThreshold > b.HalfOpenCalls {
		r.fault(at("success_threshold"), "is more than half_open_calls, so no circuit could ever close", "give it at most half_open_calls")
	}
}
