package config

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// BreakerPolicy is what governs one circuit, and why.
type BreakerPolicy struct {
	Profile  string // empty: none, circuit_breaker alone
	Override string // the pattern of the override that chose it; empty: none does
	Place    int    // of the override in breakers; -1: none
	Settings CircuitBreaker
}

// BreakerPolicy returns what governs the circuit of a target: the first
// override that matches it, over that one's profile, over circuit_breaker. Its
// store is never empty, and nothing but a target is asked by canaries. The target
// need not be declared.
func (c *Config) BreakerPolicy(t llm.Target) BreakerPolicy {
	p := c.layered(t)
	if t.IsHealth() || t.Provider == llm.ContextProvider { // there is no model to ask
		p.Settings.Probe.Mode = ProbeTraffic
	}
	p.Settings.Store = c.CircuitStore(p.Settings)
	return p
}

func (c *Config) layered(t llm.Target) BreakerPolicy {
	if t.IsHealth() {
		return BreakerPolicy{Place: -1, Settings: c.ofHealth(c.Providers[t.Provider].HealthCheck)}
	}
	i := c.overrideOf(t)
	if i < 0 {
		return BreakerPolicy{Place: i, Settings: c.CircuitBreaker}
	}
	o := c.Breakers[i]
	return BreakerPolicy{
		Profile: o.Profile, Override: o.Match, Place: i,
		Settings: o.over(c.BreakerProfiles[o.Profile].over(c.CircuitBreaker)),
	}
}

// ofHealth is circuit_breaker for the checks of a provider, which may come so
// rarely that a window made for calls would never show enough of them.
func (c *Config) ofHealth(h HealthCheck) CircuitBreaker {
	b := c.CircuitBreaker
	if b.Window.Type == WindowTime {
		b.Window.Size.Span = max(b.Window.Size.Span, h.Interval*time.Duration(b.MinCalls))
	}
	return b
}

// overrideOf returns the place of the override that governs a target, or -1.
func (c *Config) overrideOf(t llm.Target) int {
	return slices.IndexFunc(c.Breakers, func(o BreakerOverride) bool { return o.matches(t) })
}

// ShowCircuit writes as YAML what governs the circuit with this key,
// provider/model/region, and every setting it comes to. The circuit must be
// that of a declared target or of a context assembler.
func (c *Config) ShowCircuit(w io.Writer, key string) error {
	target, ok := llm.ParseTarget(key)
	if !ok {
		return fmt.Errorf("%q is not the key of a circuit: write provider/model/region", key)
	}
	if !slices.Contains(c.AllCircuits(), target) {
		return fmt.Errorf("no target has the circuit %q: %s", key, suggest(key, c.circuitKeys()))
	}
	err := yaml.NewEncoder(w, yaml.Indent(2)).Encode(c.BreakerPolicy(target).shown(key))
	if err != nil {
		return fmt.Errorf("show what governs a circuit: %w", err)
	}
	return nil
}

func (c *Config) circuitKeys() []string {
	var keys []string
	for _, target := range c.AllCircuits() {
		keys = append(keys, target.Key())
	}
	return keys
}

// shown lists what governs a circuit from the strongest to the weakest, then
// what it comes to.
func (p BreakerPolicy) shown(key string) yaml.MapSlice {
	layers := []string{string(baseSection)}
	if p.Profile != "" {
		layers = append(layers, string(profilesSection.key(p.Profile)))
	}
	if p.Override != "" {
		layers = append(layers, string(overridesSection.index(p.Place)))
	}
	slices.Reverse(layers)
	section := yaml.MapSlice{{Key: "circuit", Value: key}}
	if p.Override != "" {
		section = append(section, yaml.MapItem{Key: "match", Value: p.Override})
	}
	return append(section,
		yaml.MapItem{Key: "governed_by", Value: layers},
		yaml.MapItem{Key: string(baseSection), Value: shown(reflect.ValueOf(p.Settings))})
}
