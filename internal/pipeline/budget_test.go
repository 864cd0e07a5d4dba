package pipeline_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

var (
	aCent     = decimal.RequireFromString("0.01")
	costLimit = map[string]llm.Limits{"chat": {CostPerDay: new(aCent)}}
)

// limited runs calls under limits of their configuration. Usage is priced at
// 10 USD per million tokens, both ways.
func limitedStack(t *testing.T, limits map[string]llm.Limits, l *ledger, of bounds, u *upstreams) (pipeline.Handler, *denials) {
	t.Helper()
	counted := &denials{}
	return wrap(t, terminal(u, pipeline.Policy{}).Handle,
		pipeline.NewBudget(limits, l, of, counted),
		pipeline.NewFallback(nil, nil),
		pipeline.NewUsage(prices{"m1": {"10", "10"}}),
	), counted
}

// settledCosts are the amounts that were settled, as text.
func (l *ledger) settledCosts() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, amount := range l.settled {
		all = append(all, amount.Cost.String())
	}
	return all
}

// What an attempt has used in the end, by how it ended: "missing usage never gives
// credit", and what was surely not billed is given back.
func TestBudget_SettlesTheTruth(t *testing.T) {
	t.Parallel()
	const whole, reportedCost = "0.002", "0.00012" // the bound; 10 and 2 tokens at 10 USD per million
	none := func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		return &llm.Result{Target: call.Target, Status: 200}, nil
	}
	half := func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		return &llm.Result{Target: call.Target, Status: 200, Usage: llm.Usage{Output: llm.Tokens(7)}}, nil
	}
	tests := map[string]struct {
		alpha       behaviour
		stream      bool
		tokens      int64
		cost        string
		beyond      int64 // of the tokens, those that no report says
		withPanic   bool
		facts       llm.Facts
		clientLeave int
	}{
		"an answer with usage":                        {alpha: answers(0), tokens: 12, cost: reportedCost},
		"an answer without usage":                     {alpha: none, tokens: 200, beyond: 200, cost: whole},
		"half a report":                               {alpha: half, tokens: 107, beyond: 100, cost: whole},
		"a zero that was reported":                    {alpha: reports(tokens(0, 0)), tokens: 0, cost: "0"},
		"a stream with usage":                         {alpha: streams(nil, content("aaa"), usage(tokens(10, 2))), stream: true, tokens: 12, cost: reportedCost},
		"a stream that tells no usage is estimated":   {alpha: streams(nil, content("aaaabbbb")), stream: true, tokens: 3 + 2, cost: "0.00005"},
		"a stream that was cut is estimated (DIS-05)": {alpha: streams(&truncated, content("aaaabbbb")), stream: true, tokens: 3 + 2, cost: "0.00005"},
		"an estimate knows no images":                 {alpha: streams(&truncated, content("aaaabbbb")), stream: true, facts: llm.Facts{TextBytes: 12, Media: 1}, tokens: 100 + 2, beyond: 97, cost: whole},
		"an estimate knows tools":                     {alpha: streams(&truncated, content("aaaabbbb")), stream: true, facts: llm.Facts{TextBytes: 12, ToolBytes: 80}, tokens: 23 + 2, cost: "0.00025"},
		"a stream that was cut before its content":    {alpha: streams(&truncated), stream: true, tokens: 200, beyond: 200, cost: whole},
		"the client left a stream (DIS-05)":           {alpha: streams(nil, content("aaaabbbb"), content("cccc")), clientLeave: 1, stream: true, tokens: 3 + 3, cost: "0.00006"},
		"a time-out":                                  {alpha: fails(timedOut, 0), tokens: 200, beyond: 200, cost: whole},
		"a reset":                                     {alpha: fails(resetConn, 0), tokens: 200, beyond: 200, cost: whole},
		"a panic":                                     {alpha: panics("boom"), withPanic: true, tokens: 200, beyond: 200, cost: whole},
		"refused by a status":                         {alpha: fails(status500, 0), tokens: 0, cost: "0"},
		"the request itself refused":                  {alpha: fails(badRequest, 0), tokens: 0, cost: "0"},
		"refused inside a 200":                        {alpha: fails(inBand, 0), tokens: 0, cost: "0"},
		"never sent":                                  {alpha: fails(refusedConn, 0), tokens: 0, cost: "0"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &ledger{}
			handle, _ := limitedStack(t, costLimit, l, bounds{alpha: bound("0.002")}, script(alpha, tt.alpha))
			call := newCall(alpha)
			if tt.facts != (llm.Facts{}) {
				call.Facts = tt.facts
			}
			call.Facts.Stream = tt.stream
			leaver := &client{leaves: tt.clientLeave, why: llm.ErrClientLeft}
			func() {
				defer func() {
					if p := recover(); (p != nil) != tt.withPanic {
						t.Errorf("panicked with %v", p)
					}
				}()
				_, _ = handle(t.Context(), call, leaver.emit)
			}()

			if len(l.settled) != 1 {
				t.Fatalf("settled %d times, want once", len(l.settled))
			}
			got := l.settled[0]
			if got.Tokens != tt.tokens || !got.Cost.Equal(decimal.RequireFromString(tt.cost)) {
				t.Errorf("settled at %d tokens and %s USD, want %d and %s", got.Tokens, got.Cost, tt.tokens, tt.cost)
			}
			if !l.reached[0] {
				t.Error("an upstream was asked, and the request is given back")
			}
			wantBeyond(t, &call.Signals.Attempts[0], tt.beyond, got)
		})
	}
}

// wantBeyond checks what the row of an attempt keeps beside its report, so that
// both together are what was settled.
func wantBeyond(t *testing.T, a *llm.Attempt, tokens int64, settled llm.Amount) {
	t.Helper()
	if a.Unreported.Tokens != tokens {
		t.Errorf("%d tokens are kept as not reported, want %d", a.Unreported.Tokens, tokens)
	}
	cost := decimal.Zero
	if a.Cost != nil {
		cost = *a.Cost
	}
	if sum := cost.Add(a.Unreported.Cost); !sum.Equal(settled.Cost) {
		t.Errorf("cost of %s is kept, %s of it not reported; settled was %s", sum, a.Unreported.Cost, settled.Cost)
	}
}

// CF-G17 and the way of BUD-06: what earlier attempts have cost counts beside the
// bound of the next target.
func TestBudget_ReservesWhatIsSpentAndTheNextBound(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	failed := func(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
		f := status500
		f.Target = call.Target
		return &llm.Result{Target: call.Target, Status: 500, Usage: tokens(50, 50)}, &f // billed all the same (CST-08)
	}
	handle, _ := limitedStack(t, costLimit, l, bounds{alpha: bound("0.002"), beta: bound("0.003"), gamma: bound("0")},
		script(alpha, failed).and(beta, fails(timedOut, 0)).and(gamma, answers(0)))
	if _, err := handle(t.Context(), newCall(alpha, beta, gamma), nil); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range l.reserves {
		got = append(got, r.Cost.String())
	}
	if diff := cmp.Diff([]string{"0.002", "0.004", "0.004"}, got); diff != "" {
		t.Errorf("reserved in USD (-want +got):\n%s", diff)
	}
	// 100 tokens of alpha, beta at its bound, 12 of gamma
	if diff := cmp.Diff([]string{"0.00412"}, l.settledCosts()); diff != "" {
		t.Errorf("settled in USD (-want +got):\n%s", diff)
	}
}

func TestBudget_Refuses(t *testing.T) {
	t.Parallel()
	spentUp := decimal.Zero
	over := llm.Denial{Scope: llm.Scope{Kind: llm.ScopeKey, ID: "k1"}, Limit: llm.LimitCostPerMonth}
	tests := map[string]struct {
		limits  map[string]llm.Limits
		denial  *llm.Denial
		of      bounds
		targets []llm.Target
		served  llm.Target // zero = none
		answer  llm.Answer
		counted map[llm.ScopeKind]int
	}{
		"a budget is used up (CF-G18)": {
			denial: &over, limits: costLimit, of: bounds{alpha: bound("1")}, targets: []llm.Target{alpha},
			answer: llm.AnswerBudget, counted: map[llm.ScopeKind]int{llm.ScopeKey: 1},
		},
		"a price that nobody knows (CST-05)": {
			limits: costLimit, of: bounds{}, targets: []llm.Target{alpha},
			answer: llm.AnswerUnpriced, counted: map[llm.ScopeKind]int{llm.ScopeConfiguration: 1},
		},
		"a price that nobody knows, then a known one": {
			limits: costLimit, of: bounds{beta: bound("0.001")}, targets: []llm.Target{alpha, beta},
			served: beta, counted: map[llm.ScopeKind]int{llm.ScopeConfiguration: 1},
		},
		"no price is asked for without a limit of cost": {
			limits: map[string]llm.Limits{"chat": {RequestsPerDay: new(int64(5))}}, of: bounds{}, targets: []llm.Target{alpha}, served: alpha,
		},
		"a dearer sibling is passed over": {
			limits: costLimit, of: bounds{alpha: bound("0.5"), beta: bound("0.001")}, targets: []llm.Target{alpha, beta},
			served: beta, counted: map[llm.ScopeKind]int{llm.ScopeConfiguration: 1},
		},
		"a free target, with nothing left (CST-06)": {
			limits: map[string]llm.Limits{"chat": {CostPerDay: &spentUp}}, of: bounds{alpha: bound("0.5"), beta: bound("0")},
			targets: []llm.Target{alpha, beta}, served: beta, counted: map[llm.ScopeKind]int{llm.ScopeConfiguration: 1},
		},
		"a rate limit ends the walk": {
			denial: &llm.Denial{Scope: llm.Scope{Kind: llm.ScopeKey, ID: "k1"}, Limit: llm.LimitRequestsPerMinute},
			limits: costLimit, of: bounds{alpha: bound("0"), beta: bound("0")}, targets: []llm.Target{alpha, beta},
			answer: llm.AnswerCallerLimited, counted: map[llm.ScopeKind]int{llm.ScopeKey: 1},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := script(alpha, answers(0)).and(beta, answers(0))
			handle, counted := limitedStack(t, tt.limits, &ledger{denial: tt.denial}, tt.of, u)
			result, err := handle(t.Context(), newCall(tt.targets...), nil)
			switch {
			case tt.served.IsZero():
				if got := llm.Judge(err).Answer; got != tt.answer || len(u.sends) != 0 {
					t.Errorf("answer %q after %d sends (%v), want %q and none", got, len(u.sends), err, tt.answer)
				}
			case err != nil || result.Target != tt.served || u.calls(tt.served) != len(u.sends):
				t.Errorf("served by %+v (%v) after the sends %v, want %v alone", result, err, u.sends, tt.served)
			}
			if diff := cmp.Diff(tt.counted, counted.n); diff != "" {
				t.Errorf("denials (-want +got):\n%s", diff)
			}
		})
	}
}

// The wait that a client is told is the truth.
func TestBudget_SaysHowLongARateLimitHolds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		limit    llm.LimitName
		resets   time.Duration // 0 = unknown
		min, max time.Duration
	}{
		"a minute":                      {llm.LimitTokensPerMinute, 40 * time.Second, 10 * time.Second, 40 * time.Second},
		"a moment that is over":         {llm.LimitRequestsPerMinute, -time.Second, time.Millisecond, time.Millisecond},
		"when another call ends":        {llm.LimitConcurrent, 0, time.Second, time.Second},
		"never":                         {llm.LimitTokensPerMinute, 0, 0, 0},
		"a day is no time to wait here": {llm.LimitRequestsPerDay, time.Hour, 0, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := llm.Denial{Limit: tt.limit, Allowed: decimal.NewFromInt(1), Asked: decimal.NewFromInt(1)}
			if name == "never" {
				d.Asked = decimal.NewFromInt(2)
			}
			if tt.resets != 0 {
				d.Resets = time.Now().Add(tt.resets)
			}
			l := &ledger{denial: &d, standings: []llm.Standing{{Limit: tt.limit, Allowed: 5}}}
			handle, _ := limitedStack(t, costLimit, l, bounds{alpha: bound("0")}, script(alpha, answers(0)))
			call := newCall(alpha)
			_, err := handle(t.Context(), call, nil)
			f := llm.AsFailure(err)
			if f == nil || f.Target != alpha || f.RetryAfter < tt.min || f.RetryAfter > tt.max {
				t.Errorf("failure %+v, want alpha's with a wait from %s to %s", f, tt.min, tt.max)
			}
			if diff := cmp.Diff(l.standings, call.Signals.Standings); diff != "" {
				t.Errorf("standings (-want +got):\n%s", diff)
			}
			if row := call.Signals.Attempt(); row.Outcome != llm.OutcomeRefused || row.FailureClass != llm.ClassBudgetDenied {
				t.Errorf("row %s %s, want a refusal of class budget_denied", row.Outcome, row.FailureClass)
			}
		})
	}
}

// An answer is limited where its length is paid for by a limit, and nowhere else.
func TestBudget_LimitsTheAnswer(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		limits llm.Limits
		bound  llm.Bound
		want   int
	}{
		"under a limit of cost":             {llm.Limits{CostPerMonth: &aCent}, bound("0.001"), 100},
		"under a limit of tokens":           {llm.Limits{TokensPerMinute: new(int64(1000))}, bound("0"), 100},
		"free, under a limit of cost":       {llm.Limits{CostPerDay: &aCent}, bound("0"), 0},
		"under a limit of requests":         {llm.Limits{RequestsPerDay: new(int64(7))}, bound("0.001"), 0},
		"under a limit of concurrent calls": {llm.Limits{Concurrent: new(int64(7))}, bound("0.001"), 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := -1
			sent := func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
				got = call.OutputLimit
				return answers(0)(ctx, call, emit)
			}
			handle, _ := limitedStack(t, map[string]llm.Limits{"chat": tt.limits}, &ledger{}, bounds{alpha: tt.bound}, script(alpha, sent))
			if _, err := handle(t.Context(), newCall(alpha), nil); err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("the target was told %d tokens, want %d", got, tt.want)
			}
		})
	}
}

// Whose limits hold, and in which order they are asked: the caller's first.
func TestBudget_AsksForWhomLimitsHold(t *testing.T) {
	t.Parallel()
	var (
		seven  = llm.Limits{RequestsPerDay: new(int64(7))}
		key    = pipeline.Governed{Scope: llm.Scope{Kind: llm.ScopeKey, ID: "k1"}, Limits: seven}
		chat   = pipeline.Governed{Scope: llm.Scope{Kind: llm.ScopeConfiguration, ID: "chat"}, Limits: costLimit["chat"]}
		nobody [][]pipeline.Governed
	)
	tests := map[string]struct {
		caller llm.Caller
		limits map[string]llm.Limits
		want   [][]pipeline.Governed
	}{
		"nobody's (CF-G2, CF-G15)": {llm.Caller{}, nil, nobody},
		"a key without limits":     {llm.Caller{KeyID: "k1"}, map[string]llm.Limits{"chat": {}, "other": seven}, nobody},
		"the key's":                {llm.Caller{KeyID: "k1", Limits: seven}, nil, [][]pipeline.Governed{{key}}},
		"the configuration's":      {llm.Caller{KeyID: "k1"}, costLimit, [][]pipeline.Governed{{chat}}},
		"both, the caller's first": {llm.Caller{KeyID: "k1", Limits: seven}, costLimit, [][]pipeline.Governed{{key, chat}}},
		"of no key there are none": {llm.Caller{Limits: seven}, nil, nobody},
		"another configuration's":  {llm.Caller{}, map[string]llm.Limits{"other": seven}, nobody},
		"limits that say nothing":  {llm.Caller{}, map[string]llm.Limits{"chat": {}}, nobody},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &ledger{}
			handle, _ := limitedStack(t, tt.limits, l, bounds{alpha: bound("0.001")}, script(alpha, answers(0)))
			call := newCall(alpha)
			call.Caller = tt.caller
			if _, err := handle(t.Context(), call, nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, l.opened); diff != "" {
				t.Errorf("accounts (-want +got):\n%s", diff)
			}
			if call.Admit != nil || call.Caller != tt.caller {
				t.Error("the call itself was changed")
			}
		})
	}
}

// A call that reaches no upstream gives its request back, and one that never asked
// for anything has nothing to settle.
func TestBudget_GivesBackWhatReachedNobody(t *testing.T) {
	t.Parallel()
	t.Run("the client left while it waited for the reservation", func(t *testing.T) {
		t.Parallel()
		l := &ledger{}
		u := script(alpha, answers(0))
		handle, counted := limitedStack(t, costLimit, l, bounds{alpha: bound("0.001")}, u)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(llm.ErrClientLeft)
		_, err := handle(ctx, newCall(alpha), nil)
		if f := llm.AsFailure(err); f == nil || f.Class != llm.ClassCancelled || f.Reason != llm.ReasonClientLeft {
			t.Errorf("error %v, want cancelled by the client", err)
		}
		if len(l.reached) != 1 || l.reached[0] || len(u.sends) != 0 || len(counted.n) != 0 {
			t.Errorf("settled %v after %d sends with denials %v, want one that reached nobody", l.reached, len(u.sends), counted.n)
		}
	})
	t.Run("a full bulkhead", func(t *testing.T) {
		t.Parallel()
		l := &ledger{}
		full := func(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
			return nil, &llm.Failure{Class: llm.ClassSaturated, Reason: llm.ReasonBulkheadFull, Target: call.Target}
		}
		handle := wrap(t, full, pipeline.NewBudget(costLimit, l, bounds{alpha: bound("0.001")}, &denials{}), pipeline.NewFallback(nil, nil))
		if _, err := handle(t.Context(), newCall(alpha), nil); err == nil {
			t.Fatal("a full bulkhead has answered")
		}
		if diff := cmp.Diff([]bool{false}, l.reached); diff != "" {
			t.Errorf("reached (-want +got):\n%s", diff)
		}
		if l.requests.spent != 0 || l.requests.reserved != 0 || !l.cost.reserved.IsZero() {
			t.Errorf("left behind: %+v %+v", l.requests, l.cost)
		}
	})
	t.Run("no target", func(t *testing.T) {
		t.Parallel()
		l := &ledger{}
		handle, _ := limitedStack(t, costLimit, l, bounds{}, script(alpha, answers(0)))
		if _, err := handle(t.Context(), newCall(), nil); err == nil {
			t.Fatal("a call without a target was answered")
		}
		if len(l.settled) != 0 {
			t.Errorf("settled %v of nothing", l.settled)
		}
	})
}

// A ledger that breaks is a fault of ours, and no limit of the caller's.
func TestBudget_ABrokenLedger(t *testing.T) {
	t.Parallel()
	l := &ledger{err: errors.New("nil map")}
	u := script(alpha, answers(0))
	handle, _ := limitedStack(t, costLimit, l, bounds{alpha: bound("0.001")}, u)
	_, err := handle(t.Context(), newCall(alpha, beta), nil)
	if f := llm.AsFailure(err); f == nil || f.Class != llm.ClassUnknown || len(u.sends) != 0 {
		t.Errorf("error %v after %d sends, want an unknown one and none", err, len(u.sends))
	}
}

// 200 calls at once on 7 requests: 7 go out.
func TestBudget_NeverOvershoots(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	u := script(alpha, answers(time.Millisecond))
	handle, _ := limitedStack(t, map[string]llm.Limits{"chat": {RequestsPerDay: new(int64(7))}}, l, bounds{alpha: bound("0")}, u)
	ended := make(chan struct{})
	for range 200 {
		go func() {
			defer func() { ended <- struct{}{} }()
			_, _ = handle(context.Background(), newCall(alpha), nil)
		}()
	}
	for range 200 {
		<-ended
	}
	if got := u.calls(alpha); got != 7 {
		t.Errorf("%d calls went out, want 7", got)
	}
	if l.requests.spent != 7 || l.requests.reserved != 0 {
		t.Errorf("%+v, want 7 spent and none reserved", l.requests)
	}
}
