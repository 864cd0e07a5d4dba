// Package config reads the one file that declares what the gateway is: its
// listeners, its database, its providers and what clients may ask for. It is
// strict: unknown and repeated keys, wrong types, empty sections, dangling
// references and impossible numbers are all reported together, each with its
// line and path, and a file with a fault gives no Config at all.
//
// The package must not know who uses what it reads: it opens no connection,
// resolves no name, and makes no client, pool or breaker.
package config

import (
	"maps"
	"os"
	"slices"
)

// Config is everything that people declare. A Config that came from Load or
// Parse is valid; one that was put together in code is once Validate says so.
type Config struct {
	Server          Server                    `yaml:"server" doc:"The two listeners and the limits of a request."`
	Log             Log                       `yaml:"log" doc:"What the gateway says about itself."`
	Database        Database                  `yaml:"database" check:"required" change:"restart" doc:"The Postgres that keeps telemetry."`
	Cache           Cache                     `yaml:"cache" change:"restart" doc:"Where what is transient is kept, and shared between replicas."`
	Auth            Auth                      `yaml:"auth" check:"required" doc:"Who may call."`
	Telemetry       Telemetry                 `yaml:"telemetry" doc:"The record of every call."`
	Health          Health                    `yaml:"health" doc:"Scores of providers, read from telemetry."`
	CircuitBreaker  CircuitBreaker            `yaml:"circuit_breaker" doc:"When a failing target is left alone, and for how long."`
	BreakerProfiles map[string]BreakerChanges `yaml:"breaker_profiles" check:"name" doc:"Sets of other values for keys of circuit_breaker, by name; llm is built in. A name is made of a-z, 0-9 and -."`
	Breakers        []BreakerOverride         `yaml:"breakers" doc:"Which circuits are governed by other values; the first that matches a circuit governs it."`
	Providers       map[string]Provider       `yaml:"providers" check:"name" doc:"The upstreams by name; a name is made of a-z, 0-9 and -."`
	Configurations  map[string]Configuration  `yaml:"configurations" doc:"What clients name in \"model\"; a name holds no slash."`
	DirectTargets   bool                      `yaml:"direct_targets" doc:"Whether clients may name \"provider/model\" of a declared model."`
}

// Default returns the configuration of an empty file. It is not valid yet:
// the database and auth.mode have no default.
func Default() *Config { return defaults(os.Geteuid() == 0) }

func defaults(root bool) *Config {
	return &Config{
		Server:          defaultServer(),
		Log:             Log{Level: "info", Format: "text"},
		Database:        defaultDatabase(root),
		Cache:           defaultCache(),
		Telemetry:       defaultTelemetry(),
		Health:          defaultHealth(),
		CircuitBreaker:  defaultCircuitBreaker(),
		BreakerProfiles: builtInProfiles(),
		DirectTargets:   true,
	}
}

// Parse reads and checks a configuration; name stands for the file in faults,
// and env resolves ${VAR} as os.LookupEnv does. An error is always Faults.
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, error) {
	return parse(name, data, env, Default())
}

// parse fills c, which holds the defaults. What was decoded is checked even
// where other parts could not be, so that all faults are found in one go.
func parse(name string, data []byte, env func(string) (string, bool), c *Config) (*Config, error) {
	r := newReport(name)
	decodeDocument(data, env, r, c)
	c.complete()
	c.check(r)
	if err := r.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// Validate checks a configuration made in code and returns Faults without
// lines, or nil.
func (c *Config) Validate() error {
	r := newReport("")
	c.check(r)
	return r.err()
}

// complete fills in what depends on another key.
func (c *Config) complete() {
	for name, p := range c.Providers {
		p.complete()
		c.Providers[name] = p
	}
}

// check applies the rules that stand beside each key, then those that look at
// several keys.
func (c *Config) check(r *report) {
	checkRules(r, "", c)
	c.Server.check(r)
	c.Database.check(r)
	c.Cache.check(r)
	c.Health.check(r)
	c.CircuitBreaker.check(r, baseSection)
	c.checkProfiles(r)
	c.checkOverrides(r)
	c.checkStores(r)
	for _, name := range sortedKeys(c.Providers) {
		c.Providers[name].check(r, path("providers").key(name), name)
	}
	for _, name := range sortedKeys(c.Configurations) {
		c.Configurations[name].check(r, path("configurations").key(name), name)
	}
	c.checkReferences(r)
	c.checkCycles(r)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
