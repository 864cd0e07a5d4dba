package app

import (
	"fmt"
	"reflect"

	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/provider"
	"github.com/breakwater-llm/breakwater/internal/provider/openai"
	"github.com/breakwater-llm/breakwater/internal/provider/simulated"
	wire "github.com/breakwater-llm/breakwater/internal/wire/openai"
)

// clients are the upstream clients of a runtime, by the provider's name.
type clients map[string]provider.Client

// newClients makes the clients of a configuration. A provider that is called as
// it was before keeps its client, and with it the connections that are open.
func (g *gateway) newClients(cfg *config.Config, running *runtime) (clients, error) {
	made := clients{}
	for name, p := range cfg.Providers {
		if kept, ok := running.client(name, p); ok {
			made[name] = kept
			continue
		}
		client, err := g.newClient(name, p)
		if err != nil {
			return nil, fmt.Errorf("provider %s: %w", name, err)
		}
		made[name] = client
	}
	return made, nil
}

func (g *gateway) newClient(name string, p config.Provider) (provider.Client, error) {
	if p.Kind == config.KindSimulated {
		return simulated.New(g.simulators.model(name, p.Simulated), p.Timeouts.LLM())
	}
	return openai.New(openai.Config{
		BaseURL:     p.BaseURL,
		Health:      p.HealthCheck.Path,
		Keys:        provider.NewKeys(p.Credentials(), g.holds),
		Timeouts:    p.Timeouts.LLM(),
		OutputField: wire.OutputField(p.OutputLimit),
	})
}

// client returns the client of a provider that is called in the same way.
func (r *runtime) client(name string, p config.Provider) (provider.Client, bool) {
	if r == nil {
		return nil, false
	}
	was, ok := r.cfg.Providers[name]
	if !ok || !reflect.DeepEqual(callOf(was), callOf(p)) {
		return nil, false
	}
	return r.clients[name], true
}

// callOf leaves out of a provider what its client does not know: what is served
// there, and how the pipeline goes about it.
func callOf(p config.Provider) config.Provider {
	p.Models, p.Retry, p.MaxConcurrent = nil, config.Retry{}, 0
	p.HealthCheck = config.HealthCheck{Path: p.HealthCheck.Path}
	return p
}

// closeUnshared lets go of the clients that others do not have.
func (c clients) closeUnshared(others clients) {
	for name, client := range c {
		if others[name] != client {
			client.Close()
		}
	}
}
