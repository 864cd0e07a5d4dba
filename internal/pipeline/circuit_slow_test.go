package pipeline_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// slowAfter is how long the requests of these tests may take.
func slowAfter(_ string, f llm.Facts) time.Duration {
	return pipeline.SlowCall{Base: 2 * time.Second, Per1kOutput: time.Second}.After(f)
}

// bySlowCalls opens when more than half of at least two calls were slow.
func bySlowCalls() breaker.Settings {
	settings := threeInARow
	settings.FailureThreshold, settings.FailureRate = 0, 0
	settings.SlowRate, settings.SlowCancels, settings.MinCalls = breaker.All/2, true, 2
	settings.Window = breaker.Window{Calls: 20}
	return settings
}

// R20: the threshold is taken of the size of the request, once.
func TestSlowCall_After_R20(t *testing.T) {
	t.Parallel()
	sized := pipeline.SlowCall{Base: 2 * time.Second, Per1kInput: 200 * time.Millisecond, Per1kOutput: 15 * time.Second, Max: time.Minute}
	unbounded := sized
	unbounded.Max = 0
	tests := map[string]struct {
		limit pipeline.SlowCall
		facts llm.Facts
		want  time.Duration
	}{
		"nothing known":      {sized, llm.Facts{}, 2 * time.Second},
		"a prompt":           {sized, llm.Facts{TextBytes: 40_000}, 4 * time.Second},
		"an answer":          {sized, llm.Facts{MaxOutput: 500}, 9500 * time.Millisecond},
		"both":               {sized, llm.Facts{TextBytes: 2000, MaxOutput: 1000}, 17100 * time.Millisecond},
		"over the limit":     {sized, llm.Facts{MaxOutput: 4000}, time.Minute},
		"without a limit":    {unbounded, llm.Facts{MaxOutput: 4000}, 62 * time.Second},
		"an absurd request":  {unbounded, llm.Facts{MaxOutput: 1 << 62}, 100 * 365 * 24 * time.Hour},
		"the same for every": {pipeline.SlowCall{Base: 10 * time.Second}, llm.Facts{TextBytes: 1 << 20, MaxOutput: 1 << 20}, 10 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tt.limit.After(tt.facts); got != tt.want {
				t.Errorf("After = %v, want %v", got, tt.want)
			}
		})
	}
}

// A slow call shows in its row and in the circuit, which opens by its share.
func TestCircuitBreaker_SlowCallsOpen_T3(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, bySlowCalls(), pipeline.Policy{}, script(alpha, answers(2*time.Second), answers(2001*ms), answers(3*time.Second)))
		for i, slow := range []bool{false, true, true} {
			if row, err := g.call(); err != nil || row.Slow != slow {
				t.Errorf("call %d: slow %t, %v, want slow %t", i+1, row.Slow, err, slow)
			}
		}
		if s, _ := g.circuits.Circuit(alpha.Key()); s.State != breaker.Open || s.Reason != breaker.ReasonSlowRate || s.Slow != 2 || s.Calls != 3 {
			t.Errorf("circuit = %+v, want open by its slow calls, two of three", s)
		}
		if _, err := g.call(); llm.AsFailure(err).Class != llm.ClassCircuitOpen {
			t.Errorf("the next call: %v, want it refused", err)
		}
	})
}

// R20: a stream is as slow as its first content; how long it goes on says
// nothing, and neither does what comes before.
func TestCircuitBreaker_AStreamIsTimedToItsFirstContent_R20(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		wait time.Duration
		slow bool
	}{"in time": {2 * time.Second, false}, "late": {2001 * ms, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := guard(t, bySlowCalls(), pipeline.Policy{}, script(alpha, func(_ context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
					_ = emit(preamble("role"))
					<-time.After(tt.wait)
					_ = emit(content("a"))
					<-time.After(time.Hour)
					_ = emit(content("b"))
					return &llm.Result{Target: call.Target, Streamed: true, Latency: time.Hour}, nil
				}))
				call := newStream(alpha)
				if _, err := g.handle(t.Context(), call, new(client).emit); err != nil {
					t.Fatal(err)
				}
				if got := call.Signals.Attempt().Slow; got != tt.slow {
					t.Errorf("slow %t, want %t", got, tt.slow)
				}
			})
		})
	}
}

// R16, R17: who gives a call up when it is slow says so; before, and for other
// reasons, a cancelled call says nothing.
func TestCircuitBreaker_GivingASlowCallUpCounts_R16(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		after time.Duration
		cause error
		want  uint64 // slow calls
	}{
		"the client left when it was slow":      {2500 * ms, llm.ErrClientLeft, 1},
		"the client left before":                {2 * time.Second, llm.ErrClientLeft, 0},
		"its own deadline, when it was slow":    {2500 * ms, llm.ErrCallerTimeout, 1},
		"its own deadline, before":              {time.Second, llm.ErrCallerTimeout, 0},
		"request_timeout, when it was slow":     {2500 * ms, llm.ErrRequestTimeout, 1},
		"the gateway stops":                     {2500 * ms, llm.ErrShutdown, 0},
		"the client did not read what had come": {2500 * ms, llm.ErrSlowReader, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := guard(t, bySlowCalls(), pipeline.Policy{}, script(alpha, answers(time.Hour)))
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(tt.after, func() { cancel(tt.cause) })
				_, _ = g.handle(ctx, newCall(alpha), nil)
				if s, _ := g.circuits.Circuit(alpha.Key()); s.Slow != tt.want || s.Calls != tt.want || s.Failures != 0 {
					t.Errorf("%d calls, %d slow, %d failed, want %d slow and nothing else", s.Calls, s.Slow, s.Failures, tt.want)
				}
			})
		})
	}
}
