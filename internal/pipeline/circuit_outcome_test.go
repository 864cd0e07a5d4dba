package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// counted is what a circuit made of the calls so far.
type counted struct {
	State                          string
	Calls, Failures, Slow, Neutral uint64
	Streak                         int
}

func (g *guarded) counted() counted {
	s, _ := g.circuits.Circuit(alpha.Key())
	return counted{s.State.String(), s.Calls, s.Failures, s.Slow, s.Neutral, s.ConsecutiveFailures}
}

// after one failure, a second one, or an end that neither trips nor resets.
var (
	secondFailure = counted{State: "closed", Calls: 2, Failures: 2, Streak: 2}
	noSample      = counted{State: "closed", Calls: 1, Failures: 1, Streak: 1, Neutral: 1}
)

// R14: every class of failure is one of the target or says nothing about it. A
// class without a line here fails.
func TestCircuitBreaker_EveryClassHasItsOutcome_R14(t *testing.T) {
	t.Parallel()
	want := map[llm.FailureClass]counted{
		llm.ClassConnection:    secondFailure,
		llm.ClassServerError:   secondFailure,
		llm.ClassRateLimit:     secondFailure,
		llm.ClassQuota:         {State: "open", Calls: 2, Failures: 2, Streak: 2}, // T4
		llm.ClassAuth:          noSample,
		llm.ClassConfiguration: noSample,
		llm.ClassClientError:   noSample,
		llm.ClassCircuitOpen:   noSample, // of another breaker in this process
		llm.ClassSaturated:     noSample,
		llm.ClassUnfit:         noSample,
		llm.ClassBudgetDenied:  noSample,
		llm.ClassIdempotency:   noSample,
		llm.ClassCancelled:     noSample,
		llm.ClassUnknown:       noSample,
	}
	for _, class := range llm.Classes() {
		t.Run(string(class), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := guard(t, threeInARow, pipeline.Policy{}, script(alpha, fails(status500, 0), fails(llm.Failure{Class: class}, 0)))
				g.calls(2)
				if diff := cmp.Diff(want[class], g.counted()); diff != "" {
					t.Errorf("circuit (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// R17: a clock that the target let run out is a failure of the target.
func TestCircuitBreaker_ClocksOfTheTargetCount_R17(t *testing.T) {
	t.Parallel()
	for _, reason := range []llm.Reason{
		llm.ReasonConnectTimeout, llm.ReasonFirstTokenTimeout, llm.ReasonIdleTimeout, llm.ReasonTotalTimeout,
	} {
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				clock := llm.Failure{Class: llm.ClassConnection, Reason: reason}
				g := guard(t, threeInARow, pipeline.Policy{}, script(alpha, fails(status500, 0), fails(clock, time.Second)))
				g.calls(2)
				if diff := cmp.Diff(secondFailure, g.counted()); diff != "" {
					t.Errorf("circuit (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// C40: an answer with status 200 that is marked as none counts as a failure; one
// that is not marked does not.
func TestCircuitBreaker_AMarkedResultIsAFailure_C40(t *testing.T) {
	t.Parallel()
	marked := func(reason llm.Reason) llm.Failure {
		return llm.Failure{Class: llm.ClassServerError, Reason: reason, Status: 200}
	}
	tests := map[string]struct {
		alpha behaviour
		want  counted
	}{
		"an answer":                {answers(0), counted{State: "closed", Calls: 2, Failures: 1}},
		"no body":                  {fails(marked(llm.ReasonEmptyBody), 0), secondFailure},
		"a body that is no answer": {fails(marked(llm.ReasonInvalidBody), 0), secondFailure},
		"an error as the body":     {fails(marked(llm.ReasonOverloaded), 0), secondFailure},
		"a stream that is cut":     {fails(truncated, 0), secondFailure},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := guard(t, threeInARow, pipeline.Policy{}, script(alpha, fails(status500, 0), tt.alpha))
				g.calls(2)
				if diff := cmp.Diff(tt.want, g.counted()); diff != "" {
					t.Errorf("circuit (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// R19: a failure that trips and that also has a mark by which it says nothing
// about the target says nothing, whatever wait it asks for.
func TestCircuitBreaker_IgnoredBeatsRecorded_R19(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		recorded llm.Failure
		ignored  func(*llm.Failure)
	}{
		"425: too early is no fault of the provider": {after(status503, 9*time.Second), func(f *llm.Failure) { f.Status = 425 }},
		"another credential may serve":               {after(limited, 9*time.Second), func(f *llm.Failure) { f.OtherCredential = true }},
		"another credential has credit left":         {noCredit, func(f *llm.Failure) { f.OtherCredential = true }},
		"the connection broke because the client left": {resetConn, func(f *llm.Failure) {
			broken := *f
			*f = llm.Failure{Class: llm.ClassCancelled, Reason: llm.ReasonClientLeft, Err: &broken}
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				both := tt.recorded
				tt.ignored(&both)

				g := guard(t, threshold(1), pipeline.Policy{}, script(alpha, fails(both, 0), fails(tt.recorded, 0)))
				if both.OtherCredential {
					g.u.and(alpha, again(33, fails(both, 0), fails(tt.recorded, 0))...)
				}
				g.calls(1)
				if diff := cmp.Diff(counted{State: "closed", Neutral: 1}, g.counted()); diff != "" {
					t.Errorf("with both (-want +got):\n%s", diff)
				}
				g.calls(1)
				if got := g.counted(); got.State != "open" || got.Failures != 1 {
					t.Errorf("without the mark: got %+v, want it open by that one failure", got)
				}
			})
		})
	}
}

// again is a script that behaves the first way so many times, then the other.
func again(times int, first, then behaviour) []behaviour {
	var all []behaviour
	for range times {
		all = append(all, first)
	}
	return append(all, then)
}

// C104: a call that its client cancelled, or whose time the client had set, is
// not counted; by switch it is, as slow and not as failed, when it had become so
// by then (R16).
func TestCircuitBreaker_TheClientsOwnEndIsNotCounted_C104(t *testing.T) {
	t.Parallel()
	switchedOff := bySlowCalls()
	switchedOff.SlowCancels = false
	circuits := map[string]struct {
		settings breaker.Settings
		want     counted
	}{
		"by default":   {threshold(1), counted{State: "closed", Neutral: 1}},
		"switched off": {switchedOff, counted{State: "closed", Neutral: 1}},
		"switched on":  {bySlowCalls(), counted{State: "closed", Calls: 1, Slow: 1, Neutral: 1}},
	}
	ends := map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cancel": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return leaving(ctx, llm.ErrClientLeft)
		},
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return leaving(ctx, llm.ErrCallerTimeout)
		},
		"cancel without a cause": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return leaving(ctx, nil)
		},
		"deadline without a cause": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 2500*ms)
		},
	}
	for name, tt := range circuits {
		for end, of := range ends {
			t.Run(name+", "+end, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					g := guard(t, tt.settings, pipeline.Policy{}, script(alpha, answers(time.Hour)))
					ctx, cancel := of(t.Context())
					defer cancel()
					if _, err := g.handle(ctx, newCall(alpha), nil); llm.AsFailure(err).Class != llm.ClassCancelled {
						t.Fatalf("the call ended with %v, want it cancelled", err)
					}
					if diff := cmp.Diff(tt.want, g.counted()); diff != "" {
						t.Errorf("circuit (-want +got):\n%s", diff)
					}
				})
			})
		}
	}
}

// leaving ends when calls of these tests have become slow.
func leaving(ctx context.Context, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	time.AfterFunc(2500*ms, func() { cancel(cause) })
	return ctx, func() { cancel(nil) }
}

// C105: whatever the breaker makes of a result, its caller gets that result and
// that error, and no error stays none.
func TestCircuitBreaker_HandsOnWhatItJudged_C105(t *testing.T) {
	t.Parallel()
	ignored, recorded, left := badRequest, status500, llm.Failure{Class: llm.ClassCancelled, Reason: llm.ReasonClientLeft}
	tests := map[string]error{
		"none":                nil,
		"ignored":             &ignored,
		"recorded":            &recorded,
		"cancelled":           &left,
		"ignored, wrapped":    fmt.Errorf("send: %w", &ignored),
		"recorded, wrapped":   fmt.Errorf("send: %w", &recorded),
		"of no class":         errors.New("boom"),
		"of two, one ignored": errors.Join(&ignored, &recorded),
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				answer := &llm.Result{Target: alpha, Status: 200}
				u := script(alpha, func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) { return answer, want })
				g := guard(t, threeInARow, pipeline.Policy{}, u)
				alone := pipeline.NewCircuitBreaker(g.circuits, func(string) time.Duration { return 0 }, slowAfter)
				call := newCall(alpha)
				call.Target = alpha
				call.Signals.Open(alpha, time.Now())

				result, err := alone.Wrap(u.Dispatch)(t.Context(), call, nil)
				if result != answer || err != want { // the very same error is wanted
					t.Errorf("got %p, %v; want %p, %v", result, err, answer, want)
				}
			})
		})
	}
}

// R6: a refusal is final for its target and says nothing about others: the next
// one is asked at once, and nobody waits to ask the same again.
func TestCircuitBreaker_ARefusalMovesOnAndIsNotRepeated_R6(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, threeInARow, pipeline.Policy{Retry: patient}, script(alpha, answers(0)).and(beta, answers(0)))
		g.opened()
		asked, began := g.u.calls(alpha), time.Now()

		call := newCall(alpha, beta)
		result, err := g.handle(t.Context(), call, nil)
		if err != nil || result.Target != beta {
			t.Fatalf("with another target: got %v, %v, want beta's answer", result, err)
		}
		if rows := call.Signals.Attempts; len(rows) != 2 || rows[0].Outcome != llm.OutcomeRefused || rows[0].Retries != 0 {
			t.Errorf("rows = %+v, want one that was refused and beta's", rows)
		}
		if row, err := g.call(); llm.AsFailure(err).Class != llm.ClassCircuitOpen || row.Outcome != llm.OutcomeRefused || row.Retries != 0 {
			t.Errorf("without another: got %v, row %+v, want one refusal", err, row)
		}
		if took := time.Since(began); took != 0 || g.u.calls(alpha) != asked {
			t.Errorf("both took %v and asked alpha %d times, want neither a wait nor a request", took, g.u.calls(alpha)-asked)
		}
	})
}
