package pipeline

import (
	"context"
	"slices"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Windows are the sizes that models declare, by target. A target that is absent
// declares none and may take anything.
type Windows map[llm.Target]Window

// Window is the size of a model in tokens; 0 = not declared.
type Window struct {
	Context   int // prompt and answer together
	MaxOutput int // the longest answer that it gives
}

// fits reports whether a request may fit. The prompt is estimated from its
// visible text alone, at four bytes a token: tool definitions, roles and media,
// which need tokens too, are left out, since a target that is passed over though
// it could have served costs more than one that is asked and says no.
func (w Window) fits(facts llm.Facts) bool {
	if w.Context == 0 {
		return true
	}
	answer := facts.MaxOutput
	if w.MaxOutput > 0 {
		answer = min(answer, w.MaxOutput)
	}
	return tokensOf(facts.TextBytes).N+int64(answer) <= int64(w.Context)
}

// unfit marks the targets that a request is too long for while it may fit
// another; nil when there are none. When it fits no target at all the first one
// is asked: it knows best what to say.
func (w Windows) unfit(targets []llm.Target, facts llm.Facts) []bool {
	if len(w) == 0 {
		return nil
	}
	var marks []bool
	for i, target := range targets {
		if w[target].fits(facts) {
			continue
		}
		if marks == nil {
			marks = make([]bool, len(targets))
		}
		marks[i] = true
	}
	if marks != nil && !slices.Contains(marks, false) {
		marks[0] = false
	}
	return marks
}

// tooLong refuses a request on behalf of a target that it does not fit.
func tooLong(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
	return nil, &llm.Failure{Class: llm.ClassUnfit, Reason: llm.ReasonContextWindow, Target: call.Target}
}
