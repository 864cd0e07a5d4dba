package app

import (
	"errors"
	"fmt"
	"sync"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/provider/simulated"
)

// simulators keeps the simulated models over reloads of the configuration, so
// that a switch an operator set stays where it was put.
type simulators struct {
	mu     sync.Mutex
	models map[string]*simulation
}

// simulation is a simulated model and what the configuration says of it.
type simulation struct {
	*simulated.Model
	declared config.Simulated
}

// model returns the model of a provider, made as declared when it is new.
func (s *simulators) model(provider string, declared *config.Simulated) *simulated.Model {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.models == nil {
		s.models = map[string]*simulation{}
	}
	if m, ok := s.models[provider]; ok {
		return m.Model
	}
	m := &simulation{Model: simulated.NewModel(stateOf(declared)), declared: *declared}
	s.models[provider] = m
	return m.Model
}

// declare takes over what has changed in the configuration: a model of which it
// says something new behaves so from now on, one that it no longer names is let
// go.
func (s *simulators) declare(cfg *config.Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var faults []error
	for name, m := range s.models {
		declared := cfg.Providers[name].Simulated
		switch {
		case declared == nil:
			delete(s.models, name)
		case m.declared != *declared:
			m.declared = *declared
			faults = append(faults, m.Set(stateOf(declared)))
		}
	}
	return errors.Join(faults...)
}

func stateOf(declared *config.Simulated) simulated.State {
	return simulated.State{
		Mode:            simulated.Mode(declared.Mode),
		Status:          declared.Status,
		RetryAfter:      declared.RetryAfter,
		Latency:         declared.Latency,
		TokensPerSecond: declared.TokensPerSecond,
		FailureRate:     declared.FailureRate,
	}
}

func (s *simulators) find(provider string) (*simulation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.models[provider]
	return m, ok
}

// Simulation returns how a simulated provider behaves.
func (s *simulators) Simulation(provider string) (api.Simulation, bool) {
	m, ok := s.find(provider)
	if !ok {
		return api.Simulation{}, false
	}
	state := m.Get()
	return api.Simulation{
		Mode:            string(state.Mode),
		Status:          state.Status,
		RetryAfter:      state.RetryAfter,
		Latency:         state.Latency,
		TokensPerSecond: state.TokensPerSecond,
		FailureRate:     state.FailureRate,
	}, true
}

// Simulate changes how a simulated provider behaves.
func (s *simulators) Simulate(provider string, next api.Simulation) error {
	m, ok := s.find(provider)
	if !ok {
		return fmt.Errorf("no simulated provider is named %q", provider)
	}
	return m.Set(simulated.State{
		Mode:            simulated.Mode(next.Mode),
		Status:          next.Status,
		RetryAfter:      next.RetryAfter,
		Latency:         next.Latency,
		TokensPerSecond: next.TokensPerSecond,
		FailureRate:     next.FailureRate,
	})
}
