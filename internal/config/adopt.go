package config

import (
	"maps"
	"reflect"
	"slices"
)

// Adopt returns what a running process can take over of next. Keys that only a
// restart can bring into effect keep the values of c, and their paths are
// returned where next has other ones. They are marked `change:"restart"` where
// they are declared; keys that one rule ties together are marked alike, so what
// comes back is valid when c and next are. Neither is changed.
func (c *Config) Adopt(next *Config) (adopted *Config, waiting []string) {
	mixed := *next
	waiting = keep("", reflect.ValueOf(c).Elem(), reflect.ValueOf(&mixed).Elem(), false)
	return &mixed, append(waiting, mixed.keepStores(c)...)
}

// keepStores takes shared stores out of a configuration whose cache is not
// shared yet; they wait for it, and their paths are returned.
func (c *Config) keepStores(running *Config) (waiting []string) {
	if c.Cache.URL.IsSet() {
		return nil
	}
	if isShared(c.CircuitBreaker.Store) {
		c.CircuitBreaker.Store = running.CircuitBreaker.Store
		waiting = append(waiting, string(baseSection.key("store")))
	}
	c.BreakerProfiles, c.Breakers = maps.Clone(c.BreakerProfiles), slices.Clone(c.Breakers)
	for _, name := range sortedKeys(c.BreakerProfiles) {
		if p := c.BreakerProfiles[name]; p.Store != nil && isShared(*p.Store) {
			p.Store = nil
			c.BreakerProfiles[name] = p
			waiting = append(waiting, string(profilesSection.key(name).key("store")))
		}
	}
	for i, o := range c.Breakers {
		if o.Store != nil && isShared(*o.Store) {
			c.Breakers[i].Store = nil
			waiting = append(waiting, string(overridesSection.index(i).key("store")))
		}
	}
	return waiting
}

// keep gives the keys of a section that need a restart their running values.
func keep(at path, running, section reflect.Value, restart bool) (waiting []string) {
	for _, f := range fieldsOf(section.Type()) {
		was, is, p := f.of(running), f.of(section), at.key(f.name)
		switch bound := restart || f.restart; {
		case is.Kind() == reflect.Struct && !isLeaf(is.Type()):
			waiting = append(waiting, keep(p, was, is, bound)...)
		case bound && !reflect.DeepEqual(was.Interface(), is.Interface()):
			is.Set(was)
			waiting = append(waiting, string(p))
		}
	}
	return waiting
}

// Equal reports whether two configurations say the same, references resolved.
func (c *Config) Equal(other *Config) bool { return reflect.DeepEqual(c, other) }
