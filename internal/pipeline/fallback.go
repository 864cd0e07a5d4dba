package pipeline

import (
	"context"
	"errors"
	"slices"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Reorderer puts the candidates of a call into a better order. It drops and
// adds none.
type Reorderer interface {
	Reorder(ctx context.Context, targets []llm.Target) []llm.Target
}

// errNoTarget is a fault of ours: a call is resolved to its candidates before
// it enters the pipeline.
var errNoTarget = errors.New("the call has no target")

// Fallback asks the candidates of a call one after the other until one answers.
type Fallback struct {
	reorderer Reorderer
	windows   Windows
}

// NewFallback returns the middleware; with a nil reorderer the candidates are
// tried in configured order. Those whose window a request is over are skipped.
func NewFallback(reorderer Reorderer, windows Windows) *Fallback {
	return &Fallback{reorderer: reorderer, windows: windows}
}

// Name is "fallback".
func (f *Fallback) Name() string { return "fallback" }

// Priority puts it outside everything that belongs to a single target.
func (f *Fallback) Priority() int { return priorityFallback }

// Wrap tries next with each candidate. The walk ends with the first answer,
// with a failure that may not move on, once the client has seen a part of an
// answer, and when the call's time is over. When it was of no avail, the only
// candidate's own error is returned, or an *llm.ExhaustedError about them all.
func (f *Fallback) Wrap(next Handler) Handler {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		var (
			targets  = f.candidates(ctx, call)
			unfit    = f.windows.unfit(targets, call.Facts)
			failures []*llm.Failure
			result   *llm.Result
			err      = errNoTarget
		)
		next := affordable(next)
		for i, target := range targets {
			ask := next
			if unfit != nil && unfit[i] {
				ask = tooLong
			}
			result, err = attempt(ctx, call.WithTarget(target, more(targets[i+1:], unfit)), emit, ask)
			switch {
			case err == nil, call.Signals.Committed: // two answers are never glued together
				return result, err
			case ctx.Err() != nil: // nobody waits for this failure, or for another target
				return result, llm.Cancelled(ctx, target)
			case !call.FallbackOn.MovesOn(llm.AsFailure(err)):
				return result, err
			}
			failures = append(failures, llm.AsFailure(err))
		}
		if len(failures) > 1 {
			return result, &llm.ExhaustedError{Failures: failures}
		}
		return result, err
	}
}

// affordable asks budget before next whether the target may be asked.
func affordable(next Handler) Handler {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		if call.Admit == nil {
			return next(ctx, call, emit)
		}
		admission, err := call.Admit(ctx, call.Target)
		if err != nil {
			return nil, err
		}
		if admission.OutputLimit > 0 {
			limited := *call
			limited.OutputLimit = admission.OutputLimit
			if most := call.Facts.MostOutput; most == 0 || most > limited.OutputLimit {
				call.Signals.OutputLimited = true
			}
			call = &limited
		}
		return next(ctx, call, emit)
	}
}

// candidates lists the targets to try, each once.
func (f *Fallback) candidates(ctx context.Context, call *llm.Call) []llm.Target {
	targets := call.Targets
	if f.reorderer != nil {
		targets = f.reorderer.Reorder(ctx, targets)
	}
	for i, target := range targets {
		if slices.Contains(targets[:i], target) {
			return distinct(targets)
		}
	}
	return targets
}

func distinct(targets []llm.Target) []llm.Target {
	var once []llm.Target
	for _, target := range targets {
		if !slices.Contains(once, target) {
			once = append(once, target)
		}
	}
	return once
}

// more reports whether any of the last targets will be asked.
func more(last []llm.Target, unfit []bool) bool {
	if unfit == nil {
		return len(last) > 0
	}
	return slices.Contains(unfit[len(unfit)-len(last):], false)
}
