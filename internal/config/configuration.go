package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Configuration is what clients name in "model": targets in the order in which
// they are tried, and when to go on to the next.
type Configuration struct {
	Targets       []Target              `yaml:"targets" check:"required" doc:"Tried in this order."`
	FallbackOn    []llm.FailureClass    `yaml:"fallback_on" doc:"Failures that lead to the next target. Our own refusals always do."`
	Timeouts      TimeoutOverrides      `yaml:"timeouts" doc:"Clocks that replace the providers' for this configuration."`
	Limits        Limits                `yaml:"limits" doc:"What all its calls together may use; direct calls of its targets do not count."`
	Context       *ContextAssembler     `yaml:"context,omitempty" doc:"What models should know beside what callers say; absent = nothing. When it cannot be had in time, calls go on without it, marked."`
	ResponseCache *ResponseCacheChanges `yaml:"response_cache,omitempty" doc:"Which answers are given again to the same question; absent = as response_cache says."`
	Degrade       *Degrade              `yaml:"degrade,omitempty" doc:"What callers get when no target answers; absent = the error."`
}

func (c *Configuration) setDefaults() {
	set := llm.DefaultFallback()
	for _, class := range llm.Classes() {
		if set[class] {
			c.FallbackOn = append(c.FallbackOn, class)
		}
	}
}

// Fallback returns the classes that lead to the next target.
func (c Configuration) Fallback() llm.ClassSet {
	set := llm.ClassSet{}
	for _, class := range c.FallbackOn {
		set[class] = true
	}
	return set
}

// TimeoutOverrides are clocks of which each may be left to the provider.
type TimeoutOverrides struct {
	Connect    time.Duration `yaml:"connect,omitempty" check:"over=0s,optional" doc:"Dial and TLS."`
	FirstToken time.Duration `yaml:"first_token,omitempty" check:"over=0s,optional" doc:"Streams: until the first content; reasoning counts."`
	Idle       time.Duration `yaml:"idle,omitempty" check:"over=0s,optional" doc:"Streams: between two reads after the first content."`
	Total      time.Duration `yaml:"total,omitempty" check:"over=0s,optional" doc:"Everything else: until the whole answer is read."`
}

// LLM returns the clocks as a call carries them; zero = the provider's.
func (t TimeoutOverrides) LLM() llm.Timeouts { return llm.Timeouts(t) }

// Target is one model of a provider, or all targets of another configuration.
type Target struct {
	Provider      string `yaml:"provider,omitempty" doc:"Name of a declared provider."`
	Model         string `yaml:"model,omitempty" doc:"Name of one of its models."`
	Configuration string `yaml:"configuration,omitempty" doc:"Name of another configuration whose targets stand here; instead of provider and model."`
}

func (c Configuration) check(r *report, at path, called string) {
	if !r.sound(at) {
		return
	}
	if !isVisible(called) || strings.Contains(called, "/") {
		r.fault(at, "is not a name for a configuration", "use a name without slashes and spaces")
	}
	if r.sound(at.key("targets")) && len(c.Targets) == 0 {
		r.fault(at.key("targets"), "is missing", "name at least one {provider: …, model: …}")
	}
	c.checkTargets(r, at.key("targets"))
	c.checkFallback(r, at.key("fallback_on"))
	c.Limits.check(r, at.key("limits"))
	if c.Context != nil {
		c.Context.check(r, at.key("context"))
	}
}

func (c Configuration) checkTargets(r *report, at path) {
	first := map[Target]path{}
	for i, t := range c.Targets {
		p := at.index(i)
		if !r.sound(p, p.key("provider"), p.key("model"), p.key("configuration")) {
			continue
		}
		t.check(r, p)
		if earlier, twice := first[t]; twice {
			r.fault(p, "is the same target as "+r.place(earlier), "remove one of them")
			continue
		}
		first[t] = p
	}
}

func (t Target) check(r *report, at path) {
	switch direct := t.Provider != "" || t.Model != ""; {
	case t.Configuration != "" && direct:
		r.fault(at, "names both a configuration and a provider's model", "keep one of the two")
	case t.Configuration != "":
	case t.Provider == "":
		r.fault(at.key("provider"), "is missing", "write {provider: …, model: …} or {configuration: …}")
	case t.Model == "":
		r.fault(at.key("model"), "is missing", "name one that the provider declares")
	}
}

func (c Configuration) checkFallback(r *report, at path) {
	seen := llm.ClassSet{}
	for i, class := range c.FallbackOn {
		p := at.index(i)
		switch _, known := llm.FallbackClass(string(class)); {
		case !r.sound(p):
		case !known:
			r.fault(p, "is not a class of failure that may be listed", "use "+strings.Join(fallbackClasses(), ", "))
		case seen[class]:
			r.fault(p, fmt.Sprintf("lists %s a second time", class), "remove it")
		}
		seen[class] = true
	}
}

// fallbackClasses lists what fallback_on may name, in the order of the table.
func fallbackClasses() []string {
	var names []string
	for _, class := range append(llm.Classes(), llm.FallbackOnContextLength) {
		if _, ok := llm.FallbackClass(string(class)); ok {
			names = append(names, string(class))
		}
	}
	return names
}
