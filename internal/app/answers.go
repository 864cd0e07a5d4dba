package app

import (
	"context"
	"fmt"

	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// newResponseCache is the middleware of a configuration, on the answers of the
// process.
func (g *gateway) newResponseCache(cfg *config.Config) *pipeline.Cache {
	return pipeline.NewCache(cachePolicies(cfg), g.responses, g.metrics)
}

func cachePolicies(cfg *config.Config) pipeline.CachePolicies {
	policies := pipeline.CachePolicies{
		Configurations: map[string]pipeline.CachePolicy{},
		Direct:         pipeline.CachePolicy{TTL: cfg.ResponseCache.TTL},
		MaxEntry:       int(cfg.ResponseCache.MaxEntry),
	}
	for name, c := range cfg.Configurations {
		policy := pipeline.CachePolicy{TTL: cfg.KeepsFor(name)}
		if changes := c.ResponseCache; changes != nil {
			policy.Shared, policy.ToolCalls = changes.Shared, changes.ToolCalls
		}
		if c.Degrade != nil {
			policy.Stale, policy.Message = c.Degrade.Stale, c.Degrade.Message
		}
		policies.Configurations[name] = policy
	}
	return policies
}

// keptResponses is what operators may do to the answers that are kept.
type keptResponses struct{ *gateway }

// Configurations names what answers are kept of; an empty name stands for direct
// targets.
func (k keptResponses) Configurations() []string {
	names := []string{""}
	for name := range k.runtime.Load().cfg.Configurations {
		names = append(names, name)
	}
	return names
}

// Clear forgets the answers of these, and says how many there were.
func (k keptResponses) Clear(ctx context.Context, configurations ...string) (deleted int, err error) {
	for _, name := range configurations {
		n, err := k.responses.Clear(ctx, name)
		deleted += n
		if err != nil {
			return deleted, fmt.Errorf("clear the response cache: %w", err)
		}
	}
	return deleted, nil
}
