package app

import (
	"maps"
	"slices"

	"github.com/breakwater-llm/breakwater/internal/admin"
)

// callers is what clients may name under the running configuration, for the
// page.
func (g *gateway) callers() admin.Callers {
	cfg := g.runtime.Load().cfg
	callers := admin.Callers{Direct: cfg.DirectTargets}
	for _, name := range slices.Sorted(maps.Keys(cfg.Configurations)) {
		callers.Configurations = append(callers.Configurations, admin.Configuration{Name: name, Targets: cfg.Targets(name)})
	}
	return callers
}
