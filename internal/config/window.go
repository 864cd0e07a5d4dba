package config

import (
	"errors"
	"strconv"
	"time"
)

// Window is which calls a failure rate is taken of.
type Window struct {
	Type    string     `yaml:"type" check:"oneof=time|count" doc:"Whether it holds the calls of a time, or a number of calls."`
	Size    WindowSize `yaml:"size" doc:"How long it is, such as 30s; of type count, how many calls it holds, such as 20."`
	Buckets int        `yaml:"buckets" check:"min=1,max=1000" doc:"In how many steps a window of type time slides on."`
}

// The types of a Window.
const (
	WindowTime  = "time"
	WindowCount = "count"
)

// WindowSize is a time or a number of calls; the other is 0.
type WindowSize struct {
	Span  time.Duration
	Calls int
}

// shown is the size as it stands in the file.
func (s WindowSize) shown() any {
	if s.Calls != 0 {
		return s.Calls
	}
	return readable(s.Span)
}

var errWindowForm = errors.New("is neither a duration nor a number of calls")

func parseWindowSize(text string) (WindowSize, error) {
	if wholeText.MatchString(text) {
		n, err := strconv.Atoi(text)
		return WindowSize{Calls: n}, err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return WindowSize{}, errWindowForm
	}
	return WindowSize{Span: d}, nil
}

// A bucket shorter than this costs more than it tells, and so does a longer
// list of calls.
const (
	minBucket      = 10 * time.Millisecond
	maxWindowCalls = 100_000
)

func (w Window) check(r *report, at path) {
	size := at.key("size")
	if !r.sound(at.key("type"), size, at.key("buckets")) {
		return
	}
	switch least := minBucket * time.Duration(w.Buckets); {
	case w.Type == WindowCount && w.Size.Span != 0:
		r.fault(size, "is a duration, and a window of type count holds calls", "give it a number of calls, such as 20")
	case w.Type == WindowCount && w.Size.Calls < 1:
		r.fault(size, "is too small", "give it at least 1")
	case w.Type == WindowCount && w.Size.Calls > maxWindowCalls:
		r.fault(size, "is too large", "give it at most "+strconv.Itoa(maxWindowCalls))
	case w.Type == WindowTime && w.Size.Calls != 0:
		r.fault(size, "is a number of calls, and a window of type time lasts", "give it a duration, such as 30s, or write type: count")
	case w.Type == WindowTime && w.Size.Span < least:
		r.fault(size, "is too small", "give it at least "+readable(least)+", which is 10ms for each bucket")
	}
}
