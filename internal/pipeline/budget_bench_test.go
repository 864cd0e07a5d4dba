package pipeline_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// inProcess is the real ledger, in this process.
type inProcess struct{ *budget.Ledger }

func (l inProcess) Open(run uuid.UUID, received time.Time, governed []pipeline.Governed) pipeline.Account {
	asked := make([]budget.Governed, len(governed))
	for i, g := range governed {
		asked[i] = budget.Governed(g)
	}
	return l.Ledger.Open(run, received, asked)
}

// What limits cost a call: of a call without any, of one under a limit of its
// configuration, and of one under those of its key as well.
func BenchmarkBudget(b *testing.B) {
	wide := llm.Limits{
		RequestsPerDay: new(int64(llm.MaxLimit)), TokensPerMonth: new(int64(llm.MaxLimit)), CostPerMonth: new(decimal.NewFromInt(llm.MaxCostLimit)),
	}
	for name, tt := range map[string]struct {
		caller llm.Caller
		limits map[string]llm.Limits
	}{
		"no limits":                 {llm.Caller{KeyID: "k1"}, nil},
		"limits of a configuration": {llm.Caller{KeyID: "k1"}, map[string]llm.Limits{"chat": wide}},
		"limits of both":            {llm.Caller{KeyID: "k1", Limits: wide}, map[string]llm.Limits{"chat": wide}},
	} {
		b.Run(name, func(b *testing.B) {
			call := newCall(alpha, beta)
			call.Caller = tt.caller
			ledger := budget.NewLedger(budget.LedgerConfig{AllowUnknown: true}, nil, nil, slog.New(slog.DiscardHandler))
			ledger.Start()
			b.Cleanup(func() { ledger.Stop(context.Background()) })
			handle := budgeted(b, tt.limits, ledger)
			b.ReportAllocs()
			for b.Loop() {
				call.Signals, call.RunID = &llm.Signals{}, uuid.New()
				if _, err := handle(context.Background(), call, nil); err != nil {
					b.Fatal(err)
				}
				ledger.Written([]uuid.UUID{call.RunID})
			}
		})
	}
}

// budgeted is the whole stack with limits over a dispatcher that answers at once.
func budgeted(tb testing.TB, limits map[string]llm.Limits, ledger *budget.Ledger) pipeline.Handler {
	tb.Helper()
	prices := budget.NewPrices(map[llm.Target]budget.Price{alpha: {TokenPrice: budget.TokenPrice{Input: decimal.NewFromInt(1), Output: decimal.NewFromInt(5)}}})
	circuits := breaker.New(breaker.Config{Settings: func(string) breaker.Settings { return threeInARow }})
	stack, err := pipeline.New(
		pipeline.NewTerminal(instant{}, policies(pipeline.Policy{MaxConcurrent: 256, Retry: patient})).Handle,
		pipeline.NewTelemetry(discard{}), pipeline.NewBudget(limits, inProcess{ledger}, budget.NewBounds(nil, prices, 4096), &denials{}),
		pipeline.NewFallback(nil, nil), pipeline.NewUsage(prices),
		pipeline.NewCircuitBreaker(circuits, func(string) time.Duration { return time.Minute }, nil),
	)
	if err != nil {
		tb.Fatal(err)
	}
	return stack.Handle
}

// A call without limits costs nothing here. The test is not parallel: it counts
// the allocations of the process.
func TestBudget_CostsNothingWithoutLimits(t *testing.T) {
	call := newCall(alpha)
	call.Caller = llm.Caller{KeyID: "k1"}
	next := func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) { return nil, nil }
	handle := pipeline.NewBudget(costLimit, &ledger{}, bounds{}, &denials{}).Wrap(next)
	call.Configuration = "other"
	if n := testing.AllocsPerRun(100, func() { _, _ = handle(context.Background(), call, nil) }); n != 0 {
		t.Errorf("a call without limits allocates %v times", n)
	}
}
