package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

var (
	alpha = llm.Target{Provider: "alpha", Model: "m1", Region: "r1"}
	beta  = llm.Target{Provider: "beta", Model: "m1", Region: "r2"}
	gamma = llm.Target{Provider: "gamma", Model: "m1", Region: "r3"}
	delta = llm.Target{Provider: "delta", Model: "m1", Region: "r4"}
)

// newCall returns a call of the configuration "chat" over the targets.
func newCall(targets ...llm.Target) *llm.Call {
	return &llm.Call{
		RunID:          uuid.MustParse("0190a000-0000-7000-8000-000000000001"),
		CorrelationID:  "corr-1",
		ReceivedAt:     time.Now(),
		Operation:      llm.OperationChat,
		Dialect:        llm.DialectOpenAI,
		Configuration:  "chat",
		RequestedModel: "chat",
		Facts:          llm.Facts{Model: "chat", TextBytes: 12},
		Targets:        targets,
		FallbackOn:     llm.DefaultFallback(),
		StatusOf:       func(error) int { return 502 },
		Deliver:        func(*llm.Result) error { return nil },
		Signals:        &llm.Signals{},
	}
}

// newStream returns the same call, asking for a stream.
func newStream(targets ...llm.Target) *llm.Call {
	call := newCall(targets...)
	call.Facts.Stream = true
	return call
}

// behaviour is what a target does with one send.
type behaviour func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error)

// upstreams is a Dispatcher whose targets behave as scripted: the n-th send to
// a target is its n-th behaviour, and the last one goes on for ever.
type upstreams struct {
	mu      sync.Mutex
	scripts map[llm.Target][]behaviour
	sends   []llm.Target
	at      []time.Time
}

func script(target llm.Target, behaviours ...behaviour) *upstreams {
	return (&upstreams{scripts: map[llm.Target][]behaviour{}}).and(target, behaviours...)
}

func (u *upstreams) and(target llm.Target, behaviours ...behaviour) *upstreams {
	u.scripts[target] = behaviours
	return u
}

func (u *upstreams) Dispatch(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
	return u.next(call.Target)(ctx, call, emit)
}

func (u *upstreams) next(target llm.Target) behaviour {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sends, u.at = append(u.sends, target), append(u.at, time.Now())
	script := u.scripts[target]
	if len(script) > 1 {
		u.scripts[target] = script[1:]
	}
	return script[0]
}

// calls counts the sends to a target.
func (u *upstreams) calls(target llm.Target) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for _, sent := range u.sends {
		if sent == target {
			n++
		}
	}
	return n
}

// answers is a whole answer after a time, with 10 prompt and 2 completion tokens.
func answers(took time.Duration) behaviour {
	return func(ctx context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
		if err := spend(ctx, call, took); err != nil {
			return nil, err
		}
		return &llm.Result{
			Target: call.Target, Status: 200, ContentType: "application/json", Body: []byte(call.Target.Provider),
			Usage: llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(2)}, Latency: took,
		}, nil
	}
}

// fails is a failure after a time; f.Target is filled in.
func fails(f llm.Failure, took time.Duration) behaviour {
	return func(ctx context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
		if err := spend(ctx, call, took); err != nil {
			return nil, err
		}
		failure := f
		failure.Target, failure.Latency = call.Target, took
		if f.Status == 0 {
			return nil, &failure
		}
		return &llm.Result{Target: call.Target, Status: f.Status, Latency: took}, &failure
	}
}

// streams emits the events and then ends, well or with a failure.
func streams(end *llm.Failure, events ...llm.Event) behaviour {
	return func(_ context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		result := &llm.Result{Target: call.Target, Status: 200, Streamed: true}
		for _, event := range events {
			result.OutputBytes += event.TextBytes
			if event.Usage != nil {
				result.Usage = *event.Usage
			}
			if event.Kind == llm.EventContent && result.FirstToken == 0 {
				result.FirstToken = time.Millisecond
			}
			if err := emit(event); err != nil {
				return result, &llm.Failure{Class: llm.ClassCancelled, Reason: llm.CancelReason(err), Target: call.Target, Err: err}
			}
		}
		if end == nil {
			return result, nil
		}
		failure := *end
		failure.Target = call.Target
		return result, &failure
	}
}

func panics(value any) behaviour {
	return func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) { panic(value) }
}

// spend waits as an upstream would, unless the call ends first.
func spend(ctx context.Context, call *llm.Call, took time.Duration) error {
	if took == 0 {
		return nil
	}
	timer := time.NewTimer(took)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return llm.Cancelled(ctx, call.Target)
	case <-timer.C:
		return nil
	}
}

func preamble(raw string) llm.Event { return llm.Event{Kind: llm.EventPreamble, Raw: []byte(raw)} }

func content(raw string) llm.Event {
	return llm.Event{Kind: llm.EventContent, Raw: []byte(raw), TextBytes: len(raw)}
}

func usage(u llm.Usage) llm.Event { return llm.Event{Kind: llm.EventUsage, Usage: &u} }

func done(raw string) llm.Event { return llm.Event{Kind: llm.EventTerminal, Raw: []byte(raw)} }

// client is the far end of emit: it keeps what it is sent. It leaves only once,
// so that whoever writes to it after that is found out.
type client struct {
	events []string
	more   []bool
	leaves int   // after so many events; 0 = never
	why    error // with which error
	left   bool
}

func (c *client) emit(event llm.Event) error {
	if c.leaves > 0 && len(c.events) == c.leaves && !c.left {
		c.left = true
		return c.why
	}
	c.events = append(c.events, string(event.Raw))
	c.more = append(c.more, event.More)
	return nil
}

// records is a Recorder that keeps the runs.
type records struct {
	mu   sync.Mutex
	runs []llm.Run
}

func (r *records) Record(run llm.Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs = append(r.runs, run)
}

func (r *records) Lost(runID uuid.UUID, panicked any, _ []byte) {
	panic(fmt.Sprintf("run %s is lost: %v", runID, panicked))
}

// only returns the one run that was recorded.
func (r *records) only(t *testing.T) llm.Run {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.runs) != 1 {
		t.Fatalf("%d runs recorded, want exactly 1", len(r.runs))
	}
	return r.runs[0]
}

// all returns the runs in the order in which they were recorded.
func (r *records) all() []llm.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.runs)
}

// last returns the run that was recorded last.
func (r *records) last() llm.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs[len(r.runs)-1]
}

// prices is a Pricer: USD per million tokens, input and output, by model.
type prices map[string][2]string

func (p prices) Cost(target llm.Target, u llm.Usage) (decimal.Decimal, bool) {
	price, ok := p[target.Model]
	if !ok {
		return decimal.Decimal{}, false
	}
	in := decimal.RequireFromString(price[0]).Mul(decimal.NewFromInt(u.Input.N))
	out := decimal.RequireFromString(price[1]).Mul(decimal.NewFromInt(u.Output.N))
	return in.Add(out).Shift(-6), true
}

// terminal wraps upstreams with the same policy for every provider.
func terminal(u *upstreams, policy pipeline.Policy) *pipeline.Terminal {
	return pipeline.NewTerminal(u, policies(policy))
}

func policies(policy pipeline.Policy) pipeline.Policies {
	byProvider := map[string]pipeline.Policy{}
	for _, target := range []llm.Target{alpha, beta, gamma, delta} {
		byProvider[target.Provider] = policy
	}
	return pipeline.Policies{
		Providers: byProvider,
		Bulkheads: new(pipeline.Bulkheads),
		Random:    func() float64 { return 0.5 }, // no jitter
	}
}

// wrap composes middlewares around a handler, the first outermost.
func wrap(t *testing.T, handler pipeline.Handler, middlewares ...pipeline.Middleware) pipeline.Handler {
	t.Helper()
	stack, err := pipeline.New(handler, middlewares...)
	if err != nil {
		t.Fatal(err)
	}
	return stack.Handle
}

// The failures that the tests speak of.
var (
	refusedConn = llm.Failure{Class: llm.ClassConnection, Reason: llm.ReasonRefused, Unsent: true}
	resetConn   = llm.Failure{Class: llm.ClassConnection, Reason: llm.ReasonReset}
	timedOut    = llm.Failure{Class: llm.ClassConnection, Reason: llm.ReasonTotalTimeout}
	truncated   = llm.Failure{Class: llm.ClassConnection, Reason: llm.ReasonTruncated, Status: 200}
	inBand      = llm.Failure{Class: llm.ClassServerError, Reason: llm.ReasonOverloaded, Status: 200}
	status500   = llm.Failure{Class: llm.ClassServerError, Reason: llm.ReasonUpstreamStatus, Status: 500}
	status503   = llm.Failure{Class: llm.ClassServerError, Reason: llm.ReasonUpstreamStatus, Status: 503}
	limited     = llm.Failure{Class: llm.ClassRateLimit, Reason: llm.ReasonRateLimited, Status: 429}
	noCredit    = llm.Failure{Class: llm.ClassQuota, Reason: llm.ReasonQuotaExhausted, Status: 429}
	badKey      = llm.Failure{Class: llm.ClassAuth, Reason: llm.ReasonInvalidCredentials, Status: 401}
	unsupported = llm.Failure{Class: llm.ClassConfiguration, Reason: llm.ReasonUnsupported, Status: 501}
	noModel     = llm.Failure{Class: llm.ClassConfiguration, Reason: llm.ReasonModelNotFound, Status: 404}
	badRequest  = llm.Failure{Class: llm.ClassClientError, Reason: llm.ReasonInvalidRequest, Status: 400}
)

func after(f llm.Failure, hint time.Duration) llm.Failure {
	f.RetryAfter = hint
	return f
}
