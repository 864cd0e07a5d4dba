package app

import (
	"cmp"
	"time"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
	"github.com/breakwater-llm/breakwater/internal/provider"
)

// basePolicy is what operators see as the policy of a circuit that no profile
// governs.
const basePolicy = "circuit_breaker"

// circuitPolicies knows what governs each circuit by one configuration. Those
// of declared targets are looked up, since they are asked for on every page.
type circuitPolicies struct {
	cfg      *config.Config
	declared map[string]api.Policy // by circuit key
}

func newCircuitPolicies(cfg *config.Config) *circuitPolicies {
	p := &circuitPolicies{cfg: cfg, declared: map[string]api.Policy{}}
	for _, target := range cfg.AllCircuits() {
		p.declared[target.Key()] = p.look(target)
	}
	return p
}

// of returns what governs a circuit, also one whose target is declared no more.
func (p *circuitPolicies) of(key string) api.Policy {
	if policy, ok := p.declared[key]; ok {
		return policy
	}
	target, _ := llm.ParseTarget(key)
	return p.look(target)
}

func (p *circuitPolicies) look(target llm.Target) api.Policy {
	found := p.cfg.BreakerPolicy(target)
	policy := policyOf(found)
	policy.Settings.Store = circuitStore(p.cfg.CircuitStore(found.Settings))
	return policy
}

func (p *circuitPolicies) settings(key string) breaker.Settings { return p.of(key).Settings }

func (p *circuitPolicies) quotaCooldown(key string) time.Duration { return p.of(key).QuotaCooldown }

func (p *circuitPolicies) slowAfter(key string, f llm.Facts) time.Duration {
	return pipeline.SlowCall(p.of(key).SlowCall).After(f)
}

// hold lets a credential rest as long as the target's circuit would be open for
// the same reason.
func (p *circuitPolicies) hold(target llm.Target) provider.HoldPolicy {
	policy := p.of(target.Key())
	return provider.HoldPolicy{MaxHint: policy.Settings.MaxRetryAfter, Refused: policy.QuotaCooldown}
}

func policyOf(p config.BreakerPolicy) api.Policy {
	return api.Policy{
		Name:          cmp.Or(p.Profile, basePolicy),
		Override:      p.Override,
		Settings:      breakerSettings(p.Settings),
		QuotaCooldown: p.Settings.QuotaCooldown,
		SlowCall:      api.SlowCall(p.Settings.SlowCall),
		Probe:         api.Probe(p.Settings.Probe),
	}
}

func breakerSettings(c config.CircuitBreaker) breaker.Settings {
	return breaker.Settings{
		Enabled:            c.Enabled,
		FailureThreshold:   c.FailureThreshold,
		FailureRate:        breaker.Rate(c.FailureRate),
		RateTest:           rateTest(c.RateTest),
		SlowRate:           breaker.Rate(c.SlowRate),
		SlowCancels:        c.CountSlowCancels,
		Window:             window(c.Window),
		MinCalls:           c.MinCalls,
		Cooldown:           c.Cooldown,
		CooldownMultiplier: c.CooldownMultiplier,
		MaxCooldown:        c.MaxCooldown,
		CooldownJitter:     c.CooldownJitter,
		MaxRetryAfter:      c.MaxRetryAfter,
		HalfOpenCalls:      c.HalfOpenCalls,
		SuccessThreshold:   c.SuccessThreshold,
		MaxHalfOpen:        c.MaxHalfOpen,
		Lease:              c.Lease,
		StepDecay:          c.StepDecay,
		Canary:             c.Probe.Mode == config.ProbeCanary,
		CanaryCloses:       c.Probe.Closes,
		CanaryDemand:       c.Probe.Demand,
		RecoveryRamp:       c.RecoveryRamp,
		Throttle:           throttle(c.SoftThrottle),
		MaxOpenPercent:     c.MaxOpenPercent,
		Rollup:             rollup(c.ProviderRollup),
		MaxNeutral:         breaker.DefaultMaxNeutral,
		IdleTTL:            breaker.DefaultIdleTTL,
	}
}

func throttle(t config.SoftThrottle) breaker.Throttle {
	if !t.Enabled {
		return breaker.Throttle{}
	}
	return breaker.Throttle{K: t.K, Window: t.Window}
}

func rollup(r config.Rollup) breaker.Rollup {
	if !r.Enabled {
		return breaker.Rollup{}
	}
	return breaker.Rollup{Percent: r.Percent, MinOpen: r.MinOpen}
}

func rateTest(name string) breaker.RateTest {
	if name == breaker.AtLeast.String() {
		return breaker.AtLeast
	}
	return breaker.Above
}

func window(w config.Window) breaker.Window {
	if w.Type == config.WindowCount {
		return breaker.Window{Calls: w.Size.Calls}
	}
	return breaker.Window{Span: w.Size.Span, Buckets: w.Buckets}
}
