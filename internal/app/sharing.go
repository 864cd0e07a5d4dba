package app

import (
	"fmt"
	"log/slog"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// openCache returns the cache that replicas share; nil where a replica is to
// keep to itself. One that cannot be reached is no error: it is met later.
func openCache(cfg config.Cache, log *slog.Logger) (cache.Cache, error) {
	url := cfg.URL.Reveal()
	if url == "" {
		return nil, nil
	}
	shared, err := cache.Open(url, cache.Config{Timeout: cfg.Timeout, Log: log})
	if err != nil {
		return nil, fmt.Errorf("open the cache: %w", err)
	}
	return shared, nil
}

// orInProcess returns the shared cache or, without one, a cache in this process:
// what needs one works on either.
func orInProcess(shared cache.Cache, cfg config.Cache) cache.Cache {
	if shared != nil {
		return shared
	}
	return cache.NewMemory(cache.MemoryConfig{MaxBytes: int64(cfg.MaxMemory)})
}

// newCircuits makes the circuits, on the cache if there is one.
func (g *gateway) newCircuits(cfg *config.Config, governing *circuitPolicies) *breaker.Registry {
	c := breaker.Config{Settings: governing.settings, OnEvent: g.circuitChanged, Canary: g.canaries.Send, Group: groupOf, Siblings: g.siblings}
	if g.cache != nil {
		c.Store, c.StoreTimeout = g.cache, cfg.Cache.Timeout
		c.OnStoreRefuses, c.OnStoreBack = g.cacheRefuses, g.cacheIsBack
	}
	circuits := breaker.New(c)
	circuits.Keep(circuitKeys(cfg))
	return circuits
}

// groupOf is the circuit under which all circuits of a provider are shown when
// they are left alone together; empty for what is no target.
func groupOf(key string) string {
	target, _ := llm.ParseTarget(key)
	if target.Provider == llm.ContextProvider || target.IsHealth() {
		return ""
	}
	return llm.Target{Provider: target.Provider, Model: "@rollup", Region: "all"}.Key()
}

// siblings lists, for each configuration that leads to a circuit, all circuits
// that it leads to.
func (g *gateway) siblings(key string) [][]string {
	if running := g.runtime.Load(); running != nil {
		return running.siblings[key]
	}
	return nil
}

func siblings(cfg *config.Config) map[string][][]string {
	all := map[string][][]string{}
	for name := range cfg.Configurations {
		var route []string
		for _, target := range cfg.Targets(name) {
			route = append(route, target.Key())
		}
		for _, key := range route {
			all[key] = append(all[key], route)
		}
	}
	return all
}

// circuitKeys names the circuits of all that is declared.
func circuitKeys(cfg *config.Config) []string {
	var keys []string
	for _, target := range cfg.AllCircuits() {
		keys = append(keys, target.Key())
	}
	return keys
}

// cacheRefuses logs why circuits are not shared although the cache is there. That
// it cannot be reached the cache logs itself.
func (g *gateway) cacheRefuses(err error) {
	g.cacheRefused.Store(true)
	g.log.Warn("cache refuses to keep circuits, each gateway decides by itself", "error", err)
}

func (g *gateway) cacheIsBack() {
	if g.cacheRefused.Swap(false) {
		g.log.Info("cache keeps circuits again")
	}
	g.overrides.Reassert()
}

// shared is how this replica stands with what it shares with the others: circuits
// and the counters of limits.
func (g *gateway) shared() (state breaker.SharedState, shared bool) {
	state, shared = g.circuits.Shared()
	state.Degraded = shared && state.Degraded || g.ledger.Degraded()
	return state, shared || g.cache != nil
}

// sharedStateDegraded reports whether this replica decides alone what it should
// share with the others.
func (g *gateway) sharedStateDegraded() bool {
	state, shared := g.shared()
	return shared && state.Degraded
}

// closeCache ends what is transient, once nobody uses it.
func (g *gateway) closeCache() error { return g.memory.Close() }

// circuitStore is with whom circuits are shared.
func circuitStore(name string) breaker.Mode {
	switch name {
	case config.StoreCached:
		return breaker.Cached
	case config.StoreStrict:
		return breaker.Strict
	default:
		return breaker.Local
	}
}
