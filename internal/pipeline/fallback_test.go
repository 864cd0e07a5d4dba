package pipeline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// walk runs a call through fallback over upstreams without retries.
func walk(t *testing.T, u *upstreams, call *llm.Call) (*llm.Result, error) {
	t.Helper()
	handle := wrap(t, terminal(u, pipeline.Policy{}).Handle, pipeline.NewFallback(nil, nil))
	return handle(t.Context(), call, new(client).emit)
}

// Which failures lead to the next target, and what was asked in which order.
func TestFallback_Walk(t *testing.T) {
	t.Parallel()

	openCircuit := llm.Failure{Class: llm.ClassCircuitOpen, Reason: llm.ReasonCircuitOpen}
	tests := []struct {
		name  string
		alpha behaviour
		asked []llm.Target
	}{
		{"the primary answers (CF-F1, CF-F6)", answers(0), []llm.Target{alpha}},
		{"a connection error (CF-F3)", fails(refusedConn, 0), []llm.Target{alpha, beta}},
		{"an open circuit (CF-F4)", fails(openCircuit, 0), []llm.Target{alpha, beta}},
		{"429 (CF-F7, RAT-07)", fails(limited, 0), []llm.Target{alpha, beta}},
		{"500 (CF-F8)", fails(status500, 0), []llm.Target{alpha, beta}},
		{"no credit left (CLS-12)", fails(noCredit, 0), []llm.Target{alpha, beta}},
		{"401 (CF-F9)", fails(badKey, 0), []llm.Target{alpha}},
		{"an unsupported feature (CF-F10)", fails(unsupported, 0), []llm.Target{alpha}},
		{"a configuration error (CF-F11)", fails(noModel, 0), []llm.Target{alpha}},
		{"a bad request (CLS-05)", fails(badRequest, 0), []llm.Target{alpha}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u := script(alpha, tt.alpha).and(beta, answers(0))

			call := newCall(alpha, beta)
			result, err := walk(t, u, call)

			if diff := cmp.Diff(tt.asked, u.sends); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if got := len(call.Signals.Attempts); got != len(tt.asked) {
				t.Errorf("%d attempts are recorded, want %d", got, len(tt.asked))
			}
			if moved := len(tt.asked) == 2; moved && (err != nil || result.Target != beta) {
				t.Errorf("answer = %v, %v, want beta's", result, err)
			}
		})
	}
}

// CF-F9: what may not move on is passed on as it is, the same object.
func TestFallback_PassesTheErrorOnAsItIs(t *testing.T) {
	t.Parallel()

	unclassified := errors.New("nil map")
	final := &llm.Failure{Class: llm.ClassAuth, Reason: llm.ReasonForbidden, Status: 403, Target: beta}
	tests := []struct {
		name string
		end  error
	}{
		{"a failure that stays", final},
		{"an error that nobody classified (CF-F18)", unclassified},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u := script(alpha, fails(status503, 0)).and(beta, func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) {
				return nil, tt.end
			}).and(gamma, answers(0))

			_, err := walk(t, u, newCall(alpha, beta, gamma))

			if err != tt.end { // the very same error is wanted
				t.Errorf("error = %v, want %v itself", err, tt.end)
			}
			if u.calls(gamma) != 0 {
				t.Error("gamma was asked although beta's failure may not move on")
			}
		})
	}
}

// CF-F12: the candidates are asked in order; only the last of them serves.
func TestFallback_LastOneServes_CF_F12(t *testing.T) {
	t.Parallel()

	u := script(alpha, fails(refusedConn, 0)).and(beta, fails(status503, 0)).and(gamma, fails(limited, 0)).and(delta, answers(0))
	call := newCall(alpha, beta, gamma, delta)

	result, err := walk(t, u, call)
	if err != nil {
		t.Fatal(err)
	}
	if result.Target != delta {
		t.Errorf("served by %v, want delta", result.Target)
	}
	if diff := cmp.Diff([]llm.Target{alpha, beta, gamma, delta}, u.sends); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if got := call.Signals.Reached(); got != 4 {
		t.Errorf("attempts = %d, want 4 (CF-F5)", got)
	}
}

// CF-F13, CF-E1, CF-E2, CF-E3, CF-E5: one error about all, in order.
func TestFallback_Exhausted_CF_F13(t *testing.T) {
	t.Parallel()

	u := script(alpha, fails(refusedConn, 0)).and(beta, fails(limited, 0)).and(gamma, fails(status503, 0))

	_, err := walk(t, u, newCall(alpha, beta, gamma))

	var exhausted *llm.ExhaustedError
	if !errors.As(err, &exhausted) {
		t.Fatalf("error = %v, want an ExhaustedError", err)
	}
	var got []string
	for _, f := range exhausted.Failures {
		got = append(got, f.Error())
	}
	want := []string{
		"alpha/m1/r1: connection (connection_refused)",
		"beta/m1/r2: rate_limit (rate_limited), status 429",
		"gamma/m1/r3: server_error (upstream_status), status 503",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	if last := llm.AsFailure(err); last.Target != gamma {
		t.Errorf("represented by %v, want the last failure", last)
	}
}

// CF-F2, CF-F16: one candidate's failure is the call's own error.
func TestFallback_SingleCandidate_CF_F16(t *testing.T) {
	t.Parallel()

	u := script(alpha, fails(status503, 0))
	_, err := walk(t, u, newCall(alpha))

	var exhausted *llm.ExhaustedError
	var f *llm.Failure
	if errors.As(err, &exhausted) || !errors.As(err, &f) || f.Status != 503 {
		t.Errorf("error = %v, want alpha's own failure", err)
	}
	if u.calls(alpha) != 1 {
		t.Errorf("calls = %d, want 1", u.calls(alpha))
	}
}

// CF-F17, FAL-03: no target is asked twice in one call.
func TestFallback_RepeatedCandidates_CF_F17(t *testing.T) {
	t.Parallel()

	u := script(alpha, fails(status503, 0)).and(beta, fails(status503, 0))
	call := newCall(alpha, alpha, beta, alpha, beta)

	if _, err := walk(t, u, call); err == nil {
		t.Fatal("want an error")
	}
	if diff := cmp.Diff([]llm.Target{alpha, beta}, u.sends); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if len(call.Targets) != 5 {
		t.Error("the call's own candidates were changed")
	}
}

func TestFallback_NoCandidate(t *testing.T) {
	t.Parallel()

	_, err := walk(t, script(alpha, answers(0)), newCall())
	if got := llm.Judge(err).Answer; err == nil || got != llm.AnswerInternal {
		t.Errorf("error = %v (%s), want a fault of ours", err, got)
	}
}

func TestFallback_WidenedByTheConfiguration(t *testing.T) {
	t.Parallel()

	call := newCall(alpha, beta)
	call.FallbackOn = llm.ClassSet{llm.ClassAuth: true}
	u := script(alpha, fails(badKey, 0)).and(beta, answers(0))

	if result, err := walk(t, u, call); err != nil || result.Target != beta {
		t.Errorf("answer = %v, %v, want beta's (CLS-07)", result, err)
	}
}

// Each candidate is told whether another is left, and the original call is not
// changed.
func TestFallback_MoreTargets(t *testing.T) {
	t.Parallel()

	var more []bool
	u := script(alpha, fails(status503, 0)).and(beta, fails(status503, 0)).and(gamma, answers(0))
	handle := wrap(t, func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		more = append(more, call.MoreTargets)
		return u.Dispatch(ctx, call, emit)
	}, pipeline.NewFallback(nil, nil))

	call := newCall(alpha, beta, gamma)
	if _, err := handle(t.Context(), call, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]bool{true, true, false}, more); diff != "" {
		t.Errorf("more targets (-want +got):\n%s", diff)
	}
	if !call.Target.IsZero() {
		t.Error("the outer call was aimed at a target")
	}
}

// reversed is a Reorderer.
type reversed struct{}

func (reversed) Reorder(_ context.Context, targets []llm.Target) []llm.Target {
	var back []llm.Target
	for i := len(targets) - 1; i >= 0; i-- {
		back = append(back, targets[i])
	}
	return back
}

func TestFallback_WalksTheHealthOrder_CF_R5(t *testing.T) {
	t.Parallel()

	u := script(alpha, answers(0)).and(beta, fails(status503, 0))
	handle := wrap(t, terminal(u, pipeline.Policy{}).Handle, pipeline.NewFallback(reversed{}, nil))

	if _, err := handle(t.Context(), newCall(alpha, beta), nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]llm.Target{beta, alpha}, u.sends); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// END-04: once the client has seen a part of an answer, no other target's
// answer may follow it, and the failure stays the attempt's own.
func TestFallback_NeverAfterCommit_END_04(t *testing.T) {
	t.Parallel()

	u := script(alpha, streams(&inBand, content("Hel"))).and(beta, streams(nil, content("Bye")))
	var c client
	call := newStream(alpha, beta)
	handle := wrap(t, terminal(u, pipeline.Policy{}).Handle, pipeline.NewFallback(nil, nil))

	_, err := handle(t.Context(), call, c.emit)

	if f := llm.AsFailure(err); f == nil || f.Target != alpha || f.Class != llm.ClassServerError {
		t.Errorf("error = %v, want alpha's own", err)
	}
	if diff := cmp.Diff([]string{"Hel"}, c.events); diff != "" {
		t.Errorf("the client saw (-want +got):\n%s", diff)
	}
	if u.calls(beta) != 0 {
		t.Error("beta was asked after the commit")
	}
}

// END-03: before it, the failed stream leaves no byte.
func TestFallback_BeforeCommit_END_03(t *testing.T) {
	t.Parallel()

	u := script(alpha, streams(&inBand, preamble("role-a"))).
		and(beta, streams(nil, preamble("role-b"), content("ok"), done("[DONE]")))
	var c client
	call := newStream(alpha, beta)
	handle := wrap(t, terminal(u, pipeline.Policy{}).Handle, pipeline.NewFallback(nil, nil))

	result, err := handle(t.Context(), call, c.emit)
	if err != nil || result.Target != beta {
		t.Fatalf("answer = %v, %v, want beta's", result, err)
	}
	if diff := cmp.Diff([]string{"role-b", "ok", "[DONE]"}, c.events); diff != "" {
		t.Errorf("the client saw (-want +got):\n%s", diff)
	}
}

// DIS-01: a call whose time is over asks nobody else, whatever the attempt in
// hand made of it.
func TestFallback_StopsWhenTheCallIsOver_DIS_01(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name   string
		cause  error
		alpha  behaviour
		reason llm.Reason
	}{
		{"the attempt was cancelled", llm.ErrClientLeft, answers(5 * time.Second), llm.ReasonClientLeft},
		{"the attempt failed at that moment", llm.ErrClientLeft, deaf(status503), llm.ReasonClientLeft},
		{"the attempt failed with what may not move on", llm.ErrClientLeft, deaf(llm.Failure{Class: llm.ClassAuth, Status: 401}), llm.ReasonClientLeft},
		{"request_timeout", llm.ErrRequestTimeout, deaf(status503), llm.ReasonRequestTimeout},
		{"the end of draining", llm.ErrShutdown, answers(5 * time.Second), llm.ReasonShutdown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(200*time.Millisecond, func() { cancel(tt.cause) })
				u := script(alpha, tt.alpha).and(beta, answers(0))
				handle := wrap(t, terminal(u, pipeline.Policy{}).Handle, pipeline.NewFallback(nil, nil))

				_, err := handle(ctx, newCall(alpha, beta), nil)

				if f := llm.AsFailure(err); f == nil || f.Class != llm.ClassCancelled || f.Reason != tt.reason {
					t.Errorf("error = %v, want cancelled (%s)", err, tt.reason)
				}
				if u.calls(beta) != 0 {
					t.Error("beta was asked")
				}
			})
		})
	}
}

// deaf does not notice that the call ended, and fails after it.
func deaf(f llm.Failure) behaviour {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		return fails(f, time.Second)(context.WithoutCancel(ctx), call, emit)
	}
}

// The row of an attempt, for each way an attempt can end.
func TestAttemptRow(t *testing.T) {
	t.Parallel()

	failure := func(class llm.FailureClass, reason llm.Reason, outcome llm.Outcome) llm.Attempt {
		return llm.Attempt{Outcome: outcome, FailureClass: class, FailureReason: reason, Reached: true}
	}
	with := func(a llm.Attempt, change func(*llm.Attempt)) llm.Attempt {
		change(&a)
		return a
	}
	tests := []struct {
		name  string
		alpha behaviour
		want  llm.Attempt
	}{
		{"success", answers(300 * time.Millisecond), llm.Attempt{
			Outcome: llm.OutcomeSuccess, UpstreamStatus: 200, Reached: true, Latency: new(300 * time.Millisecond),
		}},
		{"a status", fails(status503, 20*time.Millisecond), with(
			failure(llm.ClassServerError, llm.ReasonUpstreamStatus, llm.OutcomeFailure),
			func(a *llm.Attempt) { a.UpstreamStatus, a.Latency = 503, new(20*time.Millisecond) },
		)},
		{"no answer at all", fails(timedOut, time.Second), with(
			failure(llm.ClassConnection, llm.ReasonTotalTimeout, llm.OutcomeFailure),
			func(a *llm.Attempt) { a.Latency = new(time.Second) },
		)},
		{"a 425 is neutral (CLS-11)", fails(llm.Failure{Class: llm.ClassConnection, Reason: llm.ReasonUpstreamStatus, Status: 425}, 0), with(
			failure(llm.ClassConnection, llm.ReasonUpstreamStatus, llm.OutcomeNeutral),
			func(a *llm.Attempt) { a.UpstreamStatus, a.Latency = 425, new(time.Duration(0)) },
		)},
		{"a cut stream keeps the status it began with", streams(&resetConn, content("x")), with(
			failure(llm.ClassConnection, llm.ReasonReset, llm.OutcomeFailure),
			func(a *llm.Attempt) {
				a.UpstreamStatus, a.Latency, a.TTFT = 200, new(time.Duration(0)), new(time.Millisecond)
			},
		)},
		{"an unclassified error", func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) {
			return nil, errors.New("nil map")
		}, with(
			failure(llm.ClassUnknown, "", llm.OutcomeNeutral),
			func(a *llm.Attempt) { a.Latency = new(time.Duration(0)) },
		)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				call := newCall(alpha)
				_, _ = walk(t, script(alpha, tt.alpha), call)

				want := []llm.Attempt{with(tt.want, func(a *llm.Attempt) {
					a.Target, a.StartedAt, a.FinishedAt = alpha, start, time.Now()
				})}
				if diff := cmp.Diff(want, call.Signals.Attempts); diff != "" {
					t.Errorf("row (-want +got):\n%s", diff)
				}
			})
		})
	}
}
