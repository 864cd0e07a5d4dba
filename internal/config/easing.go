package config

import "time"

// SoftThrottle lets calls through by chance where a target answers few of them.
type SoftThrottle struct {
	Enabled bool          `yaml:"enabled" doc:"Whether it is on; failure_rate_threshold must be 0 then."`
	K       float64       `yaml:"k" check:"min=1,max=1000" doc:"How many calls there may be for each that is answered."`
	Window  time.Duration `yaml:"window" check:"min=1s" doc:"Over which time they are counted."`
}

// check refuses two judges of one rate.
func (t SoftThrottle) check(r *report, at path, rate Rate) {
	if r.sound(at) && t.Enabled && rate != 0 {
		r.fault(at.key("enabled"), "does not go together with failure_rate_threshold", "write failure_rate_threshold: 0 beside it, or leave it off")
	}
}

// Rollup leaves all targets of a provider alone when many of them are open.
type Rollup struct {
	Enabled bool `yaml:"enabled" doc:"Whether it is on."`
	Percent int  `yaml:"percent" check:"min=1,max=100" doc:"How many of its targets in use must be open."`
	MinOpen int  `yaml:"min_open" check:"min=1" doc:"At least so many of them."`
}
