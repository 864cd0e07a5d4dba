package config

import "time"

// Probe is who finds out whether the target of an open circuit is well again:
// the next calls, or before them a small one of the gateway's own.
type Probe struct {
	Mode      string        `yaml:"mode" check:"oneof=traffic|canary" doc:"traffic = the next calls, canary = a call of the gateway's own, before any of them."`
	Prompt    string        `yaml:"prompt" doc:"What a canary asks."`
	Expect    string        `yaml:"expect" doc:"What its answer must hold, in capitals or not; empty = any answer will do."`
	Timeout   time.Duration `yaml:"timeout" check:"min=100ms" doc:"How long it may take."`
	MaxTokens int           `yaml:"max_tokens" check:"min=1,max=1000" doc:"How long its answer may be."`
	Demand    time.Duration `yaml:"demand" check:"over=0s" doc:"None is sent unless a call was refused within this time."`
	Closes    bool          `yaml:"closes" doc:"Whether its success closes the circuit; else calls probe then."`
}

// The modes of a Probe.
const (
	ProbeTraffic = "traffic"
	ProbeCanary  = "canary"
)

func defaultProbe() Probe {
	return Probe{
		Mode: ProbeTraffic, Prompt: "Answer with one word: ok",
		Timeout: 5 * time.Second, MaxTokens: 5, Demand: 5 * time.Minute,
	}
}

func (p Probe) check(r *report, at path) {
	if r.sound(at.key("mode"), at.key("prompt")) && p.Mode == ProbeCanary && p.Prompt == "" {
		r.fault(at.key("prompt"), "is empty, and a canary has to ask something", "give it a question that the model answers in one word")
	}
}
