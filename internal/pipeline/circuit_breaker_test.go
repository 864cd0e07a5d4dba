package pipeline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// What one result does to a closed circuit.
func TestCircuitBreaker_Closed(t *testing.T) {
	t.Parallel()

	unrelated := func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) { return nil, errors.New("nil map") }
	tests := []struct {
		name      string
		threshold int
		streak    int // before
		alpha     behaviour
		want      circuit
	}{
		{"a success without a streak (CF-B3)", 3, 0, answers(0), circuit{State: "closed"}},
		{"one failure below the threshold (CF-B5)", 3, 0, fails(refusedConn, 0), circuit{State: "closed", Streak: 1}},
		{"the third failure (CF-B4)", 3, 2, fails(refusedConn, 0), circuit{State: "open", Streak: 3, Cause: "connection"}},
		{"500 counts (CF-B6)", 3, 0, fails(status500, 0), circuit{State: "closed", Streak: 1}},
		{"400 does not (CF-B7, CLS-05)", 3, 0, fails(badRequest, 0), circuit{State: "closed"}},
		{"a success ends a streak (CF-B12)", 3, 2, answers(0), circuit{State: "closed"}},
		{"401 leaves a streak alone (CF-B13)", 3, 2, fails(badKey, 0), circuit{State: "closed", Streak: 2}},
		{"429 trips (CF-B14)", 1, 0, fails(limited, 0), circuit{State: "open", Streak: 1, Cause: "rate_limit"}},
		{"an unrelated error does not (CF-B15)", 1, 0, unrelated, circuit{State: "closed"}},
		{"a model that does not exist does not", 1, 0, fails(noModel, 0), circuit{State: "closed"}},
		{"425 does not", 1, 0, fails(llm.Failure{Class: llm.ClassConnection, Status: 425}, 0), circuit{State: "closed"}},
		{"an upstream 499 does not", 1, 0, fails(llm.Failure{Class: llm.ClassUnknown, Status: 499}, 0), circuit{State: "closed"}},
		{"a cut stream trips (END-01)", 1, 0, streams(&truncated, content("Hel")), circuit{State: "open", Streak: 1, Cause: "connection"}},
		{"an error inside a stream trips (R18, END-04)", 1, 0, streams(&inBand, content("Hel")), circuit{State: "open", Streak: 1, Cause: "server_error"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := guard(t, threshold(tt.threshold), pipeline.Policy{}, script(alpha, fails(refusedConn, 0)))
				g.calls(tt.streak)
				g.u.and(alpha, tt.alpha)

				_, _ = g.handle(t.Context(), newStream(alpha), new(client).emit)
				g.wants(tt.want)
			})
		})
	}
}

// CF-B4: the breaker changes no error.
func TestCircuitBreaker_PassesTheErrorOn_CF_B4(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		want := &llm.Failure{Class: llm.ClassConnection, Reason: llm.ReasonReset, Target: alpha}
		g := guard(t, threeInARow, pipeline.Policy{}, script(alpha, func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) {
			return nil, want
		}))
		for range 3 {
			if _, err := g.call(); err != error(want) { // the very same error is wanted
				t.Errorf("error = %v, want %v itself", err, want)
			}
		}
	})
}

// CF-B1: a breaker that is off stands in nobody's way, even of an open circuit.
func TestCircuitBreaker_Disabled_CF_B1(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, threeInARow, pipeline.Policy{}, script(alpha, answers(0)))
		g.opened()
		g.circuits.Reconfigure(func(string) breaker.Settings { return breaker.Settings{} })

		row, err := g.call()
		if err != nil {
			t.Fatal(err)
		}
		if row.CircuitState != "" || row.CircuitGeneration != 0 || row.Probe != "" {
			t.Errorf("row tells of a circuit: %+v", row)
		}
	})
}

// CF-B8: an open circuit refuses, names the target and the wait, and asks
// nobody.
func TestCircuitBreaker_Open_CF_B8(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, threeInARow, pipeline.Policy{}, script(alpha, answers(0)))
		g.opened()
		asked := g.u.calls(alpha)
		<-time.After(12 * time.Second)

		row, err := g.call()

		var f *llm.Failure
		if !errors.As(err, &f) {
			t.Fatalf("error = %v, want a failure", err)
		}
		f.Err = nil
		want := &llm.Failure{
			Class: llm.ClassCircuitOpen, Reason: llm.ReasonCircuitOpen, Target: alpha,
			RetryAfter: 18 * time.Second, OpenedBy: llm.ClassConnection,
		}
		if diff := cmp.Diff(want, f); diff != "" {
			t.Errorf("failure (-want +got):\n%s", diff)
		}
		if got := g.u.calls(alpha) - asked; got != 0 {
			t.Errorf("alpha was asked %d times", got)
		}
		wantRow := llm.Attempt{
			Target: alpha, StartedAt: row.StartedAt, FinishedAt: row.FinishedAt,
			Outcome: llm.OutcomeRefused, FailureClass: llm.ClassCircuitOpen, FailureReason: llm.ReasonCircuitOpen,
			CircuitState: "open", CircuitGeneration: 2,
		}
		if diff := cmp.Diff(wantRow, row); diff != "" {
			t.Errorf("row (-want +got):\n%s", diff)
		}
	})
}

// FAL-07: with every circuit open the call fails at once; its rows say refused.
func TestCircuitBreaker_AllOpen_FAL_07(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, threshold(1), pipeline.Policy{}, script(alpha, fails(after(status503, 7200*ms), 0)).and(beta, fails(after(status503, 3400*ms), 0)))
		for _, target := range []llm.Target{alpha, beta} {
			_, _ = g.handle(t.Context(), newCall(target), nil)
		}
		g.runs.runs = nil

		_, err := g.handle(t.Context(), newCall(alpha, beta), nil)

		if got := llm.Judge(err); got.Answer != llm.AnswerCircuitOpen || got.RetryAfter != 4*time.Second {
			t.Errorf("answer %s after %v, want circuit_open after 4s", got.Answer, got.RetryAfter)
		}
		run := g.runs.only(t)
		if len(run.Attempts) != 2 || run.FailureClass != llm.ClassCircuitOpen || run.Outcome != llm.RunFailure {
			t.Errorf("run = %+v, want two attempts and class circuit_open", run)
		}
		for _, row := range run.Attempts {
			if row.Outcome != llm.OutcomeRefused || row.Reached || row.Latency != nil {
				t.Errorf("row = %+v, want refused and not reached", row)
			}
		}
		if len(g.u.sends) != 2 {
			t.Errorf("upstreams were asked %d times, want only the two that opened the circuits", len(g.u.sends))
		}
	})
}

// T4: who says how long, is left alone exactly that long.
func TestCircuitBreaker_Hints(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name    string
		failure llm.Failure
		want    time.Duration // 0 = closed
	}{
		{"429 with a hint", after(limited, 17*time.Second), 17 * time.Second},
		{"503 with a hint", after(status503, 5*time.Second), 5 * time.Second},
		{"another gateway's 503 circuit_open", after(status503, 21*time.Second), 21 * time.Second},
		{"a hint over max_retry_after (RAT-05)", after(limited, 3*time.Hour), time.Hour},
		{"no credit left", noCredit, 10 * time.Minute},
		{"no credit left, a shorter hint", after(noCredit, time.Minute), 10 * time.Minute},
		{"no credit left, a longer hint", after(noCredit, 30*time.Minute), 30 * time.Minute},
		{"a hint on what does not trip", after(badRequest, time.Minute), 0},
		{"no hint, below the threshold", limited, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := guard(t, threeInARow, pipeline.Policy{}, script(alpha, fails(tt.failure, 0)))
				g.calls(1)

				snapshot, _ := g.circuits.Circuit(alpha.Key())
				if snapshot.RetryAfter != tt.want || (snapshot.State == breaker.Open) != (tt.want > 0) {
					t.Errorf("circuit is %v for %v, want open for %v", snapshot.State, snapshot.RetryAfter, tt.want)
				}
			})
		})
	}
}

// RAT-09: circuits that rate limits opened are rate limits.
func TestCircuitBreaker_OpenedByRateLimits_RAT_09(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, threeInARow, pipeline.Policy{},
			script(alpha, fails(after(limited, 30*time.Second), 0)).and(beta, fails(after(limited, 7*time.Second), 0)))
		for _, want := range []string{"asked", "refused"} {
			_, err := g.handle(t.Context(), newCall(alpha, beta), nil)
			if got := llm.Judge(err); got.Answer != llm.AnswerRateLimited || got.RetryAfter != 7*time.Second {
				t.Errorf("%s: answer %s after %v, want upstream_rate_limited after 7s", want, got.Answer, got.RetryAfter)
			}
		}
		if len(g.u.sends) != 2 {
			t.Errorf("upstreams were asked %d times, want 2", len(g.u.sends))
		}
	})
}

// One call counts once, however many sends it made.
func TestCircuitBreaker_SeesOnlyTheExhaustedRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, threeInARow, pipeline.Policy{Retry: patient}, script(alpha, fails(status503, 0)))
		g.calls(1)
		if got := g.u.calls(alpha); got != 3 {
			t.Fatalf("calls(alpha) = %d, want 3", got)
		}
		g.wants(circuit{State: "closed", Streak: 1})

		g.u.and(alpha, fails(status503, 0), answers(0))
		g.calls(1)
		g.wants(circuit{State: "closed"})
	})
}

// Failures that take longer than a streak is remembered add up all the same.
func TestCircuitBreaker_SlowFailuresAddUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, threeInARow, pipeline.Policy{}, script(alpha, fails(timedOut, 10*time.Minute)))
		g.calls(3)
		g.wants(circuit{State: "open", Streak: 3})
	})
}

// What says nothing about a target leaves its circuit alone (DIS-03, R15, R17).
func TestCircuitBreaker_NeutralEnds_R15_R17(t *testing.T) {
	t.Parallel()

	for _, cause := range []error{llm.ErrClientLeft, llm.ErrCallerTimeout, llm.ErrRequestTimeout, llm.ErrMaxStream, llm.ErrShutdown} {
		t.Run(cause.Error(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := guard(t, threshold(1), pipeline.Policy{}, script(alpha, answers(300*ms)))
				for range 20 {
					ctx, cancel := context.WithCancelCause(t.Context())
					time.AfterFunc(50*ms, func() { cancel(cause) })
					_, _ = g.handle(ctx, newCall(alpha), nil)
				}
				snapshot, _ := g.circuits.Circuit(alpha.Key())
				if snapshot.State != breaker.Closed || snapshot.Calls != 0 || snapshot.Neutral != 20 {
					t.Errorf("circuit = %+v, want closed with 20 neutral ends", snapshot)
				}
			})
		})
	}
}

// R18: a client that leaves after the end of a stream has had its answer; one
// that leaves before it says nothing.
func TestCircuitBreaker_TheClientLeavesAStream_R18(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, threshold(2), pipeline.Policy{}, script(alpha, streams(nil, content("a"), content("b"), done("[DONE]"))))
		for _, events := range []int{1, 3} {
			_, _ = g.handle(t.Context(), newStream(alpha), (&client{leaves: events, why: llm.ErrClientLeft}).emit)
		}
		snapshot, _ := g.circuits.Circuit(alpha.Key())
		if snapshot.Calls != 1 || snapshot.Failures != 0 || snapshot.Neutral != 1 {
			t.Errorf("circuit = %+v, want one success and one neutral end", snapshot)
		}
	})
}

// A full bulkhead is no fault of the provider.
func TestCircuitBreaker_SaturationIsNeutral(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, threshold(1), pipeline.Policy{MaxConcurrent: 1}, script(alpha, answers(time.Second)))
		running := start(t.Context(), g.handle, newCall(alpha))
		synctest.Wait()

		row, err := g.call()
		if f := llm.AsFailure(err); f == nil || f.Class != llm.ClassSaturated || row.Reached || row.Outcome != llm.OutcomeRefused {
			t.Errorf("error = %v, row %+v, want saturated and not reached", err, row)
		}
		g.wants(circuit{State: "closed"})
		if err := running(); err != nil {
			t.Error(err)
		}
	})
}

// R13: a panic is a failure of the target, and the row agrees with the circuit.
func TestCircuitBreaker_Panic_R13(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, threeInARow, pipeline.Policy{}, script(alpha, panics("poisoned")))
		if value := caught(func() { g.calls(1) }); value != "poisoned" {
			t.Errorf("the panic went on with %v, want its own value", value)
		}
		row := g.runs.last().Attempts[0]
		if row.Outcome != llm.OutcomeFailure || row.FailureReason != llm.ReasonPanic {
			t.Errorf("row = %+v, want a failure by panic", row)
		}
		g.wants(circuit{State: "closed", Streak: 1})
	})
}

// A provider that is down touches neither calls nor circuit of another.
func TestCircuitBreaker_ProvidersShareNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sibling := llm.Target{Provider: alpha.Provider, Model: "m2", Region: alpha.Region}
		g := guard(t, threeInARow, pipeline.Policy{}, script(alpha, answers(0)).and(beta, answers(0)).and(sibling, answers(0)))
		g.opened()
		for _, target := range []llm.Target{beta, sibling} {
			if _, err := g.handle(t.Context(), newCall(target), nil); err != nil {
				t.Errorf("%v: %v", target, err)
			}
			if snapshot, _ := g.circuits.Circuit(target.Key()); snapshot.State != breaker.Closed || snapshot.Failures != 0 {
				t.Errorf("circuit of %v = %+v", target, snapshot)
			}
		}
	})
}
