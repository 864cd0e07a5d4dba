package pipeline_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

const ms = time.Millisecond

// patient is the contract's default policy, without jitter.
var patient = pipeline.Retry{Max: 2, Base: 200 * ms, MaxDelay: 5 * time.Second}

// tried is what one attempt on alpha looks like from outside.
type tried struct {
	Sends   int
	Waits   []time.Duration // between the start of one send and the next
	Retries int
	Failed  string
}

// try runs one attempt on alpha under a policy. Call it in a bubble.
func try(ctx context.Context, t *testing.T, call *llm.Call, policies pipeline.Policies, emit llm.Emit, alphaDoes ...behaviour) tried {
	t.Helper()
	u := script(alpha, alphaDoes...)
	call.Target = alpha
	if len(call.Signals.Attempts) == 0 {
		call.Signals.Open(alpha, time.Now())
	}
	result, err := pipeline.NewTerminal(u, policies).Handle(ctx, call, emit)

	got := tried{Sends: len(u.sends)}
	for i := 1; i < len(u.at); i++ {
		got.Waits = append(got.Waits, u.at[i].Sub(u.at[i-1]))
	}
	if result != nil {
		got.Retries = result.Retries
	}
	if err != nil {
		got.Failed = llm.AsFailure(err).Error()
	}
	return got
}

// DESIGN section 4: what may be sent again to the same target.
func TestRetry_WhatIsRepeated(t *testing.T) {
	t.Parallel()

	status := func(class llm.FailureClass, code int) llm.Failure {
		return llm.Failure{Class: class, Reason: llm.ReasonUpstreamStatus, Status: code}
	}
	connect := llm.Failure{Class: llm.ClassConnection, Reason: llm.ReasonConnectTimeout, Unsent: true}
	dns := llm.Failure{Class: llm.ClassConnection, Reason: llm.ReasonDNS, Unsent: true}
	limitedInBand := llm.Failure{Class: llm.ClassRateLimit, Reason: llm.ReasonRateLimited, Status: 200}
	unreadable := llm.Failure{Class: llm.ClassServerError, Reason: llm.ReasonInvalidBody, Status: 200}

	tests := []struct {
		name    string
		failure llm.Failure
		again   bool
	}{
		{"connection refused", refusedConn, true},
		{"connect timeout", connect, true},
		{"no such host", dns, true},
		{"429", limited, true},
		{"Groq's 498", status(llm.ClassRateLimit, 498), true},
		{"408", status(llm.ClassConnection, 408), true},
		{"500", status500, true},
		{"503", status503, true},
		{"529", status(llm.ClassServerError, 529), true},
		{"no credit left (CLS-01)", noCredit, false},
		{"409", status(llm.ClassClientError, 409), false},
		{"425", status(llm.ClassConnection, 425), false},
		{"reset after the request was sent", resetConn, false},
		{"our own time-out (CF-A5)", timedOut, false},
		{"a cut stream", truncated, false},
		{"an unreadable 2xx", unreadable, false},
		{"overloaded inside a 200", inBand, false},
		{"rate-limited inside a 200", limitedInBand, false},
		{"401 (CF-A3)", badKey, false},
		{"404", noModel, false},
		{"400 (CF-A3)", badRequest, false},
		{"501", unsupported, false},
		{"an upstream 499", status(llm.ClassUnknown, 499), false},
		{"the client left", llm.Failure{Class: llm.ClassCancelled, Reason: llm.ReasonClientLeft}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				got := try(t.Context(), t, newCall(), policies(pipeline.Policy{Retry: patient}), nil, fails(tt.failure, 0), answers(0))
				want := tried{Sends: 1}
				if tt.again {
					want = tried{Sends: 2, Waits: []time.Duration{200 * ms}, Retries: 1}
				} else {
					failure := tt.failure
					failure.Target = alpha
					want.Failed = failure.Error()
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("attempt (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// CF-A1, CF-A3, CF-A4, CF-A7, FAL-01: how often.
func TestRetry_HowOften(t *testing.T) {
	t.Parallel()

	const e503 = "alpha/m1/r1: server_error (upstream_status), status 503"
	tests := []struct {
		name  string
		max   int
		alpha []behaviour
		want  tried
	}{
		{"the third send answers (CF-A3, CF-A7)", 2, []behaviour{fails(status503, 0), fails(refusedConn, 0), answers(0)},
			tried{Sends: 3, Waits: []time.Duration{200 * ms, 400 * ms}, Retries: 2}},
		{"never more than max + 1 (CF-A3)", 2, []behaviour{fails(status503, 0)},
			tried{Sends: 3, Waits: []time.Duration{200 * ms, 400 * ms}, Retries: 2, Failed: e503}},
		{"0 is exactly one request (CF-A4)", 0, []behaviour{fails(status503, 0)}, tried{Sends: 1, Failed: e503}},
		{"a negative number as well (CF-A4)", -3, []behaviour{fails(status503, 0)}, tried{Sends: 1, Failed: e503}},
		{"the last failure is the attempt's, in every respect", 1, []behaviour{fails(limited, 0), fails(noCredit, 0)},
			tried{Sends: 2, Waits: []time.Duration{200 * ms}, Retries: 1, Failed: "alpha/m1/r1: quota (quota_exhausted), status 429"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				retry := patient
				retry.Max = tt.max
				got := try(t.Context(), t, newCall(), policies(pipeline.Policy{Retry: retry}), nil, tt.alpha...)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("attempt (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestRetry_AtMostTen_CF_A1(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		retry := pipeline.Retry{Max: 1000, Base: ms, MaxDelay: ms}
		got := try(t.Context(), t, newCall(), policies(pipeline.Policy{Retry: retry}), nil, fails(status503, 0))
		if got.Sends != 11 {
			t.Errorf("sends = %d, want 11", got.Sends)
		}
	})
}

// delay = max(Retry-After, min(base·2^k ± jitter, max_delay)).
func TestRetry_HowLong(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name    string
		retry   pipeline.Retry
		random  float64
		failure llm.Failure
		want    []time.Duration
	}{
		{"doubles, up to max_delay", pipeline.Retry{Max: 4, Base: 200 * ms, MaxDelay: time.Second}, 0.5, status503,
			[]time.Duration{200 * ms, 400 * ms, 800 * ms, 1000 * ms}},
		{"jitter downwards", pipeline.Retry{Max: 2, Base: 200 * ms, MaxDelay: time.Second, Jitter: 0.2}, 0, status503,
			[]time.Duration{160 * ms, 320 * ms}},
		{"jitter upwards, but not over max_delay", pipeline.Retry{Max: 2, Base: 200 * ms, MaxDelay: 400 * ms, Jitter: 0.2}, 0.75, status503,
			[]time.Duration{220 * ms, 400 * ms}},
		{"the provider's hint (RAT-01)", pipeline.Retry{Max: 1, Base: 10 * ms, MaxDelay: 5 * time.Second}, 0.5, after(limited, time.Second),
			[]time.Duration{time.Second}},
		{"a hint in milliseconds (RAT-03)", pipeline.Retry{Max: 1, Base: 10 * ms, MaxDelay: 5 * time.Second}, 0.5, after(limited, 300*ms),
			[]time.Duration{300 * ms}},
		{"a hint under our own back-off", pipeline.Retry{Max: 1, Base: 500 * ms, MaxDelay: 5 * time.Second}, 0.5, after(status503, 100*ms),
			[]time.Duration{500 * ms}},
		{"a hint of exactly max_delay", pipeline.Retry{Max: 1, Base: 10 * ms, MaxDelay: 2 * time.Second}, 0.5, after(limited, 2*time.Second),
			[]time.Duration{2 * time.Second}},
		{"a huge base does not overflow", pipeline.Retry{Max: 2, Base: math.MaxInt64, MaxDelay: time.Minute}, 0.5, status503,
			[]time.Duration{time.Minute, time.Minute}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				with := policies(pipeline.Policy{Retry: tt.retry})
				with.Random = func() float64 { return tt.random }
				got := try(t.Context(), t, newCall(), with, nil, fails(tt.failure, 0))
				if diff := cmp.Diff(tt.want, got.Waits); diff != "" {
					t.Errorf("waits (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// When no wait is worth it, the failure comes at once.
func TestRetry_NoWaitInVain(t *testing.T) {
	t.Parallel()

	more := func(call *llm.Call) { call.MoreTargets = true }
	deadline := func(left time.Duration) func(*llm.Call) {
		return func(call *llm.Call) { call.Deadline = time.Now().Add(left) }
	}
	tests := []struct {
		name    string
		failure llm.Failure
		call    func(*llm.Call)
		waited  time.Duration // 0 = not repeated
	}{
		{"a hint over max_delay (RAT-05)", after(limited, 3600*time.Second), nil, 0},
		{"a hint over 1 s while a target remains", after(limited, 1001*ms), more, 0},
		{"a hint of 1 s while a target remains", after(limited, time.Second), more, time.Second},
		{"a wait over what is left of the deadline", status503, deadline(199 * ms), 0},
		{"a wait within the deadline", status503, deadline(200 * ms), 200 * ms},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				call := newCall()
				if tt.call != nil {
					tt.call(call)
				}
				start := time.Now()
				got := try(t.Context(), t, call, policies(pipeline.Policy{Retry: patient}), nil, fails(tt.failure, 0), answers(0))

				if again := got.Sends == 2; again != (tt.waited > 0) {
					t.Errorf("sends = %d", got.Sends)
				}
				if waited := time.Since(start); waited != tt.waited {
					t.Errorf("waited %v, want %v", waited, tt.waited)
				}
			})
		})
	}
}

// A probe is one request.
func TestRetry_NotOnAProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		call := newCall()
		call.Signals.Open(alpha, time.Now()).Probe = llm.ProbeCall
		got := try(t.Context(), t, call, policies(pipeline.Policy{Retry: patient}), nil, fails(status503, 0), answers(0))
		if got.Sends != 1 {
			t.Errorf("sends = %d, want 1", got.Sends)
		}
	})
}

// A failure that would be repeated is not, once the client has seen something;
// before that, the failed send leaves no trace.
func TestRetry_NeverAfterCommit(t *testing.T) {
	t.Parallel()

	answer := streams(nil, preamble("again"), content("ok"))
	tests := []struct {
		name  string
		first behaviour
		want  []string
		sends int
	}{
		{"before", streams(&status503, preamble("first")), []string{"again", "ok"}, 2},
		{"after", streams(&status503, preamble("first"), content("Hel")), []string{"first", "Hel"}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var c client
				got := try(t.Context(), t, newStream(), policies(pipeline.Policy{Retry: patient}), c.emit, tt.first, answer)
				if got.Sends != tt.sends {
					t.Errorf("sends = %d, want %d", got.Sends, tt.sends)
				}
				if diff := cmp.Diff(tt.want, c.events); diff != "" {
					t.Errorf("the client saw (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A wait ends with the call; what the target said stays said.
func TestRetry_TheCallEndsDuringTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*ms, func() { cancel(llm.ErrClientLeft) })
		start := time.Now()
		got := try(ctx, t, newCall(), policies(pipeline.Policy{Retry: patient}), nil, fails(status503, 0), answers(0))

		want := tried{Sends: 1, Failed: "alpha/m1/r1: server_error (upstream_status), status 503"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("attempt (-want +got):\n%s", diff)
		}
		if took := time.Since(start); took != 50*ms {
			t.Errorf("ended after %v, want 50ms", took)
		}
	})
}

// latency is that of the last send; earlier ones and the waits are time spent
// in upstreams.
func TestRetry_Times(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		call := newCall(alpha)
		handle := wrap(t, terminal(script(alpha, fails(status503, 100*ms), answers(30*ms)), pipeline.Policy{Retry: patient}).Handle,
			pipeline.NewFallback(nil, nil))
		if _, err := handle(t.Context(), call, nil); err != nil {
			t.Fatal(err)
		}
		row := call.Signals.Attempt()
		if *row.Latency != 30*ms || row.Retries != 1 {
			t.Errorf("latency %v with %d retries, want that of the last send: 30ms with 1", *row.Latency, row.Retries)
		}
		if got, want := call.Signals.UpstreamTime, (100+200+30)*ms; got != want {
			t.Errorf("time in upstreams = %v, want %v", got, want)
		}
	})
}

// A request that comes back without a response has a Result all the same, so
// that its time and its retries are known.
func TestTerminal_ResultWithoutAResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		call := newCall()
		call.Target = alpha
		call.Signals.Open(alpha, time.Now())
		start := time.Now()
		result, err := terminal(script(alpha, fails(timedOut, time.Second)), pipeline.Policy{}).Handle(t.Context(), call, nil)

		want := &llm.Result{Target: alpha, SentAt: start, Latency: time.Second}
		if diff := cmp.Diff(want, result); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		var f *llm.Failure
		if !errors.As(err, &f) || f.Reason != llm.ReasonTotalTimeout {
			t.Errorf("error = %v, want the time-out", err)
		}
		if !call.Signals.Attempt().Reached {
			t.Error("the attempt does not say that the provider was asked")
		}
	})
}

// SCO-03: what befell one credential is made good by another at once, without a
// retry; the circuit and the row see what came of it.
func TestRetry_AnotherCredentialIsNoRetry(t *testing.T) {
	t.Parallel()
	refusal := &llm.CredentialRefusal{Credential: 1, Class: llm.ClassRateLimit, Reason: llm.ReasonRateLimited}
	spent := after(limited, time.Hour)
	spent.OtherCredential, spent.Refusal = true, refusal
	last := limited
	last.Refusal = &llm.CredentialRefusal{Credential: 2, Class: llm.ClassRateLimit, Reason: llm.ReasonRateLimited}

	tests := []struct {
		name    string
		sends   []behaviour
		retry   pipeline.Retry
		calls   int
		outcome llm.Outcome
		refused []llm.CredentialRefusal
	}{
		{"the other serves", []behaviour{fails(spent, 0), answers(0)}, pipeline.Retry{}, 2, llm.OutcomeSuccess, []llm.CredentialRefusal{*refusal}},
		{"no other is left", []behaviour{fails(spent, 0), fails(last, 0)}, pipeline.Retry{}, 2, llm.OutcomeFailure, []llm.CredentialRefusal{*refusal, *last.Refusal}},
		{"retries go on from there", []behaviour{fails(spent, 0), fails(status503, 0), fails(spent, 0), answers(0)}, pipeline.Retry{Max: 1}, 4, llm.OutcomeSuccess, []llm.CredentialRefusal{*refusal, *refusal}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u := script(alpha, tt.sends...)
			call := newCall(alpha)
			handle := wrap(t, terminal(u, pipeline.Policy{Retry: tt.retry}).Handle, pipeline.NewFallback(nil, nil))

			_, _ = handle(t.Context(), call, new(client).emit)

			row := call.Signals.Attempt()
			if u.calls(alpha) != tt.calls || row.Outcome != tt.outcome || row.Retries != tt.calls-1 {
				t.Errorf("%d calls, %s, %d retries; want %d, %s, %d", u.calls(alpha), row.Outcome, row.Retries, tt.calls, tt.outcome, tt.calls-1)
			}
			if diff := cmp.Diff(tt.refused, row.Refusals); diff != "" {
				t.Errorf("refusals (-want +got):\n%s", diff)
			}
		})
	}
}
