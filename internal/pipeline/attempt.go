package pipeline

import (
	"context"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// attempt runs one attempt on call.Target and keeps its row: it is opened
// before next and closed after it, also when next panics.
func attempt(ctx context.Context, call *llm.Call, emit llm.Emit, next Handler) (result *llm.Result, err error) {
	call.Signals.Open(call.Target, time.Now())
	returned := false
	defer func() {
		if !returned {
			err = panicked(call.Target)
		}
		settle(call.Signals.Attempt(), result, err, time.Now())
	}()
	result, err = next(ctx, call, emit)
	returned = true
	return result, err
}

// settle writes what became of an attempt into its row. Timings and status are
// those of the last send; an attempt that was refused has none.
func settle(row *llm.Attempt, result *llm.Result, err error, now time.Time) {
	row.FinishedAt = now
	row.Outcome = llm.OutcomeSuccess
	if result != nil {
		row.UpstreamStatus = result.Status
		row.Retries = result.Retries
		row.Credential = result.Credential
		row.Latency = new(result.Latency)
		if result.FirstToken > 0 {
			row.TTFT = new(result.FirstToken)
		}
	}
	if f := llm.AsFailure(err); f != nil {
		row.Outcome, row.FailureClass, row.FailureReason = f.Outcome(), f.Class, f.Reason
		if f.Status != 0 {
			row.UpstreamStatus = f.Status
		}
	}
}

// panicked is the failure of a handler that did not return, for the rows: the
// panic itself goes on.
func panicked(target llm.Target) *llm.Failure {
	return &llm.Failure{Class: llm.ClassUnknown, Reason: llm.ReasonPanic, Target: target}
}
