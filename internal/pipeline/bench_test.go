package pipeline_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// instant is a Dispatcher that answers at once: what is left is the pipeline.
type instant struct{ events []llm.Event }

func (d instant) Dispatch(_ context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
	for _, event := range d.events {
		if err := emit(event); err != nil {
			return nil, err
		}
	}
	return &llm.Result{Target: call.Target, Status: 200, Streamed: len(d.events) > 0, Usage: tokens(10, 2)}, nil
}

// discard is a Recorder and a Pricer without work of their own.
type discard struct{}

func (discard) Record(llm.Run) {}

func (discard) Lost(uuid.UUID, any, []byte) {}

func (discard) Cost(llm.Target, llm.Usage) (decimal.Decimal, bool) { return decimal.Zero, true }

// The whole stack over an instant dispatcher: the pipeline's own cost of a
// call, and of a token.
func BenchmarkStack(b *testing.B) {
	for name, tokens := range map[string]int{"call": 0, "stream of 1000 tokens": 1000} {
		b.Run(name, func(b *testing.B) {
			call := oneCall(b, tokens)
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}

// A token costs no allocation on its way up. The test is not parallel: it
// counts the allocations of the process.
func TestStack_NoAllocationPerToken(t *testing.T) {
	few, many := testing.AllocsPerRun(100, oneCall(t, 1)), testing.AllocsPerRun(100, oneCall(t, 1000))
	if many > few {
		t.Errorf("a stream of 1000 tokens allocates %v times, one of a single token %v times", many, few)
	}
}

// oneCall returns a function that runs a call through the whole stack: a
// stream of so many tokens, or no stream at all.
func oneCall(tb testing.TB, tokens int) func() {
	tb.Helper()
	call, dispatcher := newCall(alpha, beta), instant{}
	if tokens > 0 {
		call.Facts.Stream = true
		dispatcher.events = append([]llm.Event{preamble("role")}, slices.Repeat([]llm.Event{content("token")}, tokens)...)
	}
	circuits := breaker.New(breaker.Config{Settings: func(string) breaker.Settings { return threeInARow }})
	stack, err := pipeline.New(
		pipeline.NewTerminal(dispatcher, policies(pipeline.Policy{MaxConcurrent: 256, Retry: patient})).Handle,
		pipeline.NewTelemetry(discard{}), pipeline.NewFallback(nil, nil), pipeline.NewUsage(discard{}),
		pipeline.NewCircuitBreaker(circuits, func(string) time.Duration { return time.Minute }, nil),
	)
	if err != nil {
		tb.Fatal(err)
	}
	emit := func(llm.Event) error { return nil }
	return func() {
		call.Signals = &llm.Signals{}
		if _, err := stack.Handle(context.Background(), call, emit); err != nil {
			tb.Fatal(err)
		}
	}
}
