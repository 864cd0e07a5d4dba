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
	slowAfter     func(key string, f llm.Facts) time.Duration
}

// NewCircuitBreaker returns the middleware over circuits. quotaCooldown says
// how long a target without credit is left alone, and slowAfter how long a
// request may take until it is slow, by circuit key.
func NewCircuitBreaker(circuits *breaker.Registry, quotaCooldown func(key string) time.Duration, slowAfter func(key string, f llm.Facts) time.Duration) *CircuitBreaker {
	return &CircuitBreaker{circuits: circuits, quotaCooldown: quotaCooldown, slowAfter: slowAfter}
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
		var held *breaker.Permit
		refusal := b.circuits.Do(key, func(permit *breaker.Permit) breaker.Outcome {
			held = permit
			admitted(call.Signals.Attempt(), permit)
			result, err = next(ctx, call, b.told(key, call, permit, emit))
			return b.outcome(key, result, err)
		})
		if refusal != nil {
			return nil, refused(call, refusal)
		}
		call.Signals.Attempt().Slow = held.Slow()
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
		outcome.Kind, outcome.GaveUp = breaker.Neutral, gaveUp(f)
	}
	return outcome
}

// gaveUp reports whether a call ended because somebody had waited for its
// answer for long enough.
func gaveUp(f *llm.Failure) bool {
	switch f.Reason {
	case llm.ReasonClientLeft, llm.ReasonCallerTimeout, llm.ReasonRequestTimeout:
		return f.Class == llm.ClassCancelled
	default:
		return false
	}
}

// openFor is how long the failure itself asks for the target to be left alone
// (T4); 0 leaves that to the circuit's own policy.
func (b *CircuitBreaker) openFor(key string, f *llm.Failure) time.Duration {
	if f.Class == llm.ClassQuota {
		return max(f.RetryAfter, b.quotaCooldown(key))
	}
	return f.RetryAfter
}

// told tells the permit what it wants to know of the call: how long it may take,
// so that the lease of a probe is kept while the call is inside its own deadline
// (R11); when it is slow (R20); and the first token of a stream, which ends the
// wait for an answer and is the verdict of a probe, so that a long answer does
// not hold recovery back (R18). What reaches this emit is committed.
func (b *CircuitBreaker) told(key string, call *llm.Call, permit *breaker.Permit, emit llm.Emit) llm.Emit {
	if !permit.Probe() && !permit.Watched() {
		return emit
	}
	if permit.Watched() {
		permit.SlowAfter(b.slowAfter(key, call.Facts))
	}
	if permit.Probe() && !call.Deadline.IsZero() {
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
	if permit.Probe() {
		row.Probe = llm.ProbeCall
	}
	if permit.Canary() {
		row.Probe = llm.ProbeCanary
	}
	if row.CircuitGeneration = permit.Generation(); row.CircuitGeneration != 0 {
		row.CircuitState = permit.State().String()
	}
}

// refusalReasons are those that are told apart in the records.
var refusalReasons = map[string]llm.Reason{
	breaker.ReasonProbing:   llm.ReasonProbing,
	breaker.ReasonRamping:   llm.ReasonRamping,
	breaker.ReasonThrottled: llm.ReasonThrottled,
	breaker.ReasonRollup:    llm.ReasonRollup,
}

// refused turns a refusal into a failure of the target, which leads to the next.
func refused(call *llm.Call, err error) error {
	var refusal *breaker.Refusal
	if !errors.As(err, &refusal) {
		return fmt.Errorf("acquire a permit: %w", err)
	}
	row := call.Signals.Attempt()
	row.CircuitState, row.CircuitGeneration = refusal.State.String(), refusal.Generation

	reason, known := refusalReasons[refusal.Reason]
	if !known {
		reason = llm.ReasonCircuitOpen
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
