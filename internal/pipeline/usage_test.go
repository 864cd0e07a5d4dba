package pipeline_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// accounted is the part of an attempt's row that usage writes.
type accounted struct {
	Usage    llm.Usage
	Cost     string // empty = NULL
	Unpriced bool
}

// account runs one attempt on alpha and returns what usage wrote about it.
func account(t *testing.T, pricer pipeline.Pricer, call *llm.Call, alphaDoes behaviour, emit llm.Emit) (accounted, error) {
	t.Helper()
	handle := wrap(t, terminal(script(alpha, alphaDoes), pipeline.Policy{}).Handle,
		pipeline.NewFallback(nil, nil), pipeline.NewUsage(pricer))
	_, err := handle(t.Context(), call, emit)

	row := call.Signals.Attempt()
	got := accounted{Usage: row.Usage, Unpriced: row.Unpriced}
	if row.Cost != nil {
		got.Cost = row.Cost.String()
	}
	return got, err
}

// reports is a whole answer with the given usage.
func reports(u llm.Usage) behaviour {
	return func(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
		return &llm.Result{Target: call.Target, Status: 200, Usage: u, OutputBytes: 40}, nil
	}
}

func tokens(in, out int64) llm.Usage {
	return llm.Usage{Input: llm.Tokens(in), Output: llm.Tokens(out)}
}

var priced = prices{"m1": {"2.50", "10"}}

func TestUsage_Reported(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name   string
		pricer pipeline.Pricer
		usage  llm.Usage
		want   accounted
	}{
		{"tokens and cost (CF-U1, CF-U10)", priced, tokens(1000, 500), accounted{Usage: tokens(1000, 500), Cost: "0.0075"}},
		{"no price: real tokens, no cost (CF-U11)", prices{}, tokens(10, 2), accounted{Usage: tokens(10, 2), Unpriced: true}},
		{"free is not unpriced", prices{"m1": {"0", "0"}}, tokens(10, 2), accounted{Usage: tokens(10, 2), Cost: "0"}},
		{"no usage: nothing (CF-U12)", priced, llm.Usage{}, accounted{}},
		{"usage of no use is told and costs nothing known", priced, llm.Usage{Anomaly: true}, accounted{Usage: llm.Usage{Anomaly: true}}},
		{"a measured zero is a value (CF-U13)", priced, tokens(120, 0), accounted{Usage: tokens(120, 0), Cost: "0.0003"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := account(t, tt.pricer, newCall(alpha), reports(tt.usage), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUsage_OfAttemptsThatDidNotEndWell(t *testing.T) {
	t.Parallel()

	left := llm.ErrClientLeft
	tests := []struct {
		name  string
		alpha behaviour
		emit  llm.Emit
		want  accounted
	}{
		{
			"the client left in the middle: 12 and 9 bytes are 3 and 3 tokens (DIS-05)",
			streams(nil, content("aaa"), content("bbb"), content("ccc"), content("ddd")),
			(&client{leaves: 2, why: left}).emit,
			accounted{Usage: estimatedTokens(3, 3), Cost: "0.0000375"},
		},
		{
			"a cut stream",
			streams(&truncated, content("aaaa"), content("b")), new(client).emit,
			accounted{Usage: estimatedTokens(3, 2), Cost: "0.0000275"},
		},
		{
			"an explicit zero is no gap (DIS-06)",
			streams(&truncated, content("aaa"), usage(tokens(0, 0))), new(client).emit,
			accounted{Usage: tokens(0, 0), Cost: "0"},
		},
		{
			"only what is missing is estimated",
			streams(&truncated, usage(llm.Usage{Input: llm.Tokens(10)}), content("aaaa")), new(client).emit,
			accounted{Usage: estimatedTokens(10, 1), Cost: "0.000035"},
		},
		{
			"what came after a report is estimated, too",
			func(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
				return &llm.Result{Target: call.Target, Status: 200, Streamed: true, Usage: tokens(10, 2), OutputBytes: 20, AfterReport: 9}, &truncated
			},
			nil,
			accounted{Usage: estimatedTokens(10, 5), Cost: "0.000075"},
		},
		{
			"a whole stream that reported nothing (CF-X3)",
			streams(nil, content("eleven byte"), done("[DONE]")), new(client).emit,
			accounted{Usage: estimatedTokens(3, 3), Cost: "0.0000375"},
		},
		{"nothing was generated that anyone saw", streams(&truncated, preamble("role")), new(client).emit, accounted{}},
		{
			"the provider bills an answer it spoiled (CST-08)",
			func(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
				return &llm.Result{Target: call.Target, Status: 200, Usage: tokens(10, 5)},
					&llm.Failure{Class: llm.ClassServerError, Reason: llm.ReasonInvalidBody, Status: 200, Target: call.Target}
			},
			nil,
			accounted{Usage: tokens(10, 5), Cost: "0.000075"},
		},
		{"a refused connection", fails(refusedConn, 0), nil, accounted{}},
		{"a status", fails(status503, 0), nil, accounted{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, _ := account(t, priced, newStream(alpha), tt.alpha, tt.emit)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
		})
	}
}

// CST-07: each attempt has its own tokens; a failed one without any has none.
func TestUsage_PerAttempt_CST_07(t *testing.T) {
	t.Parallel()

	u := script(alpha, fails(status503, 0)).and(beta, answers(0))
	call := newCall(alpha, beta)
	handle := wrap(t, terminal(u, pipeline.Policy{}).Handle, pipeline.NewFallback(nil, nil), pipeline.NewUsage(priced))
	if _, err := handle(t.Context(), call, nil); err != nil {
		t.Fatal(err)
	}

	var got []llm.Attempt
	for _, row := range call.Signals.Attempts {
		got = append(got, llm.Attempt{Target: row.Target, Usage: row.Usage, Cost: row.Cost})
	}
	want := []llm.Attempt{
		{Target: alpha},
		{Target: beta, Usage: tokens(10, 2), Cost: new(decimal.RequireFromString("0.000045"))},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(decimal.Decimal.Equal)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// brokenPrices is a Pricer that panics.
type brokenPrices struct{}

func (brokenPrices) Cost(llm.Target, llm.Usage) (decimal.Decimal, bool) { panic("no table") }

// CF-U15: bookkeeping never breaks the call, and the row says what is missing.
func TestUsage_BookkeepingFailureIsHarmless_CF_U15(t *testing.T) {
	t.Parallel()

	got, err := account(t, brokenPrices{}, newCall(alpha), reports(tokens(10, 2)), nil)
	if err != nil {
		t.Errorf("error = %v, want the answer", err)
	}
	if diff := cmp.Diff(accounted{Usage: tokens(10, 2), Unpriced: true}, got); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

// The error is the attempt's own, the same object.
func TestUsage_PassesTheErrorOn(t *testing.T) {
	t.Parallel()

	want := errors.New("nil map")
	_, err := account(t, priced, newCall(alpha), func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) {
		return nil, want
	}, nil)
	if err != want { // the very same error is wanted
		t.Errorf("error = %v, want %v itself", err, want)
	}
}

// What a send reported that was refused after it is billed all the same: it counts,
// whatever the next send on the same target reports.
func TestUsage_OfAllSendsOfAnAttempt(t *testing.T) {
	t.Parallel()
	other := limited
	other.OtherCredential = true
	refused := func(u llm.Usage, f llm.Failure) behaviour {
		return func(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
			f.Target = call.Target
			return &llm.Result{Target: call.Target, Status: 200, Usage: u}, &f
		}
	}
	silent := func(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
		return &llm.Result{Target: call.Target, Status: 200}, nil
	}
	marked := tokens(10, 2)
	marked.Anomaly = true
	inputOnly := llm.Usage{Input: llm.Tokens(50)}

	// The bound is 200 tokens at 0.002 USD, the price 10 USD per million both ways.
	tests := map[string]struct {
		sends   []behaviour
		usage   llm.Usage
		cost    string // of the row; empty = NULL
		settled llm.Amount
	}{
		"another credential":           {[]behaviour{refused(tokens(1000, 0), other), answers(0)}, tokens(1010, 2), "0.01012", amount(1012, "0.01012")},
		"a third":                      {[]behaviour{refused(tokens(1000, 0), other), refused(tokens(500, 1), other), answers(0)}, tokens(1510, 3), "0.01513", amount(1513, "0.01513")},
		"the same":                     {[]behaviour{refused(tokens(1000, 0), status503), answers(0)}, tokens(1010, 2), "0.01012", amount(1012, "0.01012")},
		"the last reports nothing":     {[]behaviour{refused(tokens(1000, 0), other), silent}, tokens(1000, 0), "0.01", amount(1200, "0.012")},
		"the last is refused":          {[]behaviour{refused(tokens(1000, 0), other), fails(limited, 0)}, tokens(1000, 0), "0.01", amount(1000, "0.01")},
		"the last panics":              {[]behaviour{refused(tokens(1000, 0), other), panics("boom")}, tokens(1000, 0), "0.01", amount(1200, "0.012")},
		"the last streams no report":   {[]behaviour{refused(tokens(1000, 0), other), streams(nil, content("aaaabbbb"))}, estimatedTokens(1003, 2), "0.01005", amount(1005, "0.01005")},
		"half a report, then half one": {[]behaviour{refused(inputOnly, other), reports(llm.Usage{Output: llm.Tokens(7)})}, tokens(50, 7), "0.00057", amount(50+100+100+7, "0.004")},
		"a report of no use":           {[]behaviour{refused(llm.Usage{Anomaly: true}, other), answers(0)}, marked, "0.00012", amount(12, "0.00012")},
		"the first reports nothing":    {[]behaviour{fails(other, 0), answers(0)}, tokens(10, 2), "0.00012", amount(12, "0.00012")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &ledger{}
			handle := wrap(t, terminal(script(alpha, tt.sends...), pipeline.Policy{Retry: pipeline.Retry{Max: 1}}).Handle,
				pipeline.NewBudget(map[string]llm.Limits{"chat": {TokensPerDay: new(int64(1e6))}}, l, bounds{alpha: bound("0.002")}, &denials{}),
				pipeline.NewFallback(nil, nil),
				pipeline.NewUsage(prices{"m1": {"10", "10"}}))
			call := newCall(alpha)
			call.Facts.TextBytes = 12
			func() {
				defer func() { _ = recover() }()
				_, _ = handle(t.Context(), call, new(client).emit)
			}()

			row := call.Signals.Attempt()
			if diff := cmp.Diff(tt.usage, row.Usage); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
			if row.Cost == nil || row.Cost.String() != tt.cost || row.Unpriced {
				t.Errorf("cost %v, unpriced %v; want %s", row.Cost, row.Unpriced, tt.cost)
			}
			got := l.settled[0]
			if got.Tokens != tt.settled.Tokens || !got.Cost.Equal(tt.settled.Cost) {
				t.Errorf("settled at %d tokens and %s USD, want %d and %s", got.Tokens, got.Cost, tt.settled.Tokens, tt.settled.Cost)
			}
			wantBeyond(t, row, tt.settled.Tokens-tt.usage.Input.N-tt.usage.Output.N, got)
		})
	}
}

func estimatedTokens(in, out int64) llm.Usage {
	u := tokens(in, out)
	u.Estimated = true
	return u
}

func amount(tokens int64, cost string) llm.Amount {
	return llm.Amount{Tokens: tokens, Cost: decimal.RequireFromString(cost)}
}
