package config

import "time"

// Simulated is how a simulated provider behaves until an operator says
// otherwise.
type Simulated struct {
	Mode            string        `yaml:"mode" check:"oneof=ok|error|hang|reset|rate_limit|cut|slow" doc:"What its answers are like."`
	Latency         time.Duration `yaml:"latency" check:"min=0s" doc:"Time until the first word."`
	TokensPerSecond float64       `yaml:"tokens_per_second" check:"min=0,max=1000000" doc:"Speed of an answer; 0 = all words at once."`
	FailureRate     float64       `yaml:"failure_rate" check:"min=0,max=1" doc:"Share of calls that fail with the status in mode ok, or that any other mode hits; 0 = none in mode ok, every call in the others."`
	Status          int           `yaml:"status" check:"min=400,max=599" doc:"HTTP status of a failure."`
	RetryAfter      time.Duration `yaml:"retry_after" check:"min=0s" doc:"Retry-After of a failure; 0 = none."`
}

func (s *Simulated) setDefaults() {
	*s = Simulated{Mode: "ok", Latency: 50 * time.Millisecond, TokensPerSecond: 50, Status: 503}
}
