package config

import (
	"net"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// ContextAssembler is where a configuration gets what its models should know
// beside what callers say.
type ContextAssembler struct {
	Address   string        `yaml:"address" doc:"host:port of a gRPC service breakwater.context.v1.ContextAssembler, or grpcs://host:port for TLS. Empty = none."`
	Timeout   time.Duration `yaml:"timeout" check:"over=0s" doc:"How long a call waits for it; then it goes on without."`
	MaxTokens int           `yaml:"max_tokens" check:"min=1,max=100000" doc:"Most that it may add to a request, at four bytes a token; messages beyond are left out."`
}

func (c *ContextAssembler) setDefaults() {
	*c = ContextAssembler{Timeout: 250 * time.Millisecond, MaxTokens: 1000}
}

const tlsScheme = "grpcs://"

// Endpoint is host and port, and whether TLS is spoken there.
func (c ContextAssembler) Endpoint() (address string, secure bool) {
	address, secure = strings.CutPrefix(c.Address, tlsScheme)
	return address, secure
}

// check takes an empty section, or an empty address, for none; what is said of
// one that is not named is a slip.
func (c ContextAssembler) check(r *report, at path) {
	address := at.key("address")
	if !r.sound(at, address) {
		return
	}
	endpoint, _ := c.Endpoint()
	host, port, err := net.SplitHostPort(endpoint)
	switch {
	case c.Address == "" && !r.written(address) && (r.written(at.key("timeout")) || r.written(at.key("max_tokens"))):
		r.fault(at, "names no address", "give it an address, or write {}")
	case c.Address == "":
	case err != nil || port == "" || !isPort(port) || !isVisible(host) || strings.ContainsAny(host, "/@?#"):
		r.fault(address, "is not the address of a gRPC service", "write host:port, or grpcs://host:port for TLS")
	default:
		if problem, remedy := refuseHost(host); problem != "" {
			r.fault(address, problem, strings.Replace(remedy, "provider", "service", 1))
		}
	}
}

// ContextAssembler returns where a configuration gets its context; false: from
// nowhere.
func (c Configuration) ContextAssembler() (ContextAssembler, bool) {
	if c.Context == nil || c.Context.Address == "" {
		return ContextAssembler{}, false
	}
	return *c.Context, true
}

// ContextCircuit is what the circuit in front of a configuration's context
// assembler is called.
func ContextCircuit(configuration string) llm.Target {
	return llm.Target{Provider: llm.ContextProvider, Model: configuration, Region: "default"}
}

// ContextCircuits lists the circuits in front of context assemblers, in the order
// of their configurations.
func (c *Config) ContextCircuits() []llm.Target {
	var all []llm.Target
	for _, name := range sortedKeys(c.Configurations) {
		if _, ok := c.Configurations[name].ContextAssembler(); ok {
			all = append(all, ContextCircuit(name))
		}
	}
	return all
}

// AllCircuits lists the circuits of all targets, those in front of context
// assemblers, and those of providers that are checked themselves.
func (c *Config) AllCircuits() []llm.Target {
	return slices.Concat(c.AllTargets(), c.ContextCircuits(), c.HealthChecks())
}
