package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/goccy/go-yaml"
)

// scenario is what happens to a provider and what may come of it.
type scenario struct {
	Rate     int     `yaml:"rate"`     // calls per second
	Provider string  `yaml:"provider"` // the simulated one that is hurt
	Circuit  string  `yaml:"circuit"`  // the one that guards it
	Fallback string  `yaml:"fallback"` // configuration with a second target
	Alone    string  `yaml:"alone"`    // configuration without
	Phases   []phase `yaml:"phases"`
}

// phase is a time in which a provider behaves in one way. A bound that is not
// written is none, but for Failed.
type phase struct {
	Name     string         `yaml:"name"`
	For      time.Duration  `yaml:"for"`
	Set      map[string]any `yaml:"set"` // as PUT /api/v1/simulated/{provider} takes it; nothing = well
	Opens    time.Duration  `yaml:"opens"`
	Closes   time.Duration  `yaml:"closes"`
	Failed   float64        `yaml:"failed"` // share of the calls with a fallback
	Extra    time.Duration  `yaml:"extra"`
	Upstream float64        `yaml:"upstream"`
}

func (p phase) well() bool { return len(p.Set) == 0 }

// readScenario reads a scenario from a file.
func readScenario(file string) (*scenario, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s, err := parseScenario(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

func parseScenario(text []byte) (*scenario, error) {
	s := &scenario{}
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(s); err != nil {
		return nil, err
	}
	return s, s.validate()
}

// validate returns every fault of the scenario, joined.
func (s *scenario) validate() error {
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	fault(s.Rate < 1 || s.Rate > 10_000, "rate %d is not between 1 and 10000 calls per second", s.Rate)
	fault(s.Provider == "" || s.Circuit == "", "provider and circuit must be named")
	fault(s.Fallback == "" || s.Alone == "" || s.Fallback == s.Alone, "fallback and alone must be two configurations")
	fault(len(s.Phases) == 0 || !s.Phases[0].well(), "the first phase must be a well one, with which the others are compared")
	for i, p := range s.Phases {
		fault(p.For <= 0, "phase %d (%s) must last some time: write `for`", i+1, p.Name)
		fault(p.well() && p.Opens > 0, "phase %d (%s) is a well one, in which nothing may open: remove `opens`", i+1, p.Name)
		fault(!p.well() && p.Closes > 0, "phase %d (%s) is a sick one: remove `closes`", i+1, p.Name)
		fault(p.Opens < 0 || p.Closes < 0 || p.Extra < 0 || p.Upstream < 0 || p.Failed < 0 || p.Failed > 1, "phase %d (%s) has an impossible bound", i+1, p.Name)
	}
	return errors.Join(faults...)
}

// length is how long the scenario takes when nothing is late.
func (s *scenario) length() time.Duration {
	var sum time.Duration
	for _, p := range s.Phases {
		sum += p.For
	}
	return sum
}
