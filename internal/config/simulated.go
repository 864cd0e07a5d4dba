package config

import "time"

// ModeOK is the mode in which a simulated provider answers well.
const ModeOK = "ok"

// Simulated is how a simulated provider behaves until an operator says
// otherwise.
type Simulated struct {
	Mode            string        `yaml:"mode" check:"oneof=ok|error|hang|reset|rate_limit|cut|slow" doc:"What its answers are like."`
	Latency         time.Duration `yaml:"latency" check:"min=0s" doc:"Time until it answers."`
	TokensPerSecond float64       `yaml:"tokens_per_second" check:"over=0" doc:"Speed of a stream."`
	FailureRate     *float64      `yaml:"failure_rate" check:"min=0,max=1" doc:"Share of calls that fail, with the status in mode ok, else as the mode says; absent = 0 in mode ok, 1 in the others."`
	Status          int           `yaml:"status" check:"min=400,max=599" doc:"HTTP status of a failure."`
	RetryAfter      time.Duration `yaml:"retry_after" check:"min=0s" doc:"Retry-After of a failure; 0 = none."`
}

func (s *Simulated) setDefaults() {
	*s = Simulated{Mode: ModeOK, Latency: 50 * time.Millisecond, TokensPerSecond: 50, Status: 503}
}

// complete gives the failure rate the value that goes with the mode.
func (s *Simulated) complete() {
	if s.FailureRate != nil {
		return
	}
	rate := 1.0
	if s.Mode == ModeOK {
		rate = 0
	}
	s.FailureRate = &rate
}
