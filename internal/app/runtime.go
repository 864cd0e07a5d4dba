package app

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
	"github.com/breakwater-llm/breakwater/internal/provider"
)

// runtime is everything that follows from one configuration and from nothing
// else. A request reads one runtime; what outlives a configuration (circuits,
// places in bulkheads, keys at rest, simulated models, records) lives in the
// gateway.
type runtime struct {
	cfg        *config.Config
	policies   *circuitPolicies
	clients    clients
	assemblers assemblers
	declared   map[string]bool       // circuit keys of all that is declared
	siblings   map[string][][]string // of a circuit, the circuits of each configuration that leads to it
	snapshot   *api.Snapshot
	probes     *pipeline.Probes
	calls      tenure
}

// newRuntime builds the runtime of a configuration, beside the one that runs if
// there is one. The order of the pipeline is the list in this function.
func (g *gateway) newRuntime(cfg *config.Config, running *runtime) (*runtime, error) {
	clients, err := g.newClients(cfg, running)
	if err != nil {
		return nil, err
	}
	governing := newCircuitPolicies(cfg)
	for _, circuit := range cfg.AllCircuits() {
		// The configuration is checked before; the breaker has the last word.
		if err := governing.settings(circuit.Key()).Validate(); err != nil {
			return nil, fmt.Errorf("circuit %s: %w", circuit.Key(), err)
		}
	}
	assemblers, err := g.newAssemblers(cfg, running.named())
	if err != nil {
		return nil, err
	}
	var (
		upstreams = provider.New(clients)
		recording = pipeline.NewTelemetry(g.recordsOf(cfg))
		usage     = pipeline.NewUsage(prices(cfg))
		circuits  = pipeline.NewCircuitBreaker(g.circuits, governing.quotaCooldown, governing.slowAfter)
		terminal  = pipeline.NewTerminal(upstreams, policies(cfg, g.bulkheads))
	)
	stack, err := pipeline.New(terminal.Handle,
		recording,
		g.newIdempotency(cfg.Idempotency),
		g.newResponseCache(cfg),
		pipeline.NewContext(assemblers.sources(cfg, governing)),
		g.newBudget(cfg),
		pipeline.NewFallback(g.health, windows(cfg)),
		usage,
		circuits,
	)
	if err != nil {
		return nil, errors.Join(err, assemblers.closeUnshared(running.named()))
	}
	rt := &runtime{cfg: cfg, policies: governing, clients: clients, assemblers: assemblers, declared: map[string]bool{}, siblings: siblings(cfg)}
	rt.probes = pipeline.NewProbes(recording, usage, circuits, terminal, upstreams)
	for _, circuit := range cfg.AllCircuits() {
		rt.declared[circuit.Key()] = true
		if governing.settings(circuit.Key()).Rollup.Percent > 0 {
			rt.declared[groupOf(circuit.Key())] = true
		}
	}
	rt.calls.over = func() { g.closeUnshared(rt, g.runtime.Load()) }
	rt.snapshot = newSnapshot(cfg, governing, stack)
	rt.snapshot.Handle = rt.calls.counting(stack.Handle)
	return rt, nil
}

// named returns the assemblers of the runtime; none of no runtime.
func (r *runtime) named() assemblers {
	if r == nil {
		return nil
	}
	return r.assemblers
}

// closeUnshared lets go of the connections that only one runtime needs; those of
// another stay.
func (g *gateway) closeUnshared(rt, other *runtime) {
	var kept clients
	if other != nil {
		kept = other.clients
	}
	rt.clients.closeUnshared(kept)
	if err := rt.assemblers.closeUnshared(other.named()); err != nil {
		g.log.Warn("a connection was not closed well", "error", err)
	}
}

func newSnapshot(cfg *config.Config, governing *circuitPolicies, stack *pipeline.Stack) *api.Snapshot {
	snapshot := &api.Snapshot{
		Routes: routes(cfg),
		Limits: api.Limits{
			MaxBody:           int64(cfg.Server.MaxBody),
			MaxInflightBytes:  int64(cfg.Server.MaxInflightBytes),
			RequestTimeout:    cfg.Server.RequestTimeout,
			MaxStream:         cfg.Server.MaxStream,
			WriteTimeout:      cfg.Server.WriteTimeout,
			StreamKeepalive:   cfg.Server.StreamKeepalive,
			StreamCommitAfter: cfg.Server.StreamCommitAfter,
		},
		Policy:       governing.of,
		MetricsToken: cfg.Server.MetricsToken.Reveal(),
		LoadedAt:     time.Now(),
	}
	for _, m := range stack.Middlewares() {
		snapshot.Middlewares = append(snapshot.Middlewares, api.Middleware{Name: m.Name(), Priority: m.Priority()})
	}
	return snapshot
}

// routes lists what clients may name: configurations, and direct targets where
// they are allowed.
func routes(cfg *config.Config) map[string]api.Route {
	routes := map[string]api.Route{}
	for name, c := range cfg.Configurations {
		routes[name] = api.Route{
			Configuration: name,
			Targets:       cfg.Targets(name),
			FallbackOn:    c.Fallback(),
			Timeouts:      c.Timeouts.LLM(),
		}
	}
	if !cfg.DirectTargets {
		return routes
	}
	for _, target := range cfg.AllTargets() {
		routes[target.Provider+"/"+target.Model] = api.Route{
			Targets:    []llm.Target{target},
			FallbackOn: llm.DefaultFallback(),
		}
	}
	return routes
}

func policies(cfg *config.Config, bulkheads *pipeline.Bulkheads) pipeline.Policies {
	providers := map[string]pipeline.Policy{}
	for name, p := range cfg.Providers {
		providers[name] = pipeline.Policy{
			MaxConcurrent: p.MaxConcurrent,
			Retry:         pipeline.Retry{Max: p.Retry.Max, Base: p.Retry.Base, MaxDelay: p.Retry.MaxDelay, Jitter: p.Retry.Jitter},
		}
	}
	return pipeline.Policies{Providers: providers, Bulkheads: bulkheads, Random: rand.Float64}
}

// windows lists the targets that declare what they can take.
func windows(cfg *config.Config) pipeline.Windows {
	declared := pipeline.Windows{}
	for _, target := range cfg.AllTargets() {
		if m := cfg.Providers[target.Provider].Models[target.Model]; m.ContextWindow > 0 {
			declared[target] = pipeline.Window{Context: m.ContextWindow, MaxOutput: m.MaxOutput}
		}
	}
	return declared
}
