package config

import (
	"net/url"
	"strings"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// HealthCheck is how a provider itself is asked whether it is there.
type HealthCheck struct {
	Interval time.Duration `yaml:"interval" check:"min=0s" doc:"Time between two checks; 0 = none are made."`
	Path     string        `yaml:"path" doc:"What is asked for with GET, under base_url, such as /models."`
	Timeout  time.Duration `yaml:"timeout" check:"over=0s" doc:"How long an answer may take."`
}

// shortestInterval keeps a slip of the pen from becoming a load.
const shortestInterval = 100 * time.Millisecond

func (h HealthCheck) check(r *report, at path) {
	interval, under := at.key("interval"), at.key("path")
	if r.sound(interval) && h.Interval > 0 && h.Interval < shortestInterval {
		r.fault(interval, "is too small", "give it at least "+readable(shortestInterval)+", or 0")
	}
	if r.sound(under) && !isPath(h.Path) {
		r.fault(under, "is not a path under base_url", "write one such as /models, without a host, spaces or dots that lead out of it")
	}
}

// isPath reports whether a text can only lead further down from a base URL.
func isPath(text string) bool {
	if text == "" {
		return true
	}
	u, err := url.Parse(text)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || u.Fragment != "" || !isVisible(text) {
		return false
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if part == "." || part == ".." {
			return false
		}
	}
	return true
}

// HealthChecks lists the providers themselves that are asked, in the order of
// their names.
func (c *Config) HealthChecks() []llm.Target {
	var all []llm.Target
	for _, name := range sortedKeys(c.Providers) {
		if p := c.Providers[name]; p.HealthCheck.Interval > 0 {
			all = append(all, llm.HealthTarget(name, p.Region))
		}
	}
	return all
}
