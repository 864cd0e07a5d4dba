package pipeline

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Dispatcher sends a call to call.Target, once. It emits a stream's events as
// they come, brings back a Result whenever a response was received, and fails
// with an *llm.Failure.
type Dispatcher interface {
	Dispatch(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error)
}

// Policies say how the providers are called.
type Policies struct {
	Providers map[string]Policy // by provider; one that is absent is asked once, without a limit
	Bulkheads *Bulkheads
	Random    func() float64 // uniform in [0, 1), for the jitter of waits; nil = math/rand's
}

// Policy says how one provider is called.
type Policy struct {
	MaxConcurrent int // calls in flight at once, over all its models; 0 = unlimited
	Retry         Retry
}

// Terminal is the innermost handler: one attempt on one target, under a permit
// that its caller holds.
type Terminal struct {
	attempt Handler
}

// NewTerminal composes the order of an attempt. Retry is outside the bulkhead
// so that a wait holds no place, and outside the hold-back so that a send that
// failed leaves no trace in the stream.
func NewTerminal(dispatcher Dispatcher, policies Policies) *Terminal {
	if policies.Random == nil {
		policies.Random = rand.Float64
	}
	return &Terminal{
		attempt: retrying(policies, // send again, while that may help
			bulkhead(policies, // a place with the provider, or saturated at once
				holdingBack( // nothing goes up before the first content
					sending(dispatcher)))), // the provider call
	}
}

// Handle runs one attempt on call.Target. A Result comes with an error, too,
// once the provider was asked.
func (t *Terminal) Handle(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
	return t.attempt(ctx, call, emit)
}

// sending asks the provider once and takes the time.
func sending(dispatcher Dispatcher) Handler {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		call.Signals.Attempt().Reached = true
		start := time.Now()
		result, err := dispatcher.Dispatch(ctx, call, emit)
		took := time.Since(start)

		call.Signals.UpstreamTime += took
		if f := llm.AsFailure(err); f != nil && f.Refusal != nil {
			row := call.Signals.Attempt()
			row.Refusals = append(row.Refusals, *f.Refusal)
		}
		if result == nil { // nothing was received
			result = &llm.Result{Target: call.Target, SentAt: start, Latency: took}
		}
		return result, err
	}
}
