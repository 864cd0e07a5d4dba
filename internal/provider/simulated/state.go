// Package simulated is a model that runs in process: it answers in the OpenAI
// dialect, and fails on demand in the ways real ones do. It stands behind the
// same client as a real server, so what is seen with it is what happens with
// one. It must not know who switches it.
package simulated

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Mode is how the model behaves.
type Mode string

// The modes.
const (
	ModeOK        Mode = "ok"
	ModeError     Mode = "error"      // answers with Status
	ModeHang      Mode = "hang"       // accepts the call and never answers
	ModeReset     Mode = "reset"      // drops the connection before an answer
	ModeRateLimit Mode = "rate_limit" // answers 429
	ModeCut       Mode = "cut"        // drops the connection in the middle of an answer
	ModeSlow      Mode = "slow"       // answers at a tenth of its speed
)

// Modes lists every mode.
func Modes() []Mode {
	return []Mode{ModeOK, ModeError, ModeHang, ModeReset, ModeRateLimit, ModeCut, ModeSlow}
}

// State is what the model does now.
type State struct {
	Mode            Mode
	Status          int           // of an answer in mode error, and of the share that fails in mode ok
	RetryAfter      time.Duration // sent with errors and rate limits; 0 = not sent
	Latency         time.Duration // before the first word
	TokensPerSecond float64       // 0 = all words at once
	// FailureRate is the share of calls that fail, evenly spread. In mode ok it
	// is that share; in any other mode it is the share that the mode hits, and
	// 0 means every call.
	FailureRate float64
}

// DefaultState is a healthy, brisk model.
func DefaultState() State {
	return State{Mode: ModeOK, Status: 503, Latency: 50 * time.Millisecond, TokensPerSecond: 50}
}

// Validate returns every fault of the state, joined.
func (s State) Validate() error {
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	fault(!slices.Contains(Modes(), s.Mode), "mode %q is none of %v", s.Mode, Modes())
	fault(s.Status < 400 || s.Status > 599, "status %d is no error status (400 to 599)", s.Status)
	fault(s.RetryAfter < 0, "retry_after %v is negative", s.RetryAfter)
	fault(s.Latency < 0, "latency %v is negative", s.Latency)
	fault(!(s.TokensPerSecond >= 0 && s.TokensPerSecond <= maxSpeed), "tokens_per_second %v is not between 0 and %v", s.TokensPerSecond, float64(maxSpeed))
	fault(!(s.FailureRate >= 0 && s.FailureRate <= 1), "failure_rate %v is not between 0 and 1", s.FailureRate)
	return errors.Join(faults...)
}

const maxSpeed = 1e6

// Model is the state of one simulated provider. It outlives reloads of the
// configuration: clients come and go, the switch stays where it was put.
type Model struct {
	mu    sync.Mutex
	state State
	debt  float64 // failures owed, for an even spread
}

// NewModel returns a model in the given state.
func NewModel(s State) *Model { return &Model{state: s} }

// Get returns the state.
func (m *Model) Get() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// Set changes the state for calls that begin from now on. It returns what
// Validate finds wrong and changes nothing then.
func (m *Model) Set(s State) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("set the simulated state: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.debt = s, 0
	return nil
}

// next returns the state that governs the next call: the mode is the one that
// this very call gets.
func (m *Model) next() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state
	hit, share := s.Mode, s.FailureRate
	if s.Mode == ModeOK {
		hit = ModeError
	} else if share == 0 {
		share = 1
	}
	m.debt += share
	s.Mode = ModeOK
	if m.debt > 1-1e-9 {
		m.debt--
		s.Mode = hit
	}
	return s
}
