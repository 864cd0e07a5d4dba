package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/contextasm"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
	"github.com/breakwater-llm/breakwater/internal/provider"
)

// assemblers are the clients of context assemblers, by the address that is
// declared: configurations that name the same one share it.
type assemblers map[string]*contextasm.Client

// newAssemblers makes the clients of a configuration. An address that was named
// before keeps its client, and with it the connection.
func (g *gateway) newAssemblers(cfg *config.Config, running assemblers) (assemblers, error) {
	made := assemblers{}
	for _, c := range cfg.Configurations {
		declared, ok := c.ContextAssembler()
		if !ok || made[declared.Address] != nil {
			continue
		}
		if kept := running[declared.Address]; kept != nil {
			made[declared.Address] = kept
			continue
		}
		client, err := g.dialAssembler(declared)
		if err != nil {
			return nil, errors.Join(err, made.closeUnshared(running))
		}
		made[declared.Address] = client
	}
	return made, nil
}

func (g *gateway) dialAssembler(declared config.ContextAssembler) (*contextasm.Client, error) {
	address, secure := declared.Endpoint()
	c := contextasm.Config{Address: address, Dialer: provider.NewDialer(), Circuits: g.circuits}
	if secure {
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return contextasm.Dial(c)
}

// sources says where each configuration gets its context.
func (a assemblers) sources(cfg *config.Config, governing *circuitPolicies) map[string]pipeline.ContextSource {
	sources := map[string]pipeline.ContextSource{}
	for name, c := range cfg.Configurations {
		declared, ok := c.ContextAssembler()
		if !ok {
			continue
		}
		key := config.ContextCircuit(name).Key()
		sources[name] = pipeline.ContextSource{MaxTokens: declared.MaxTokens, Assembler: a[declared.Address].Source(contextasm.Ask{
			Configuration: name, Circuit: key, MaxTokens: declared.MaxTokens,
			Timeout: declared.Timeout, SlowAfter: governing.slowAfter(key, llm.Facts{}),
		})}
	}
	return sources
}

// closeUnshared lets go of the clients that others do not have.
func (a assemblers) closeUnshared(others assemblers) error {
	var failed []error
	for address, client := range a {
		if others[address] != client {
			if err := client.Close(); err != nil {
				failed = append(failed, fmt.Errorf("close the connection to the context assembler at %s: %w", address, err))
			}
		}
	}
	return errors.Join(failed...)
}

// unasked are the declared circuits of context assemblers and of providers
// themselves that nobody has asked yet, or not for a long time. They are shown like those in use: no target of the
// configuration stands for them.
func (d declaredCircuits) unasked(used []breaker.Snapshot) []breaker.Snapshot {
	rt := d.g.runtime.Load()
	var all []breaker.Snapshot
	for _, t := range slices.Concat(rt.cfg.ContextCircuits(), rt.cfg.HealthChecks()) {
		if !slices.ContainsFunc(used, func(s breaker.Snapshot) bool { return s.Key == t.Key() }) {
			all = append(all, breaker.Snapshot{Key: t.Key(), Enabled: rt.policies.settings(t.Key()).Enabled})
		}
	}
	return all
}
