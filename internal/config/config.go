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
	Auth            Auth                      `yaml:"auth" doc:"Who may call."`
	Telemetry       Telemetry                 `yaml:"telemetry" doc:"The record of every call."`
	Budget          Budget                    `yaml:"budget" doc:"How the limits of configurations and API keys are counted."`
	Health          Health                    `yaml:"health" doc:"Scores of providers, read from telemetry."`
	Idempotency     Idempotency               `yaml:"idempotency" doc:"What becomes of calls that carry an Idempotency-Key."`
	ResponseCache   ResponseCache             `yaml:"response_cache" doc:"Answers that are given again to the same question."`
	CircuitBreaker  CircuitBreaker            `yaml:"circuit_breaker" doc:"When a failing target is left alone, and for how long."`
	BreakerProfiles map[string]BreakerChanges `yaml:"breaker_profiles" check:"name" doc:"Sets of other values for keys of circuit_breaker, by name; llm is built in. A name is made of a-z, 0-9 and -."`
	Breakers        []BreakerOverride         `yaml:"breakers" doc:"Which circuits are governed by other values; the first that matches a circuit governs it."`
	Prices          Prices                    `yaml:"prices" doc:"Prices that are not written beside a model."`
	Providers       map[string]Provider       `yaml:"providers" check:"name" doc:"The upstreams by name; a name is made of a-z, 0-9 and -."`
	Configurations  map[string]Configuration  `yaml:"configurations" doc:"What clients name in \"model\"; a name holds no slash."`
	DirectTargets   bool                      `yaml:"direct_targets" doc:"Whether clients may name \"provider/model\" of a declared model."`
}

// Default returns the configuration of an empty file. It is not valid yet: the
// database has no default.
func Default() *Config { return defaults(os.Geteuid() == 0) }

func defaults(root bool) *Config {
	return &Config{
		Server:          defaultServer(),
		Log:             Log{Level: "info", Format: "text"},
		Database:        defaultDatabase(root),
		Cache:           defaultCache(),
		Auth:            defaultAuth(),
		Telemetry:       defaultTelemetry(),
		Budget:          defaultBudget(),
		Health:          defaultHealth(),
		Idempotency:     defaultIdempotency(),
		ResponseCache:   defaultResponseCache(),
		CircuitBreaker:  defaultCircuitBreaker(),
		BreakerProfiles: builtInProfiles(),
		DirectTargets:   true,
	}
}

// Parse reads and checks a configuration; name stands for the file in faults,
// and env resolves ${VAR} as os.LookupEnv does. It opens no file: what
// prices.file names, Load reads. An error is always Faults.
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, error) {
	c, r := parse(name, data, env, Default())
	if err := r.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// parse fills c, which holds the defaults. What was decoded is checked even
// where other parts could not be, so that all faults are found in one go.
func parse(name string, data []byte, env func(string) (string, bool), c *Config) (*Config, *report) {
	r := newReport(name)
	decodeDocument(data, env, r, c)
	c.complete()
	c.check(r)
	return c, r
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
	c.Server.check(r, c.Auth)
	c.Auth.check(r)
	c.Database.check(r)
	c.Cache.check(r)
	c.Budget.check(r)
	c.Health.check(r)
	c.CircuitBreaker.check(r, baseSection)
	c.checkProfiles(r)
	c.checkOverrides(r)
	c.checkStores(r)
	c.checkDegrade(r)
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
