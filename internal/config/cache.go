package config

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Cache is where what is transient is kept: circuits, and whatever else replicas
// have to agree on for a while.
type Cache struct {
	URL       Secret        `yaml:"url,omitempty" doc:"A Valkey or Redis that all replicas share: redis://, rediss://, valkey:// or valkeys://user:password@host:port/database; further nodes of a cluster follow as ?addr=host:port. Empty = in process, each replica by itself."`
	Timeout   time.Duration `yaml:"timeout" check:"over=0s" doc:"Longest time that one step of it may take; what a call waits for gets two fifths of it."`
	MaxMemory Size          `yaml:"max_memory" check:"min=1MiB" doc:"What the cache in process may hold."`
}

func defaultCache() Cache {
	return Cache{Timeout: 25 * time.Millisecond, MaxMemory: 256 * MiB}
}

// cacheSchemes are those of servers that all speak alike.
var cacheSchemes = []string{"redis", "rediss", "valkey", "valkeys"}

func (c Cache) check(r *report) {
	if !r.sound("cache", "cache.url") || c.URL.Reveal() == "" {
		return
	}
	if !isCacheURL(c.URL.Reveal()) {
		r.fault("cache.url", "is not the address of a Valkey or Redis", "write redis://user:password@host:6379/0, or rediss:// with TLS; a password's reserved characters are escaped, such as %40 for @")
	}
}

// isCacheURL holds an address to what the cache can read.
func isCacheURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || !slices.Contains(cacheSchemes, u.Scheme) || u.Hostname() == "" || !holdsPort(u.Host) || u.Fragment != "" {
		return false
	}
	if database := strings.Trim(u.Path, "/"); database != "" {
		if _, err := strconv.ParseUint(database, 10, 16); err != nil {
			return false
		}
	}
	for name, nodes := range u.Query() {
		if name != "addr" || slices.ContainsFunc(nodes, func(node string) bool { return node == "" || strings.Contains(node, "@") || !holdsPort(node) }) {
			return false
		}
	}
	return true
}

// holdsPort reports whether a host has a port that can be one, or none at all.
func holdsPort(host string) bool {
	_, port, err := net.SplitHostPort(host)
	return err != nil || isPort(port)
}

// With whom circuits are shared.
const (
	StoreLocal  = "local"
	StoreCached = "cached"
	StoreStrict = "strict"
)

// CircuitStore returns with whom circuits that these settings govern are shared:
// what they say, else with all replicas where there is a cache for it.
func (c *Config) CircuitStore(b CircuitBreaker) string {
	switch {
	case b.Store != "":
		return b.Store
	case c.Cache.URL.Reveal() != "":
		return StoreCached
	default:
		return StoreLocal
	}
}

// isShared reports whether a store is one that replicas share.
func isShared(store string) bool { return store == StoreCached || store == StoreStrict }

// checkStores refuses to share circuits with nothing to share them on.
func (c *Config) checkStores(r *report) {
	if !r.sound("cache.url") || c.Cache.URL.Reveal() != "" {
		return
	}
	refuse := func(at path, store string) {
		if isShared(store) {
			r.fault(at.key("store"), "is "+store+" while cache.url is empty", "name a Valkey or Redis in cache.url, or write store: local")
		}
	}
	refuse(baseSection, c.CircuitBreaker.Store)
	for _, name := range sortedKeys(c.BreakerProfiles) {
		if s := c.BreakerProfiles[name].Store; s != nil {
			refuse(profilesSection.key(name), *s)
		}
	}
	for i, o := range c.Breakers {
		if o.Store != nil {
			refuse(overridesSection.index(i), *o.Store)
		}
	}
}
