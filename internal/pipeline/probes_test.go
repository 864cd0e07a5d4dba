package pipeline_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// lab is a circuit that only a canary can open the way to, and what becomes of
// the one that a test sends.
type lab struct {
	t         *testing.T
	circuits  *breaker.Registry
	u         *upstreams
	runs      *records
	bulkheads *pipeline.Bulkheads
	policy    pipeline.Policy
	judge     func(*llm.Result) error
	panicked  any
}

func newLab(t *testing.T, change func(*breaker.Settings), u *upstreams) *lab {
	t.Helper()
	settings := threshold(1)
	settings.Canary, settings.CanaryDemand = true, 5*time.Minute
	if change != nil {
		change(&settings)
	}
	l := &lab{t: t, u: u, runs: new(records), bulkheads: new(pipeline.Bulkheads), judge: func(*llm.Result) error { return nil }}
	l.circuits = breaker.New(breaker.Config{Settings: func(string) breaker.Settings { return settings }, Canary: l.canary})
	return l
}

func (l *lab) probes() *pipeline.Probes {
	quota := func(string) time.Duration { return 10 * time.Minute }
	policies := pipeline.Policies{Providers: map[string]pipeline.Policy{"alpha": l.policy}, Bulkheads: l.bulkheads}
	return pipeline.NewProbes(pipeline.NewTelemetry(l.runs), pipeline.NewUsage(priced),
		pipeline.NewCircuitBreaker(l.circuits, quota, slowAfter), pipeline.NewTerminal(l.u, policies), l.u)
}

// own is a call that the gateway makes itself.
func own(operation llm.Operation, target llm.Target) *llm.Call {
	call := newCall(target)
	call.Operation, call.Target, call.Configuration, call.Deadline = operation, target, "", time.Now().Add(time.Minute)
	return call
}

func (l *lab) canary(ctx context.Context, _ string, permit *breaker.Permit) {
	defer func() { l.panicked = recover() }()
	_ = l.probes().Canary(ctx, own(llm.OperationCanary, alpha), permit, l.judge)
}

// sends opens the circuit, waits until its time is over, and has a call refused.
// It returns the row of the canary that this brings about.
func (l *lab) sends() llm.Attempt {
	l.t.Helper()
	l.circuits.Start()
	defer func() {
		if err := l.circuits.Stop(context.Background()); err != nil {
			l.t.Error(err)
		}
	}()
	_ = l.circuits.Do(alpha.Key(), func(*breaker.Permit) breaker.Outcome { return breaker.Outcome{Kind: breaker.Failure} })
	<-time.After(31 * time.Second)
	if l.circuits.Do(alpha.Key(), func(*breaker.Permit) breaker.Outcome { return breaker.Outcome{} }) == nil {
		l.t.Fatal("a call was admitted")
	}
	<-time.After(20 * time.Second)
	runs := l.runs.all()
	if len(runs) == 0 || len(runs[0].Attempts) != 1 {
		l.t.Fatalf("runs: %+v, want one with one attempt", runs)
	}
	if runs[0].Operation != llm.OperationCanary || runs[0].APIKeyID != "" {
		l.t.Errorf("the run is %+v", runs[0])
	}
	return runs[0].Attempts[0]
}

func (l *lab) is(state breaker.State, reason string) {
	l.t.Helper()
	if s, _ := l.circuits.Circuit(alpha.Key()); s.State != state || s.Reason != reason {
		l.t.Errorf("the circuit is %v by %q, want %v by %q", s.State, s.Reason, state, reason)
	}
}

func TestACanarySpeaksForItsCircuit(t *testing.T) {
	t.Parallel()
	wrong := &llm.Failure{Class: llm.ClassServerError, Reason: llm.ReasonUnexpectedAnswer}
	unavailable := llm.Failure{Class: llm.ClassServerError, Reason: llm.ReasonUpstreamStatus, Status: 503}
	hinted := unavailable
	hinted.RetryAfter = time.Hour
	tests := map[string]struct {
		answer  behaviour
		prepare func(*lab)
		slow    bool
		want    llm.Attempt
		state   breaker.State
		reason  string
	}{
		"it does well": {
			answer: answers(500 * ms), want: llm.Attempt{Outcome: llm.OutcomeSuccess},
			state: breaker.HalfOpen, reason: breaker.ReasonCanarySuccess,
		},
		"it fails, and is not repeated": {
			answer: fails(unavailable, 0), want: llm.Attempt{Outcome: llm.OutcomeFailure, FailureClass: llm.ClassServerError, FailureReason: llm.ReasonUpstreamStatus},
			state: breaker.Open, reason: breaker.ReasonCanaryFailure,
		},
		"it is told to wait (T4)": {
			answer: fails(hinted, 0), want: llm.Attempt{Outcome: llm.OutcomeFailure, FailureClass: llm.ClassServerError, FailureReason: llm.ReasonUpstreamStatus},
			state: breaker.Open, reason: breaker.ReasonRetryAfter,
		},
		"its answer is no good": {
			answer: answers(0), prepare: func(l *lab) { l.judge = func(*llm.Result) error { return wrong } },
			want:  llm.Attempt{Outcome: llm.OutcomeFailure, FailureClass: llm.ClassServerError, FailureReason: llm.ReasonUnexpectedAnswer},
			state: breaker.Open, reason: breaker.ReasonCanaryFailure,
		},
		"it is slow where that opens (R34)": {
			answer: answers(3 * time.Second), slow: true, want: llm.Attempt{Outcome: llm.OutcomeSuccess, Slow: true},
			state: breaker.Open, reason: breaker.ReasonCanaryFailure,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, func(s *breaker.Settings) {
					if tt.slow {
						s.SlowRate = breaker.All
					}
				}, script(alpha, tt.answer))
				l.policy.Retry = pipeline.Retry{Max: 3, Base: ms, MaxDelay: time.Second}
				if tt.prepare != nil {
					tt.prepare(l)
				}
				row := l.sends()
				if row.Probe != llm.ProbeCanary || row.CircuitState != "half_open" || l.u.calls(alpha) != 1 {
					t.Errorf("the attempt is %+v after %d sends", row, l.u.calls(alpha))
				}
				got := llm.Attempt{Outcome: row.Outcome, FailureClass: row.FailureClass, FailureReason: row.FailureReason, Slow: row.Slow}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("the attempt (-want +got):\n%s", diff)
				}
				if billed := row.FailureReason == "" || row.FailureReason == llm.ReasonUnexpectedAnswer; billed != (row.Cost != nil) {
					t.Errorf("it cost %v", row.Cost)
				}
				l.is(tt.state, tt.reason)
			})
		})
	}
}

// Whatever says nothing about the target lets callers probe, sooner or later.
func TestACanaryThatSaysNothing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer  behaviour
		prepare func(*lab)
		want    llm.FailureClass
		reason  llm.Reason
	}{
		"our credentials are refused": {
			answer: fails(llm.Failure{Class: llm.ClassAuth, Reason: llm.ReasonInvalidCredentials, Status: 401}, 0),
			want:   llm.ClassAuth, reason: llm.ReasonInvalidCredentials,
		},
		"no place is left": {
			answer: answers(0), want: llm.ClassSaturated, reason: llm.ReasonBulkheadFull,
			prepare: func(l *lab) {
				l.policy.MaxConcurrent = 1
				stay := script(alpha, answers(time.Hour))
				busy := pipeline.NewTerminal(stay, pipeline.Policies{Providers: map[string]pipeline.Policy{"alpha": l.policy}, Bulkheads: l.bulkheads})
				ctx := l.t.Context()
				go func() {
					call := own(llm.OperationChat, alpha)
					call.Signals.Open(alpha, time.Now())
					_, _ = busy.Handle(ctx, call, nil)
				}()
			},
		},
		"a fault of ours": {
			answer: func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) { panic("a fault") },
			want:   llm.ClassUnknown, reason: llm.ReasonPanic,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, nil, script(alpha, tt.answer))
				if tt.prepare != nil {
					tt.prepare(l)
				}
				row := l.sends()
				if row.FailureClass != tt.want || row.FailureReason != tt.reason {
					t.Errorf("the attempt failed by %s (%s), want %s (%s)", row.FailureClass, row.FailureReason, tt.want, tt.reason)
				}
				s, _ := l.circuits.Circuit(alpha.Key())
				if s.Neutral == 0 || s.ProbeFailures != 0 || s.DoubleDone != 0 || s.State != breaker.HalfOpen {
					t.Errorf("the circuit is %+v", s)
				}
				if panics := tt.reason == llm.ReasonPanic; panics != (l.panicked != nil) {
					t.Errorf("panicked with %v", l.panicked)
				}
			})
		})
	}
}

// A health check asks even while calls take every place, and costs nothing.
func TestAHealthCheckTakesNoPlaceOfACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		health := llm.HealthTarget("alpha", "r1")
		u := script(health, answers(100*ms), fails(refusedConn, 0)).and(alpha, answers(time.Hour))
		l := newLab(t, func(s *breaker.Settings) { s.Canary = false }, u)
		l.policy = pipeline.Policy{MaxConcurrent: 1, Retry: pipeline.Retry{Max: 3, Base: ms, MaxDelay: time.Second}}
		probes := l.probes()
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		go func() {
			var permit breaker.Permit
			_ = probes.Canary(ctx, own(llm.OperationCanary, alpha), &permit, l.judge)
		}()
		synctest.Wait()

		for i, state := range []breaker.State{breaker.Closed, breaker.Open} {
			var permit breaker.Permit
			if err := l.circuits.Acquire(health.Key(), &permit); err != nil {
				t.Fatal(err)
			}
			err := probes.HealthCheck(t.Context(), own(llm.OperationHealthCheck, health), &permit)
			if (err != nil) != (state == breaker.Open) {
				t.Errorf("check %d: %v", i, err)
			}
			run := l.runs.all()[i]
			row := run.Attempts[0]
			if run.Operation != llm.OperationHealthCheck || row.Target != health || row.Probe != llm.ProbeHealthCheck || row.CircuitState != "closed" || row.Cost != nil {
				t.Errorf("run %d: %+v", i, run)
			}
			if s, _ := l.circuits.Circuit(health.Key()); s.State != state {
				t.Errorf("after check %d the circuit is %v, want %v", i, s.State, state)
			}
		}
		if n := u.calls(health); n != 2 {
			t.Errorf("%d requests for two checks", n)
		}
	})
}
