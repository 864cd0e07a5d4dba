package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// CircuitBreaker asks for a permit before an attempt and reports afterwards
// what the attempt said about its target.
type CircuitBreaker struct {
	circuits      *breaker.Registry
	quotaCooldown func(key string) time.Duration
}

// NewCircuitBreaker returns the middleware over circuits. quotaCooldown says
// how long a target without credit is left alone, by circuit key.
func NewCircuitBreaker(circuits *breaker.Registry, quotaCooldown func(key string) time.Duration) *CircuitBreaker {
	return &CircuitBreaker{circuits: circuits, quotaCooldown: quotaCooldown}
}

// Name is "circuit_breaker".
func (b *CircuitBreaker) Name() string { return "circuit_breaker" }

// Priority puts it inside fallback, so that an open circuit leads to the next
// target, and outside retry, so that only an exhausted retry is an outcome.
func (b *CircuitBreaker) Priority() int { return priorityCircuitBreaker }

// Wrap runs next under a permit of the target's circuit, which is given back on
// every way out, or refuses with class circuit_open.
func (b *CircuitBreaker) Wrap(next Handler) Handler {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (result *llm.Result, err error) {
		key := call.Target.Key()
		refusal := b.circuits.Do(key, func(permit *breaker.Permit) breaker.Outcome {
			admitted(call.Signals.Attempt(), permit)
			if permit.Probe() {
				emit = probing(call, permit, emit)
			}
			result, err = next(ctx, call, emit)
			return b.outcome(key, result, err)
		})
		if refusal != nil {
			return nil, refused(call, refusal)
		}
		return result, err
	}
}

// outcome says what the end of an attempt means for the circuit.
func (b *CircuitBreaker) outcome(key string, result *llm.Result, err error) breaker.Outcome {
	outcome := breaker.Outcome{Kind: breaker.Success}
	if result != nil {
		outcome.Took = result.Latency
	}
	f := llm.AsFailure(err)
	switch {
	case f == nil:
	case f.Trips():
		outcome.Kind, outcome.Cause, outcome.OpenFor = breaker.Failure, string(f.Class), b.openFor(key, f)
	default:
		outcome.Kind = breaker.Neutral
	}
	return outcome
}

// openFor is how long the failure itself asks for the target to be left alone
// (T4); 0 leaves that to the circuit's own policy.
func (b *CircuitBreaker) openFor(key string, f *llm.Failure) time.Duration {
	if f.Class == llm.ClassQuota {
		return max(f.RetryAfter, b.quotaCooldown(key))
	}
	return f.RetryAfter
}

// probing keeps the lease of a probe while the call is inside its own deadline
// (R11) and reports a stream's first token as the verdict, so that a long
// answer does not hold recovery back (R18). What reaches this emit is committed.
func probing(call *llm.Call, permit *breaker.Permit, emit llm.Emit) llm.Emit {
	if !call.Deadline.IsZero() {
		permit.Within(time.Until(call.Deadline))
	}
	told := false
	return func(event llm.Event) error {
		if !told {
			told = true
			permit.FirstToken()
		}
		return emit(event)
	}
}

// admitted writes the circuit as the attempt found it; a breaker that is off
// has no generation and leaves no trace.
func admitted(row *llm.Attempt, permit *breaker.Permit) {
	row.Probe = permit.Probe()
	if row.CircuitGeneration = permit.Generation(); row.CircuitGeneration != 0 {
		row.CircuitState = permit.State().String()
	}
}

// refused turns a refusal into a failure of the target, which leads to the next.
func refused(call *llm.Call, err error) error {
	var refusal *breaker.Refusal
	if !errors.As(err, &refusal) {
		return fmt.Errorf("acquire a permit: %w", err)
	}
	row := call.Signals.Attempt()
	row.CircuitState, row.CircuitGeneration = refusal.State.String(), refusal.Generation

	reason := llm.ReasonCircuitOpen
	if refusal.Reason == breaker.ReasonProbing {
		reason = llm.ReasonProbing
	}
	return &llm.Failure{
		Class:      llm.ClassCircuitOpen,
		Reason:     reason,
		Target:     call.Target,
		RetryAfter: refusal.RetryAfter,
		OpenedBy:   llm.FailureClass(refusal.Cause),
		Err:        refusal,
	}
}
