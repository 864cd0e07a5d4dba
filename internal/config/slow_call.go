package config

import (
	"reflect"
	"time"
)

// SlowCall is how long a call may take until it is slow: a time, or one that
// grows with the request.
type SlowCall struct {
	Base        time.Duration `yaml:"base" doc:"Of every call."`
	Per1kInput  time.Duration `yaml:"per_1k_input_tokens,omitempty" doc:"For each thousand tokens of the prompt; four bytes of its text are one."`
	Per1kOutput time.Duration `yaml:"per_1k_output_tokens,omitempty" doc:"For each thousand tokens of the longest answer that the request allows."`
	Max         time.Duration `yaml:"max,omitempty" doc:"The longest, however large the request; absent = no limit."`
}

// shown is the time as it stands in the file.
func (s SlowCall) shown() any {
	if s == (SlowCall{Base: s.Base}) {
		return readable(s.Base)
	}
	return shownSection(reflect.ValueOf(s))
}

func (s SlowCall) check(r *report, at path) {
	if !r.sound(at, at.key("base"), at.key("per_1k_input_tokens"), at.key("per_1k_output_tokens"), at.key("max")) {
		return
	}
	if s.Base <= 0 {
		r.fault(at.key("base"), "is too small, or missing", "give it more than 0s")
	}
	if s.Per1kInput < 0 {
		r.fault(at.key("per_1k_input_tokens"), "is too small", "give it at least 0s")
	}
	if s.Per1kOutput < 0 {
		r.fault(at.key("per_1k_output_tokens"), "is too small", "give it at least 0s")
	}
	if s.Max != 0 && s.Max < s.Base {
		r.fault(at.key("max"), "is less than base", "give it at least "+readable(s.Base)+", or remove it")
	}
}
