package pipeline

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Recorder keeps the runs.
type Recorder interface {
	// Record never blocks and owns the run from then on.
	Record(run llm.Run)
	// Lost counts a run that could not be recorded, by a fault of the gateway's.
	Lost(runID uuid.UUID, panicked any, stack []byte)
}

// Telemetry records exactly one run per call, whatever became of it.
type Telemetry struct {
	recorder Recorder
}

// NewTelemetry returns the middleware that hands every run to recorder.
func NewTelemetry(recorder Recorder) *Telemetry { return &Telemetry{recorder: recorder} }

// Name is "telemetry".
func (t *Telemetry) Name() string { return "telemetry" }

// Priority puts it outermost: what nobody inside sees is recorded here.
func (t *Telemetry) Priority() int { return priorityTelemetry }

// Wrap records the run after next, when the client has the answer: one that it
// does not get is no success. A panic is recorded as the failure it is for
// the client and goes on to whoever serves the call, with its stack.
func (t *Telemetry) Wrap(next Handler) Handler {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (result *llm.Result, err error) {
		returned := false
		var ready time.Time
		defer func() {
			if !returned {
				err = panicked(llm.Target{})
			}
			t.record(call, result, err, ready)
		}()
		result, err = next(ctx, call, emit)
		ready = time.Now()
		if err == nil {
			err = call.Deliver(result)
		}
		returned = true
		return result, err
	}
}

// record never costs the client its answer: a panic on the way loses the run,
// and nothing else.
func (t *Telemetry) record(call *llm.Call, result *llm.Result, err error, ready time.Time) {
	defer func() {
		if p := recover(); p != nil {
			t.recorder.Lost(call.RunID, p, debug.Stack())
		}
	}()
	now := time.Now()
	if ready.IsZero() {
		ready = now
	}
	t.recorder.Record(newRun(call, result, err, ready, now))
}

// newRun is the row of a call that was answered at ready and over at now. What
// the client took between them is no overhead of the gateway's.
func newRun(call *llm.Call, result *llm.Result, err error, ready, now time.Time) llm.Run {
	signals := call.Signals
	run := llm.Run{
		RunID:          call.RunID,
		CorrelationID:  call.CorrelationID,
		TraceID:        call.TraceID,
		StartedAt:      call.ReceivedAt,
		FinishedAt:     now,
		APIKeyID:       call.Caller.KeyID,
		Operation:      call.Operation,
		Dialect:        call.Dialect,
		Configuration:  call.Configuration,
		RequestedModel: call.RequestedModel,
		Outcome:        llm.RunOutcomeOf(err),
		HTTPStatus:     statusOf(call, err),
		Latency:        now.Sub(call.ReceivedAt),
		Overhead:       max(0, ready.Sub(call.ReceivedAt)-signals.UpstreamTime),
		Streamed:       call.Facts.Stream,
		Degraded:       signals.Degraded,

		CacheHit:         signals.CacheResult == llm.CacheHit || signals.CacheResult == llm.CacheStale,
		IdempotentReplay: signals.IdempotentReplay,

		Attempts: signals.Attempts,
	}
	if !signals.FirstContent.IsZero() {
		run.TTFT = new(signals.FirstContent.Sub(call.ReceivedAt))
	}
	if err != nil {
		run.FailureClass, run.FailureReason = decisive(err)
	}
	if result != nil && served(signals, err) {
		run.Served = result.Target
	}
	return run
}

// decisive names the class and the reason that the client's answer stands for.
func decisive(err error) (llm.FailureClass, llm.Reason) {
	if f := llm.Judge(err).Failure; f != nil {
		return f.Class, f.Reason
	}
	return llm.ClassUnknown, ""
}

// served reports whether the client got a target's own words: a whole answer,
// a part of a stream, or the provider's refusal of the request.
func served(signals *llm.Signals, err error) bool {
	return err == nil || signals.Committed || llm.Judge(err).Answer == llm.AnswerClientError
}

// statusOf is the HTTP status that an access log shows for the call. Nobody is
// left to be sent the 499.
func statusOf(call *llm.Call, err error) int {
	const ok, clientClosedRequest = 200, 499
	switch {
	case err == nil:
		return ok
	case llm.Judge(err).Answer == llm.AnswerClientLeft:
		return clientClosedRequest
	default:
		return call.StatusOf(err)
	}
}
