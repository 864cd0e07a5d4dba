package config

import (
	"strings"
	"time"
)

// longestKept is how long an answer may be kept, its stale time included.
const longestKept = 30 * 24 * time.Hour

// ResponseCache is how long answers are given again to the same question.
type ResponseCache struct {
	TTL      time.Duration `yaml:"ttl" check:"min=0s,max=720h" doc:"How long an answer is given again to whoever asks the same; 0 = not at all, unless a configuration says otherwise. Holds for direct targets, too."`
	MaxEntry Size          `yaml:"max_entry" check:"min=1KiB,max=64MiB" doc:"Longest answer that is kept."`
}

func defaultResponseCache() ResponseCache { return ResponseCache{MaxEntry: MiB} }

// ResponseCacheChanges are what holds for one configuration instead.
type ResponseCacheChanges struct {
	TTL       *time.Duration `yaml:"ttl,omitempty" check:"min=0s,max=720h" doc:"Instead of response_cache.ttl; 0 = no answer is given again."`
	Shared    bool           `yaml:"shared" doc:"Whether all API keys share answers; false: each has its own."`
	ToolCalls bool           `yaml:"tool_calls" doc:"Whether answers that call tools are kept, too."`
}

// Degrade is what callers get when no target answers.
type Degrade struct {
	Stale   time.Duration `yaml:"stale,omitempty" check:"min=0s,max=720h,optional" doc:"How long after its time a kept answer is still given then; needs a response cache."`
	Message string        `yaml:"message,omitempty" doc:"A text that is given then, when there is no such answer. Empty = the error."`
}

// KeepsFor returns how long the answers of a configuration are given again; 0 =
// not at all. An empty name stands for direct targets.
func (c *Config) KeepsFor(configuration string) time.Duration {
	if changes := c.Configurations[configuration].ResponseCache; changes != nil && changes.TTL != nil {
		return *changes.TTL
	}
	return c.ResponseCache.TTL
}

// checkDegrade refuses what could never come to pass.
func (c *Config) checkDegrade(r *report) {
	for _, name := range sortedKeys(c.Configurations) {
		d, at := c.Configurations[name].Degrade, path("configurations").key(name)
		stale := at.key("degrade").key("stale")
		if d == nil || !r.sound(at, at.key("degrade"), stale, at.key("response_cache"), at.key("response_cache").key("ttl"), "response_cache", "response_cache.ttl") {
			continue
		}
		switch ttl := c.KeepsFor(name); {
		case d.Stale > 0 && ttl == 0:
			r.fault(stale, "is set, and no answer is ever kept", "give the configuration a response_cache.ttl, or leave stale out")
		case d.Stale+ttl > longestKept:
			r.fault(stale, "and the ttl are over 720h together", "keep answers for at most 30 days in all")
		}
		if message := at.key("degrade").key("message"); d.Message != "" && strings.TrimSpace(d.Message) == "" {
			r.fault(message, "is blank", "write what callers are to read, or leave it out")
		}
	}
}
