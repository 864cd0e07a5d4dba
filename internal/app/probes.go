package app

import (
	"context"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/prober"
	wire "github.com/breakwater-llm/breakwater/internal/wire/openai"
)

// leases are those of the cache that replicas share; nil where they share none.
func (g *gateway) leases() prober.Leases {
	if g.cache == nil {
		return nil
	}
	return g.cache
}

// canary is how the canary of a circuit is made under the running configuration;
// false for a target that it does not declare.
func (g *gateway) canary(key string) (prober.Canary, bool) {
	rt := g.runtime.Load()
	target, _ := llm.ParseTarget(key)
	if !rt.declared[key] || target.IsHealth() {
		return prober.Canary{}, false
	}
	policy := rt.policies.of(key)
	body, facts, err := wire.Question(target.Model, policy.Probe.Prompt, policy.Probe.MaxTokens)
	if err != nil {
		g.log.Error("a canary cannot be written", "circuit", key, "error", err)
		return prober.Canary{}, false
	}
	return prober.Canary{
		Target: target, Dialect: llm.DialectOpenAI, Body: body, Facts: facts,
		Expect: policy.Probe.Expect, Timeout: policy.Probe.Timeout, Patience: policy.Settings.MaxHalfOpen,
		Read: func(body []byte) (string, bool) {
			reply := wire.ReadReply(body)
			return reply.Text, reply.Cut
		},
		Send: func(ctx context.Context, call *llm.Call, permit *breaker.Permit, judge func(*llm.Result) error) error {
			return rt.calls.during(func() error { return rt.probes.Canary(ctx, call, permit, judge) })
		},
	}, true
}

// checkHealth asks a provider under the running configuration.
func (g *gateway) checkHealth(ctx context.Context, call *llm.Call, permit *breaker.Permit) error {
	rt := g.runtime.Load()
	call.Dialect = llm.DialectOpenAI
	return rt.calls.during(func() error { return rt.probes.HealthCheck(ctx, call, permit) })
}

// healthChecks lists how the providers of a runtime are checked.
func (g *gateway) healthChecks(rt *runtime) []prober.HealthCheck {
	var all []prober.HealthCheck
	for _, target := range rt.cfg.HealthChecks() {
		check := rt.cfg.Providers[target.Provider].HealthCheck
		all = append(all, prober.HealthCheck{
			Target: target, Interval: check.Interval, Timeout: check.Timeout,
			Shared: g.cache != nil && rt.policies.settings(target.Key()).Store != breaker.Local,
		})
	}
	return all
}

// canaryTargets lists the targets that canaries may be sent to.
func canaryTargets(cfg *config.Config) []llm.Target {
	var all []llm.Target
	for _, target := range cfg.AllTargets() {
		if policy := cfg.BreakerPolicy(target).Settings; policy.Enabled && policy.Probe.Mode == config.ProbeCanary {
			all = append(all, target)
		}
	}
	return all
}
