package prober

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// stand is circuits with canaries, of which a test says how they are made.
type stand struct {
	t        *testing.T
	circuits *breaker.Registry
	plan     func(key string) (Canary, bool)
}

func newStand(t *testing.T, turns *Turns, plan func(key string) (Canary, bool)) *stand {
	s := &stand{t: t, plan: plan}
	canaries := NewCanaries(func(key string) (Canary, bool) { return s.plan(key) }, turns, quiet)
	s.circuits = breaker.New(breaker.Config{Settings: func(string) breaker.Settings { return settings() }, Canary: canaries.Send})
	s.circuits.Start()
	return s
}

func (s *stand) stop() {
	if err := s.circuits.Stop(context.Background()); err != nil {
		s.t.Error(err)
	}
}

// opens a circuit, and has a call refused when its time is over.
func (s *stand) opens(key string) {
	s.t.Helper()
	if err := s.circuits.Do(key, func(*breaker.Permit) breaker.Outcome { return breaker.Outcome{Kind: breaker.Failure} }); err != nil {
		s.t.Fatal(err)
	}
	<-time.After(11 * time.Second)
	s.wanted(key)
}

func (s *stand) wanted(key string) {
	s.t.Helper()
	if s.circuits.Do(key, func(*breaker.Permit) breaker.Outcome { return breaker.Outcome{} }) == nil {
		s.t.Fatal("a call was admitted")
	}
}

func (s *stand) is(key string, want breaker.State, reason string) {
	s.t.Helper()
	synctest.Wait()
	if got, _ := s.circuits.Circuit(key); got.State != want || got.Reason != reason {
		s.t.Errorf("circuit %s is %v by %s, want %v by %s", key, got.State, got.Reason, want, reason)
	}
}

// made is a canary that does as its maker says.
func made(target llm.Target, send func(ctx context.Context, call *llm.Call) breaker.Kind) Canary {
	return Canary{
		Target: target, Timeout: 5 * time.Second, Patience: 2 * time.Minute,
		Read: func([]byte) (string, bool) { return "", false },
		Send: func(ctx context.Context, call *llm.Call, permit *breaker.Permit, _ func(*llm.Result) error) error {
			permit.Done(breaker.Outcome{Kind: send(ctx, call)})
			return nil
		},
	}
}

func TestACanaryAsksOnNobodysBehalf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked *llm.Call
		s := newStand(t, NewTurns(nil), func(string) (Canary, bool) {
			return made(alpha, func(_ context.Context, call *llm.Call) breaker.Kind { asked = call; return breaker.Success }), true
		})
		defer s.stop()
		s.opens(alpha.Key())
		<-time.After(2 * time.Second)
		s.is(alpha.Key(), breaker.HalfOpen, breaker.ReasonCanarySuccess)
		if asked.Operation != llm.OperationCanary || asked.Caller.KeyID != "" || asked.Configuration != "" || asked.Target != alpha ||
			asked.Timeouts.Total != 5*time.Second || asked.CorrelationID != "canary:alpha/m1/r1" || asked.RunID.Version() != 7 {
			t.Errorf("the call is %+v", asked)
		}
	})
}

// One of a provider at a time, over all replicas; another provider does not wait.
func TestCanariesOfAProviderGoInTurn(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]func() [2]*Turns{
		"alone":           func() [2]*Turns { turns := NewTurns(nil); return [2]*Turns{turns, turns} },
		"two replicas":    func() [2]*Turns { l := &leases{}; return [2]*Turns{NewTurns(l), NewTurns(l)} },
		"cache is behind": func() [2]*Turns { l := &leases{}; turns := NewTurns(l); return [2]*Turns{turns, turns} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var now, most, done atomic.Int32
				plan := func(key string) (Canary, bool) {
					target, _ := llm.ParseTarget(key)
					return made(target, func(ctx context.Context, _ *llm.Call) breaker.Kind {
						if target.Provider == "alpha" {
							most.Store(max(most.Load(), now.Add(1)))
							defer now.Add(-1)
						}
						<-time.After(4 * time.Second)
						done.Add(1)
						return breaker.Success
					}), true
				}
				turns := shared()
				one, two := newStand(t, turns[0], plan), newStand(t, turns[1], plan)
				defer one.stop()
				defer two.stop()
				var opened []func()
				for i, key := range []string{"alpha/m1/r1", "alpha/m2/r1", "alpha/m3/r1", "beta/m1/r1"} {
					s := []*stand{one, two}[i%2]
					opened = append(opened, func() { s.wanted(key) })
					if err := s.circuits.Do(key, func(*breaker.Permit) breaker.Outcome { return breaker.Outcome{Kind: breaker.Failure} }); err != nil {
						t.Fatal(err)
					}
				}
				<-time.After(12 * time.Second)
				for _, wanted := range opened {
					wanted()
				}
				<-time.After(5500 * time.Millisecond)
				if got := done.Load(); got != 2 {
					t.Errorf("%d canaries came back after 5.5 s, want one of each provider", got)
				}
				<-time.After(10 * time.Second)
				if done.Load() != 4 || most.Load() != 1 {
					t.Errorf("%d canaries came back, of alpha %d at once; want 4, one at a time", done.Load(), most.Load())
				}
			})
		})
	}
}

// Whatever keeps a canary from being made, callers probe in the end.
func TestWhatKeepsACanaryFromBeingMade(t *testing.T) {
	t.Parallel()
	tests := map[string]func() (*Turns, func(string) (Canary, bool)){
		"a reload has taken the target away": func() (*Turns, func(string) (Canary, bool)) {
			return NewTurns(nil), func(string) (Canary, bool) { return Canary{}, false }
		},
		"others of its provider are in the way": func() (*Turns, func(string) (Canary, bool)) {
			turns := NewTurns(nil)
			turns.door(alpha.Provider) <- struct{}{}
			return turns, func(string) (Canary, bool) {
				c := made(alpha, func(context.Context, *llm.Call) breaker.Kind { return breaker.Success })
				c.Patience = 50 * time.Millisecond
				return c, true
			}
		},
		"a fault of ours": func() (*Turns, func(string) (Canary, bool)) {
			return NewTurns(&leases{away: true}), func(string) (Canary, bool) {
				c := made(alpha, nil)
				c.Send = func(_ context.Context, _ *llm.Call, permit *breaker.Permit, _ func(*llm.Result) error) error {
					defer permit.Done(breaker.Outcome{Kind: breaker.Neutral})
					panic("a fault")
				}
				return c, true
			}
		},
	}
	for name, setup := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				turns, plan := setup()
				s := newStand(t, turns, plan)
				defer s.stop()
				s.opens(alpha.Key())
				for range 10 {
					<-time.After(1500 * time.Millisecond)
					if got, _ := s.circuits.Circuit(alpha.Key()); got.Reason == breaker.ReasonCanaryUnable {
						break
					}
					s.wanted(alpha.Key())
				}
				s.is(alpha.Key(), breaker.HalfOpen, breaker.ReasonCanaryUnable)
			})
		})
	}
}

// A lease that nobody can be asked for does not keep canaries back.
func TestWithoutTheCacheEachReplicaKeepsToItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, NewTurns(&leases{away: true}), func(string) (Canary, bool) {
			return made(alpha, func(context.Context, *llm.Call) breaker.Kind { return breaker.Success }), true
		})
		defer s.stop()
		s.opens(alpha.Key())
		<-time.After(2 * time.Second)
		s.is(alpha.Key(), breaker.HalfOpen, breaker.ReasonCanarySuccess)
	})
}

func TestACanaryIsCalledBackWhenTheGatewayStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cause error
		s := newStand(t, NewTurns(nil), func(string) (Canary, bool) {
			return made(alpha, func(ctx context.Context, _ *llm.Call) breaker.Kind {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return breaker.Neutral
			}), true
		})
		s.opens(alpha.Key())
		<-time.After(2 * time.Second)
		s.stop()
		if llm.CancelReason(cause) != llm.ReasonShutdown {
			t.Errorf("it was called back because of %v", cause)
		}
	})
}

func TestWhatIsAGoodAnswer(t *testing.T) {
	t.Parallel()
	const good, bad, neutral = llm.OutcomeSuccess, llm.OutcomeFailure, llm.OutcomeNeutral
	tests := map[string]struct {
		expect, text string
		cut          bool
		bytes        int // of anything visible
		want         llm.Outcome
	}{
		"any answer":                            {"", "whatever", false, 8, good},
		"any answer, cut":                       {"", "what", true, 4, good},
		"any answer, all of it thought":         {"", "", true, 0, good},
		"any answer, but none":                  {"", "", false, 0, bad},
		"a tool call":                           {"", "", false, 12, good},
		"what is expected":                      {"ok", "Sure, OK!", false, 9, good},
		"in other capitals":                     {"Grüße", "grÜSSE, GRÜßE", false, 16, good},
		"what is not expected":                  {"ok", "no", false, 2, bad},
		"what is not expected, cut":             {"ok", "I am a", true, 6, bad},
		"nothing":                               {"ok", " ", false, 1, bad},
		"cut before a word of what is expected": {"ok", " ", true, 200, neutral},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Canary{Target: alpha, Expect: tt.expect, Read: func([]byte) (string, bool) { return tt.text, tt.cut }}
			got := good
			if err := c.judge(&llm.Result{Status: 200, OutputBytes: tt.bytes}); err != nil {
				f := llm.AsFailure(err)
				if got = f.Outcome(); f.Reason != llm.ReasonUnexpectedAnswer || f.Target != alpha || f.Status != 200 {
					t.Errorf("the fault is %+v", f)
				}
			}
			if got != tt.want {
				t.Errorf("it is a %s, want %s", got, tt.want)
			}
		})
	}
}
