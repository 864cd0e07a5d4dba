package config

import (
	"slices"
	"strings"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Target returns the target that a provider's model is. It reports false
// unless both are declared.
func (c *Config) Target(provider, model string) (llm.Target, bool) {
	p, ok := c.Providers[provider]
	if !ok {
		return llm.Target{}, false
	}
	_, ok = p.Models[model]
	return llm.Target{Provider: provider, Model: model, Region: p.Region}, ok
}

// AllTargets returns every declared model of every provider, in the order of
// their names.
func (c *Config) AllTargets() []llm.Target {
	var all []llm.Target
	for _, provider := range sortedKeys(c.Providers) {
		for _, model := range sortedKeys(c.Providers[provider].Models) {
			all = append(all, llm.Target{Provider: provider, Model: model, Region: c.Providers[provider].Region})
		}
	}
	return all
}

// Targets returns the candidates of a configuration in order: those of
// configurations it names stand in their place, and each target appears once,
// where it came first. It returns nil for a name that is not declared.
func (c *Config) Targets(configuration string) []llm.Target {
	return c.expand(nil, configuration, map[string]bool{})
}

func (c *Config) expand(into []llm.Target, configuration string, expanded map[string]bool) []llm.Target {
	if expanded[configuration] {
		return into
	}
	expanded[configuration] = true
	for _, t := range c.Configurations[configuration].Targets {
		if t.Configuration != "" {
			into = c.expand(into, t.Configuration, expanded)
			continue
		}
		if target, ok := c.Target(t.Provider, t.Model); ok && !slices.Contains(into, target) {
			into = append(into, target)
		}
	}
	return into
}

// checkReferences looks up what targets name. What could not be read is not
// missed a second time.
func (c *Config) checkReferences(r *report) {
	for _, name := range sortedKeys(c.Configurations) {
		at := path("configurations").key(name).key("targets")
		for i, t := range c.Configurations[name].Targets {
			if r.sound(at.index(i)) {
				c.checkReference(r, at.index(i), t)
			}
		}
	}
}

func (c *Config) checkReference(r *report, at path, t Target) {
	if t.Configuration != "" {
		if _, ok := c.Configurations[t.Configuration]; !ok {
			r.fault(at.key("configuration"), r.names(at.key("configuration"), t.Configuration)+", which is not declared", suggest(t.Configuration, sortedKeys(c.Configurations)))
		}
		return
	}
	if t.Provider == "" || !r.sound("providers", path("providers").key(t.Provider)) {
		return
	}
	provider, ok := c.Providers[t.Provider]
	if !ok {
		r.fault(at.key("provider"), r.names(at.key("provider"), t.Provider)+", which is not declared", suggest(t.Provider, sortedKeys(c.Providers)))
		return
	}
	if _, ok := provider.Models[t.Model]; !ok && t.Model != "" && r.sound(path("providers").key(t.Provider).key("models")) {
		r.fault(at.key("model"), r.names(at.key("model"), t.Model)+", which provider "+t.Provider+" does not declare", suggest(t.Model, sortedKeys(provider.Models)))
	}
}

// checkCycles refuses configurations that lead back to themselves, once per
// reference that closes a circle.
func (c *Config) checkCycles(r *report) {
	done := map[string]bool{}
	for _, name := range sortedKeys(c.Configurations) {
		c.walkCycles(r, name, nil, done)
	}
}

func (c *Config) walkCycles(r *report, name string, way []string, done map[string]bool) {
	if done[name] {
		return
	}
	way = append(way, name)
	for i, t := range c.Configurations[name].Targets {
		if from := slices.Index(way, t.Configuration); from >= 0 {
			circle := strings.Join(append(slices.Clone(way[from:]), t.Configuration), " -> ")
			r.fault(path("configurations").key(name).key("targets").index(i).key("configuration"), "leads in a circle: "+circle, "break the circle")
			continue
		}
		if t.Configuration != "" {
			c.walkCycles(r, t.Configuration, way, done)
		}
	}
	done[name] = true
}
