package pipeline

import (
	"context"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Probes is the way of what the gateway asks on its own account, under a permit
// that is held already. It leaves out what is there for callers: no answer is
// replayed, no budget is charged and no other target is tried.
type Probes struct {
	telemetry  *Telemetry
	usage      *Usage
	circuits   *CircuitBreaker
	terminal   *Terminal
	dispatcher Dispatcher
}

// NewProbes returns the way over the parts of a stack.
func NewProbes(telemetry *Telemetry, usage *Usage, circuits *CircuitBreaker, terminal *Terminal, dispatcher Dispatcher) *Probes {
	return &Probes{telemetry: telemetry, usage: usage, circuits: circuits, terminal: terminal, dispatcher: dispatcher}
}

// Canary asks call.Target and ends the permit by what came of it. An answer that
// judge finds a fault in has failed by that.
func (p *Probes) Canary(ctx context.Context, call *llm.Call, permit *breaker.Permit, judge func(*llm.Result) error) error {
	return run(ctx, call,
		p.telemetry.Wrap( // one run
			attempting( // with one attempt
				p.usage.Wrap( // that costs what it costs
					p.circuits.under(permit, // and speaks for its circuit
						judging(judge, // by more than that an answer came
							p.terminal.Handle))))))
}

// HealthCheck asks the provider itself and ends the permit by what came of it.
// It takes no place of a call.
func (p *Probes) HealthCheck(ctx context.Context, call *llm.Call, permit *breaker.Permit) error {
	return run(ctx, call,
		p.telemetry.Wrap(
			attempting(
				p.circuits.under(permit,
					sending(p.dispatcher)))))
}

func run(ctx context.Context, call *llm.Call, way Handler) error {
	_, err := way(ctx, call, func(llm.Event) error { return nil })
	return err
}

// attempting opens the row of the only attempt.
func attempting(next Handler) Handler {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		return attempt(ctx, call, emit, next)
	}
}

// under runs next under a permit that is held, and ends it. A panic says nothing
// about the target: the call was not made as it should be.
func (b *CircuitBreaker) under(permit *breaker.Permit, next Handler) Handler {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (result *llm.Result, err error) {
		key := call.Target.Key()
		row := call.Signals.Attempt()
		outcome := breaker.Outcome{Kind: breaker.Neutral}
		defer func() {
			permit.Done(outcome)
			row.Slow = permit.Slow()
		}()

		admitted(row, permit)
		if call.Operation == llm.OperationHealthCheck {
			row.Probe = llm.ProbeHealthCheck
		}
		result, err = next(ctx, call, b.told(key, call, permit, emit))
		outcome = b.outcome(key, result, err)
		return result, err
	}
}

// judging lets an answer that is no good fail. It is billed all the same, so the
// result stays.
func judging(judge func(*llm.Result) error, next Handler) Handler {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		result, err := next(ctx, call, emit)
		if err == nil {
			err = judge(result)
		}
		return result, err
	}
}
