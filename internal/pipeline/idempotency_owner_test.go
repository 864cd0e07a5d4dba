package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

func TestTheStoreIsAway(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]bool{"calls go on": true, "calls are refused": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int32
				cfg := keyDefaults
				cfg.FailOpen = open
				all := replicas(t, 1, cfg, counting(&calls, answers(time.Second)))
				all[0].store.away.Store(true)
				one, _ := underKey(false)
				two, _ := underKey(false)
				first := all[0].posts(one)
				synctest.Wait()
				second := all[0].posts(two)
				if !open {
					refused := outcome{Reason: llm.ReasonReplayUnavailable}
					wants(t, "the first", <-first, refused)
					wants(t, "the second", <-second, refused)
					return
				}
				wants(t, "the first", <-first, madeAlpha)
				wants(t, "the second joins it in memory", <-second, givenAlpha)
				again, _ := underKey(false)
				wants(t, "what was not stored is remembered", all[0].post(again), givenAlpha)
				all[0].store.away.Store(false)
				<-time.After(5 * time.Second)
				all[0].counted(t, map[string]int{"unavailable": 1, "joined": 1, "replayed": 1, "stored": 1})
				late, _ := underKey(false)
				wants(t, "and stored when the store is back", all[0].post(late), givenAlpha)
				if calls.Load() != 1 {
					t.Errorf("%d calls, want 1", calls.Load())
				}
			})
		})
	}
}

// A store that stays away is not waited for without end.
func TestWhatCannotBeStoredIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		all := replicas(t, 1, keyDefaults, counting(&calls, answers(time.Second)))
		all[0].store.away.Store(true)
		one, _ := underKey(false)
		wants(t, "the first", all[0].post(one), madeAlpha)
		<-time.After(time.Minute)
		two, _ := underKey(false)
		wants(t, "a minute later", all[0].post(two), madeAlpha)
		<-time.After(time.Minute)
	})
}

// An owner that was paused for longer than its lease does not store over its
// successor.
func TestAPausedOwnerIsFencedOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := replicas(t, 2, keyDefaults, func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) {
			return &llm.Result{Target: alpha, Status: 200, Body: []byte("second")}, nil
		})
		owner, _ := underKey(false)
		paused := pausing{all[0].store}
		slow := wrap(t, pipeline.Handler(func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
			err := spend(ctx, call, time.Hour)
			return &llm.Result{Target: alpha, Status: 200, Body: []byte("first")}, err
		}), pipeline.NewIdempotency(keyDefaults, paused, new(pipeline.Flights), func(result string) {
			if result != pipeline.KeyResultFenced {
				t.Errorf("the paused owner has %s", result)
			}
		}))
		first := make(chan string, 1)
		go func() {
			result, err := slow(context.Background(), owner, nil)
			if err != nil {
				t.Error(err)
			}
			first <- string(result.Body)
		}()
		synctest.Wait()
		heir, _ := underKey(false)
		began := time.Now()
		wants(t, "its successor", all[1].post(heir), outcome{Body: "second"})
		if took := time.Since(began); took < 29*time.Second || took > 31*time.Second {
			t.Errorf("the key was taken over after %v, want the lease", took)
		}
		if got := <-first; got != "first" {
			t.Errorf("the paused owner's client got %q", got)
		}
		after, _ := underKey(false)
		wants(t, "after both", all[1].post(after), outcome{Body: "second", Replayed: true, Original: true})
	})
}

// pausing is a store whose owner does not renew.
type pausing struct{ *keyStore }

func (pausing) Hold(pipeline.KeyAsker) func() { return func() {} }

// A thousand calls whose clients have left go to their end, and nothing of them
// stays behind: the bubble ends only when all goroutines have.
func TestAbandonedCallsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		all := replicas(t, 1, keyDefaults, counting(&calls, answers(time.Minute)))
		var done []<-chan outcome
		for i := range 1000 {
			call, leave := underKey(false)
			call.IdempotencyKey = fmt.Sprint(i)
			done = append(done, all[0].posts(call))
			time.AfterFunc(time.Second, func() { leave(llm.ErrClientLeft) })
		}
		for _, d := range done {
			wants(t, "abandoned", <-d, madeAlpha)
		}
		all[0].counted(t, map[string]int{"stored": 1000})
	})
}

func TestOwnersAreEndedByTheirContextAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		all := replicas(t, 2, keyDefaults, counting(&calls, answers(time.Hour)))
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(time.Second, func() { cancel(llm.ErrShutdown) })
		owner, _ := underKey(false)
		ended := make(chan error, 1)
		go func() {
			_, err := all[0].handle(ctx, owner, nil)
			ended <- err
		}()
		synctest.Wait()
		there, _ := underKey(false)
		elsewhere := all[1].posts(there)
		var f *llm.Failure
		if err := <-ended; !errors.As(err, &f) || f.Reason != llm.ReasonShutdown {
			t.Errorf("ended by %v", err)
		}
		// The end of one gateway is no failure of the call: another goes on with it.
		wants(t, "who waited elsewhere", <-elsewhere, madeAlpha)
		if n := calls.Load(); n != 2 {
			t.Errorf("%d calls were made, want the one that was ended and one more", n)
		}
	})
}
