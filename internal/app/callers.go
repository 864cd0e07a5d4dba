package app

import (
	"maps"
	"slices"

	"github.com/breakwater-llm/breakwater/internal/admin"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// callers is what clients may name under the running configuration, for the
// page.
func (g *gateway) callers() admin.Callers {
	cfg := g.runtime.Load().cfg
	policies := cachePolicies(cfg)
	callers := admin.Callers{Direct: cfg.DirectTargets, DirectNeed: need(policies.Direct)}
	for _, name := range slices.Sorted(maps.Keys(cfg.Configurations)) {
		callers.Configurations = append(callers.Configurations, admin.Configuration{
			Name: name, Targets: cfg.Targets(name), Need: need(policies.Configurations[name]),
		})
	}
	return callers
}

// need is what callers get under a policy when no target answers them.
func need(p pipeline.CachePolicy) admin.Need {
	return admin.Need{Kept: p.TTL > 0, Stale: p.Stale > 0, Message: p.Message != ""}
}
