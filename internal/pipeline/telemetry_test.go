package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// recorded runs a call through telemetry, fallback and usage and returns the
// one run that came of it, with what the caller got.
func recorded(ctx context.Context, t *testing.T, u *upstreams, call *llm.Call, emit llm.Emit) (llm.Run, *llm.Result, error) {
	t.Helper()
	runs := new(records)
	handle := wrap(t, terminal(u, pipeline.Policy{Retry: patient}).Handle,
		pipeline.NewTelemetry(runs), pipeline.NewFallback(nil, nil), pipeline.NewUsage(priced))
	result, err := handle(ctx, call, emit)
	return runs.only(t), result, err
}

// verdict is what a run row says about the end of a call.
type verdict struct {
	Outcome llm.RunOutcome
	Class   llm.FailureClass
	Reason  llm.Reason
	Status  int
	Served  llm.Target
}

func verdictOf(run llm.Run) verdict {
	return verdict{run.Outcome, run.FailureClass, run.FailureReason, run.HTTPStatus, run.Served}
}

// CF-T1: the fields of a successful call's row.
func TestTelemetry_Success_CF_T1(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		call := newCall(alpha)
		call.TraceID, call.Caller.KeyID = "0af7651916cd43dd8448eb211c80319c", "key-1"
		call.ReceivedAt = time.Now().Add(-5 * ms) // reading the body took 5 ms

		run, result, err := recorded(t.Context(), t, script(alpha, answers(300*ms)), call, nil)
		if err != nil || result.Target != alpha {
			t.Fatalf("answer = %v, %v", result, err)
		}

		want := llm.Run{
			RunID: call.RunID, CorrelationID: "corr-1", TraceID: call.TraceID,
			StartedAt: call.ReceivedAt, FinishedAt: call.ReceivedAt.Add(305 * ms),
			APIKeyID: "key-1", Operation: "chat", Dialect: "openai", Configuration: "chat", RequestedModel: "chat",
			Served: alpha, Outcome: "success", HTTPStatus: 200,
			Latency: 305 * ms, Overhead: 5 * ms,
			Attempts: call.Signals.Attempts,
		}
		if diff := cmp.Diff(want, run, cmpopts.IgnoreFields(llm.Attempt{}, "Cost")); diff != "" {
			t.Errorf("run (-want +got):\n%s", diff)
		}
	})
}

func TestTelemetry_Verdicts(t *testing.T) {
	t.Parallel()

	var noTarget llm.Target
	left := &client{leaves: 1, why: errors.New("broken pipe")}
	slow := &client{leaves: 1, why: llm.ErrSlowReader}
	tests := []struct {
		name string
		u    *upstreams
		call *llm.Call
		emit llm.Emit
		want verdict
	}{
		{"no swap (CF-T7)", script(alpha, answers(0)), newCall(alpha, beta), nil,
			verdict{"success", "", "", 200, alpha}},
		{"a swap (CF-T8)", script(alpha, fails(status503, 0)).and(beta, answers(0)), newCall(alpha, beta), nil,
			verdict{"success", "", "", 200, beta}},
		{"a failure (CF-T2)", script(alpha, fails(status503, 0)), newCall(alpha), nil,
			verdict{"failure", "server_error", "upstream_status", 502, noTarget}},
		{"all failed (CF-T34)", script(alpha, fails(limited, 0)).and(beta, fails(resetConn, 0)), newCall(alpha, beta), nil,
			verdict{"failure", "connection", "connection_reset", 502, noTarget}},
		{"the row the answer stands for, not the last failure",
			script(alpha, fails(llm.Failure{Class: llm.ClassCircuitOpen, Reason: llm.ReasonCircuitOpen}, 0)).and(beta, fails(resetConn, 0)),
			newCall(alpha, beta), nil,
			verdict{"failure", "circuit_open", "circuit_open", 502, noTarget}},
		{"the provider's own refusal is its answer", script(alpha, fails(badRequest, 0)), newCall(alpha), nil,
			verdict{"failure", "client_error", "invalid_request", 502, alpha}},
		{"a stream that broke (END-01)", script(alpha, streams(&truncated, content("Hel"))), newStream(alpha), new(client).emit,
			verdict{"failure", "connection", "truncated_stream", 502, alpha}},
		{"a stream that never began", script(alpha, streams(&truncated, preamble("role"))), newStream(alpha), new(client).emit,
			verdict{"failure", "connection", "truncated_stream", 502, noTarget}},
		{"the client left the stream (DIS-05)", script(alpha, streams(nil, content("a"), content("b"))), newStream(alpha), left.emit,
			verdict{"cancelled", "cancelled", "client_left", 499, alpha}},
		{"the client reads too slowly", script(alpha, streams(nil, content("a"), content("b"))), newStream(alpha), slow.emit,
			verdict{"cancelled", "cancelled", "slow_reader", 499, alpha}},
		{"a fault of ours", script(alpha, func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) {
			return nil, errors.New("nil map")
		}), newCall(alpha), nil, verdict{"failure", "unknown", "", 502, noTarget}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			runs := new(records)
			handle := wrap(t, terminal(tt.u, pipeline.Policy{}).Handle, pipeline.NewTelemetry(runs), pipeline.NewFallback(nil, nil))
			_, _ = handle(t.Context(), tt.call, tt.emit)
			if diff := cmp.Diff(tt.want, verdictOf(runs.only(t))); diff != "" {
				t.Errorf("run (-want +got):\n%s", diff)
			}
		})
	}
}

// DIS-01, DIS-07: how a call ends whose context ends.
func TestTelemetry_EndedCalls(t *testing.T) {
	t.Parallel()

	tests := []struct {
		cause error
		want  verdict
	}{
		{llm.ErrClientLeft, verdict{Outcome: "cancelled", Class: "cancelled", Reason: "client_left", Status: 499}},
		{llm.ErrCallerTimeout, verdict{Outcome: "cancelled", Class: "cancelled", Reason: "caller_timeout", Status: 502}},
		{llm.ErrRequestTimeout, verdict{Outcome: "failure", Class: "cancelled", Reason: "request_timeout", Status: 502}},
		{llm.ErrShutdown, verdict{Outcome: "failure", Class: "cancelled", Reason: "shutdown", Status: 502}},
	}
	for _, tt := range tests {
		t.Run(tt.cause.Error(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(200*ms, func() { cancel(tt.cause) })
				run, _, _ := recorded(ctx, t, script(alpha, answers(5*time.Second)), newCall(alpha, beta), nil)

				if diff := cmp.Diff(tt.want, verdictOf(run)); diff != "" {
					t.Errorf("run (-want +got):\n%s", diff)
				}
				if len(run.Attempts) != 1 || run.Attempts[0].Outcome != llm.OutcomeNeutral {
					t.Errorf("attempts = %+v, want one, neutral", run.Attempts)
				}
				if run.Attempts[0].Usage.Known() {
					t.Error("tokens were invented for an answer nobody saw")
				}
			})
		})
	}
}

// The status is asked of the api, with the error that it will answer.
func TestTelemetry_AsksForTheStatus(t *testing.T) {
	t.Parallel()

	var asked error
	call := newCall(alpha)
	call.StatusOf = func(err error) int {
		asked = err
		return 503
	}
	run, _, err := recorded(t.Context(), t, script(alpha, fails(unsupported, 0)), call, nil)
	if run.HTTPStatus != 503 || asked != err { // the very same error is wanted
		t.Errorf("status %d asked with %v, want 503 with %v", run.HTTPStatus, asked, err)
	}
}

// The first token as the client saw it: over failed sends and targets.
func TestTelemetry_TTFT(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := script(alpha, fails(resetConn, 100*ms)).and(beta, func(_ context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
			_ = emit(preamble("role"))
			<-time.After(40 * ms)
			_ = emit(content("a"))
			<-time.After(500 * ms)
			return &llm.Result{Target: call.Target, Streamed: true, FirstToken: 40 * ms, Latency: 540 * ms}, nil
		})
		run, _, err := recorded(t.Context(), t, u, newStream(alpha, beta), new(client).emit)
		if err != nil {
			t.Fatal(err)
		}
		if run.TTFT == nil || *run.TTFT != 140*ms || !run.Streamed {
			t.Errorf("run's first token after %v, want 140ms", run.TTFT)
		}
		if first := run.Attempts[0].TTFT; first != nil {
			t.Errorf("the failed attempt has a first token after %v", *first)
		}
		if second := run.Attempts[1].TTFT; second == nil || *second != 40*ms {
			t.Errorf("the attempt's own first token after %v, want 40ms", second)
		}
		if run.Overhead != 0 || run.Latency != 640*ms {
			t.Errorf("latency %v, overhead %v, want 640ms and 0", run.Latency, run.Overhead)
		}
	})
}

// Overhead is never negative, whatever the clocks say.
func TestTelemetry_OverheadIsNeverNegative(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		call := newCall(alpha)
		call.ReceivedAt = time.Now().Add(time.Hour)
		run, _, _ := recorded(t.Context(), t, script(alpha, answers(ms)), call, nil)
		if run.Overhead != 0 {
			t.Errorf("overhead = %v, want 0", run.Overhead)
		}
	})
}

// CF-T17, CF-T18, CF-T20: retries belong to their attempt and their call, and
// a failed call keeps its.
func TestTelemetry_Retries_CF_T17_T18_T20(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := script(alpha, fails(status503, 0), fails(status503, 0), answers(0)).and(beta, fails(status503, 0))
		first, _, _ := recorded(t.Context(), t, u, newCall(alpha), nil)
		second, _, _ := recorded(t.Context(), t, u, newCall(alpha), nil)
		third, _, _ := recorded(t.Context(), t, u, newCall(beta), nil)

		got := []int{first.Attempts[0].Retries, second.Attempts[0].Retries, third.Attempts[0].Retries}
		if diff := cmp.Diff([]int{2, 0, 2}, got); diff != "" {
			t.Errorf("retries (-want +got):\n%s", diff)
		}
	})
}

// caught runs a handler and returns the value of its panic, if it panics.
func caught(handle func()) (value any) {
	defer func() { value = recover() }()
	handle()
	return nil
}

// A panic leaves one run and a closed row behind, and goes on as it is.
func TestTelemetry_Panic(t *testing.T) {
	t.Parallel()

	runs := new(records)
	handle := wrap(t, terminal(script(alpha, panics("poisoned")), pipeline.Policy{}).Handle,
		pipeline.NewTelemetry(runs), pipeline.NewFallback(nil, nil), pipeline.NewUsage(priced))
	value := caught(func() { _, _ = handle(t.Context(), newCall(alpha, beta), nil) })

	if value != "poisoned" {
		t.Errorf("the panic went on with %v, want its own value", value)
	}
	run := runs.only(t)
	want := verdict{Outcome: "failure", Class: "unknown", Reason: "panic", Status: 502}
	if diff := cmp.Diff(want, verdictOf(run)); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
	if len(run.Attempts) != 1 || run.Attempts[0].FailureReason != llm.ReasonPanic || run.Attempts[0].FinishedAt.IsZero() {
		t.Errorf("attempts = %+v, want one that says panic", run.Attempts)
	}
}

// A goroutine that ends inside the call leaves its run behind, too.
func TestTelemetry_Goexit(t *testing.T) {
	t.Parallel()

	runs := new(records)
	handle := wrap(t, func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) {
		runtime.Goexit()
		return nil, nil
	}, pipeline.NewTelemetry(runs), pipeline.NewFallback(nil, nil))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = handle(context.Background(), newCall(alpha), nil)
	}()
	<-ended

	if got := runs.only(t); got.FailureReason != llm.ReasonPanic {
		t.Errorf("run = %+v, want reason panic", verdictOf(got))
	}
}

// brokenRecorder panics after it was called.
type brokenRecorder struct {
	called int
	lost   []string
}

func (r *brokenRecorder) Record(llm.Run) {
	r.called++
	panic("no queue")
}

func (r *brokenRecorder) Lost(runID uuid.UUID, panicked any, stack []byte) {
	where := "somewhere"
	if strings.Contains(string(stack), "brokenRecorder).Record") {
		where = "while recording"
	}
	r.lost = append(r.lost, fmt.Sprint(runID, " ", where, ": ", panicked))
}

// CF-T10, CF-T11: a recorder that fails masks neither answer nor error nor
// panic.
func TestTelemetry_RecorderFailureIsHarmless_CF_T10_T11(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name  string
		alpha behaviour
		want  string
	}{
		{"an answer", answers(0), "alpha answered"},
		{"a failure", fails(badKey, 0), "alpha/m1/r1: auth (invalid_credentials), status 401"},
		{"a panic", panics("poisoned"), "panic: poisoned"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var recorder brokenRecorder
			handle := wrap(t, terminal(script(alpha, tt.alpha), pipeline.Policy{}).Handle,
				pipeline.NewTelemetry(&recorder), pipeline.NewFallback(nil, nil))

			var got string
			call := newCall(alpha)
			value := caught(func() {
				if result, err := handle(t.Context(), call, nil); err != nil {
					got = err.Error()
				} else {
					got = string(result.Body) + " answered"
				}
			})
			if value != nil {
				got = fmt.Sprintf("panic: %v", value)
			}

			if got != tt.want {
				t.Errorf("outcome = %q, want %q", got, tt.want)
			}
			if recorder.called != 1 {
				t.Errorf("recorded %d times, want once", recorder.called)
			}
			if diff := cmp.Diff([]string{call.RunID.String() + " while recording: no queue"}, recorder.lost); diff != "" {
				t.Errorf("lost runs (-want +got):\n%s", diff)
			}
		})
	}
}

// CF-T9: a stack without telemetry answers all the same.
func TestStack_WithoutTelemetry_CF_T9(t *testing.T) {
	t.Parallel()

	handle := wrap(t, terminal(script(alpha, answers(0)), pipeline.Policy{}).Handle, pipeline.NewFallback(nil, nil))
	if result, err := handle(t.Context(), newCall(alpha), nil); err != nil || result.Target != alpha {
		t.Errorf("answer = %v, %v", result, err)
	}
}
