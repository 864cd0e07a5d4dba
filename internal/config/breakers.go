package config

import (
	globs "path"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// ProfileLLM is the profile that is built in: models that answer slowly and
// fail in part are judged by their last twenty calls, and probed by three.
const ProfileLLM = "llm"

const (
	baseSection      path = "circuit_breaker"
	profilesSection  path = "breaker_profiles"
	overridesSection path = "breakers"
)

// builtInProfiles stand in every configuration. What a file says of one of them
// changes single keys, as it does with all other defaults.
func builtInProfiles() map[string]BreakerChanges {
	return map[string]BreakerChanges{ProfileLLM: {
		FailureRate:      new(Rate(250_000)),
		RateTest:         new("at_least"),
		SlowRate:         new(Rate(500_000)),
		SlowCall:         &SlowCall{Base: 12 * time.Second},
		Window:           &WindowChanges{Type: new(WindowCount), Size: &WindowSize{Calls: 20}},
		HalfOpenCalls:    new(3),
		SuccessThreshold: new(3),
		SoftThrottle:     &SoftThrottleChanges{Enabled: new(false)}, // it goes by a rate
	}}
}

// BreakerOverride says by what the circuits that it matches are governed: the
// keys written here, else those of the profile, else those of circuit_breaker.
type BreakerOverride struct {
	Match   string `yaml:"match" check:"required,glob" doc:"Which circuits: provider/model/region with * for anything, ? for one character and [a-z] for one of them. In the model part * stands for slashes, too."`
	Profile string `yaml:"profile,omitempty" doc:"Name of a profile."`
	BreakerChanges
}

// matches reports whether the override is about a target.
func (o BreakerOverride) matches(t llm.Target) bool {
	pattern, _ := llm.ParseTarget(o.Match)
	return likens(pattern.Provider, t.Provider) && likens(pattern.Model, t.Model) && likens(pattern.Region, t.Region)
}

// reachesContext reports whether the override may be about context assemblers,
// which stand in configurations.
func (o BreakerOverride) reachesContext() bool {
	pattern, _ := llm.ParseTarget(o.Match)
	return likens(pattern.Provider, llm.ContextProvider)
}

// likens holds a name against a glob in which a slash is a character as any.
func likens(glob, name string) bool {
	like, _ := globs.Match(unslashed(glob), unslashed(name))
	return like
}

func unslashed(s string) string { return strings.ReplaceAll(s, "/", "\x00") }

// globPattern is as much of a pattern's form as an editor can see.
const globPattern = `^[^/]+/.+/[^/]+$`

// isGlob reports whether a text is a pattern that some target could match.
func isGlob(text string) bool {
	pattern, ok := llm.ParseTarget(text)
	return ok && isVisible(text) && !slices.ContainsFunc([]string{pattern.Provider, pattern.Model, pattern.Region}, func(part string) bool {
		_, err := globs.Match(unslashed(part), "")
		return err != nil
	})
}

// checkProfiles holds circuit_breaker with each profile on it to the rules of
// circuit_breaker alone.
func (c *Config) checkProfiles(r *report) {
	for _, name := range sortedKeys(c.BreakerProfiles) {
		at := profilesSection.key(name)
		if !plainName.MatchString(name) {
			r.fault(at, "is not a name for a profile", "use a-z, 0-9 and - only")
		}
		if r.faultless(baseSection) && r.sound(at) {
			c.BreakerProfiles[name].over(c.CircuitBreaker).check(r, at)
		}
	}
}

func (c *Config) checkOverrides(r *report) {
	readable, governed := r.faultless("providers"), c.governed()
	for i, o := range c.Breakers {
		at := overridesSection.index(i)
		if !r.sound(at) {
			continue
		}
		c.checkPolicy(r, at, o)
		if readable && r.sound(at.key("match")) && (!o.reachesContext() || r.faultless("configurations")) {
			o.checkReach(r, at.key("match"), i, governed)
		}
	}
}

// checkPolicy holds what an override comes to, to the rules of circuit_breaker.
// What is wrong below it was said there.
func (c *Config) checkPolicy(r *report, at path, o BreakerOverride) {
	profile, known := c.BreakerProfiles[o.Profile]
	if !known && o.Profile != "" && r.sound(at.key("profile"), profilesSection) {
		r.fault(at.key("profile"), r.names(at.key("profile"), o.Profile)+", which is not declared", suggest(o.Profile, sortedKeys(c.BreakerProfiles)))
	}
	if known && !r.faultless(profilesSection.key(o.Profile)) || !r.faultless(baseSection) {
		return
	}
	o.over(profile.over(c.CircuitBreaker)).check(r, at)
}

// governed is a declared target and the place of the override that governs it.
type governed struct {
	target llm.Target
	by     int // -1: none
}

func (c *Config) governed() []governed {
	var all []governed
	for _, target := range c.AllCircuits() {
		if !target.IsHealth() {
			all = append(all, governed{target, c.overrideOf(target)})
		}
	}
	return all
}

// checkReach refuses an override that governs no circuit: of a name that is
// misspelt, or of targets that earlier ones have taken.
func (o BreakerOverride) checkReach(r *report, at path, i int, all []governed) {
	var earlier []string
	for _, g := range all {
		if g.by == i {
			return
		}
		if !o.matches(g.target) {
			continue
		}
		if place := r.place(overridesSection.index(g.by)); !slices.Contains(earlier, place) {
			earlier = append(earlier, place)
		}
	}
	if len(earlier) == 0 {
		r.fault(at, "matches no declared target", "correct it, or remove the element")
		return
	}
	r.fault(at, "matches only targets that are matched before, by "+strings.Join(earlier, " and "), "put the narrower pattern first, or remove one of them")
}
