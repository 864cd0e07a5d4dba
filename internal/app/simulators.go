package app

import (
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
	models map[string]*simulated.Model
}

// model returns the model of a provider, made as configured when it is new.
func (s *simulators) model(provider string, cfg *config.Simulated) *simulated.Model {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.models == nil {
		s.models = map[string]*simulated.Model{}
	}
	if m, ok := s.models[provider]; ok {
		return m
	}
	m := simulated.NewModel(simulated.State{
		Mode:            simulated.Mode(cfg.Mode),
		Status:          cfg.Status,
		RetryAfter:      cfg.RetryAfter,
		Latency:         cfg.Latency,
		TokensPerSecond: cfg.TokensPerSecond,
		FailureRate:     cfg.FailureRate,
	})
	s.models[provider] = m
	return m
}

func (s *simulators) find(provider string) (*simulated.Model, bool) {
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
