package pipeline_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// CF-I1 to CF-I3, CF-I5.
func TestAKeyMakesOneCallOfMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		all := replicas(t, 2, keyDefaults, counting(&calls, answers(time.Second)))
		plain := newCall(alpha)
		wants(t, "without a key", all[0].post(plain), madeAlpha)
		owner, _ := underKey(false)
		first := all[0].posts(owner)
		synctest.Wait()
		here, _ := underKey(false)
		there, _ := underKey(false)
		joined, elsewhere := all[0].posts(here), all[1].posts(there)
		wants(t, "the first", <-first, madeAlpha)
		wants(t, "beside it", <-joined, givenAlpha)
		wants(t, "on another replica", <-elsewhere, givenAlpha)
		after, _ := underKey(false)
		wants(t, "after it", all[1].post(after), givenAlpha)
		other, _ := underKey(false)
		other.IdempotencyKey = "k2"
		wants(t, "another key", all[0].post(other), madeAlpha)
		theirs, _ := underKey(false)
		theirs.Caller.KeyID = "somebody else"
		wants(t, "another caller's", all[0].post(theirs), madeAlpha)
		body, _ := underKey(false)
		body.Body = []byte("another body")
		wants(t, "another body", all[1].post(body), outcome{Reason: llm.ReasonKeyReused})
		if calls.Load() != 4 {
			t.Errorf("%d calls, want 4", calls.Load())
		}
		all[0].counted(t, map[string]int{"stored": 3, "joined": 1})
		all[1].counted(t, map[string]int{"replayed": 2, "mismatch": 1})
	})
}

// Those who wait learn of a failure once, and the key is free after it.
func TestAFailureIsToldToThoseWhoWaited(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]behaviour{
		"a failure": fails(status503, time.Second),
		"two": func(ctx context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
			_ = spend(ctx, call, time.Second)
			return nil, &llm.ExhaustedError{Failures: []*llm.Failure{new(limited), new(status503)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int32
				all := replicas(t, 2, keyDefaults, counting(&calls, b))
				owner, _ := underKey(false)
				first := all[0].posts(owner)
				synctest.Wait()
				here, _ := underKey(false)
				there, _ := underKey(false)
				joined, elsewhere := all[0].posts(here), all[1].posts(there)
				failed := outcome{Reason: llm.ReasonUpstreamStatus}
				for _, done := range []<-chan outcome{first, joined, elsewhere} {
					wants(t, "told", <-done, failed)
				}
				again, _ := underKey(false)
				wants(t, "again", all[1].post(again), failed)
				if calls.Load() != 2 {
					t.Errorf("%d calls, want 2", calls.Load())
				}
			})
		})
	}
}

func TestAPanicFreesTheKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		all := replicas(t, 2, keyDefaults, counting(&calls, func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
			if calls.Load() > 1 {
				return answers(0)(ctx, call, emit)
			}
			_ = spend(ctx, call, time.Second)
			panic("a fault of ours")
		}))
		over := make(chan any, 1)
		owner, _ := underKey(false)
		go func() {
			defer func() { over <- recover() }()
			all[0].post(owner)
		}()
		synctest.Wait()
		here, _ := underKey(false)
		there, _ := underKey(false)
		joined, elsewhere := all[0].posts(here), all[1].posts(there)
		if got := <-over; got != "a fault of ours" {
			t.Errorf("panic %v did not go on", got)
		}
		wants(t, "beside it", <-joined, outcome{Reason: llm.ReasonPanic})
		wants(t, "on another replica", <-elsewhere, outcome{Reason: llm.ReasonPanic})
		again, _ := underKey(false)
		wants(t, "again", all[1].post(again), madeAlpha)
	})
}

func TestNothingThatStoodInForAnAnswerIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		all := replicas(t, 2, keyDefaults, counting(&calls, func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
			call.Signals.Degraded = llm.DegradedMessage
			return answers(time.Second)(ctx, call, emit)
		}))
		owner, _ := underKey(false)
		first := all[0].posts(owner)
		synctest.Wait()
		here, _ := underKey(false)
		wants(t, "beside it", all[0].post(here), givenAlpha)
		if here.Signals.Degraded != llm.DegradedMessage {
			t.Errorf("the answer that was shared is marked %q", here.Signals.Degraded)
		}
		wants(t, "the first", <-first, madeAlpha)
		again, _ := underKey(false)
		wants(t, "again", all[1].post(again), madeAlpha)
		all[0].counted(t, map[string]int{"joined": 1})
	})
}

func TestHowLongACallWaits(t *testing.T) {
	t.Parallel()
	const work = 10 * time.Minute
	for name, tc := range map[string]struct {
		cfg   func(*pipeline.IdempotencyConfig)
		leave error // after a second
		want  outcome
		after time.Duration
	}{
		"as long as it may":        {func(*pipeline.IdempotencyConfig) {}, nil, conflicted, time.Minute},
		"not at all":               {func(c *pipeline.IdempotencyConfig) { c.Reject = true }, nil, conflicted, 0},
		"its caller's own limit":   {func(*pipeline.IdempotencyConfig) {}, llm.ErrCallerTimeout, conflicted, time.Second},
		"until its client leaves":  {func(*pipeline.IdempotencyConfig) {}, llm.ErrClientLeft, outcome{Reason: llm.ReasonClientLeft}, time.Second},
		"until the answer is here": {func(c *pipeline.IdempotencyConfig) { c.Wait = time.Hour }, nil, givenAlpha, work},
	} {
		for where := range 2 {
			t.Run(fmt.Sprintf("%s, replica %d", name, where), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var calls atomic.Int32
					cfg := keyDefaults
					tc.cfg(&cfg)
					all := replicas(t, 2, cfg, counting(&calls, answers(work)))
					owner, _ := underKey(false)
					first := all[0].posts(owner)
					synctest.Wait()
					call, leave := underKey(false)
					began := time.Now()
					if tc.leave != nil {
						time.AfterFunc(time.Second, func() { leave(tc.leave) })
					}
					wants(t, "the second", all[where].post(call), tc.want)
					if took := time.Since(began); took != tc.after {
						t.Errorf("it waited %v, want %v", took, tc.after)
					}
					wants(t, "the first", <-first, madeAlpha)
					if calls.Load() != 1 {
						t.Errorf("%d calls, want 1", calls.Load())
					}
				})
			})
		}
	}
}

// A claim that is carried out after its call has ended holds the key for nobody, and
// takes nothing from an answer.
func TestAClaimThatIsCarriedOutLateHoldsNoKey(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		failOpen bool
		does     behaviour
		first    outcome
		second   outcome
		calls    int32
	}{
		"the call was refused":  {false, answers(0), outcome{Reason: llm.ReasonReplayUnavailable}, madeAlpha, 1},
		"the call has failed":   {true, fails(status503, 0), outcome{Reason: llm.ReasonUpstreamStatus}, outcome{Reason: llm.ReasonUpstreamStatus}, 2},
		"the call has answered": {true, answers(0), madeAlpha, givenAlpha, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int32
				cfg := keyDefaults
				cfg.FailOpen, cfg.Reject = tc.failOpen, true
				all := replicas(t, 2, cfg, counting(&calls, tc.does))
				all[0].store.late.Store(true)
				first, _ := underKey(false)
				wants(t, "the first", all[0].post(first), tc.first)
				time.Sleep(3 * time.Second)
				again, _ := underKey(false)
				wants(t, "the retry", all[1].post(again), tc.second)
				if calls.Load() != tc.calls {
					t.Errorf("%d calls, want %d", calls.Load(), tc.calls)
				}
			})
		})
	}
}
