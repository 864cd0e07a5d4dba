package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// Twins of one question: one call upstream, the same answer for all.
func TestTwinsAreAskedOnce(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]behaviour{"whole": said("one", time.Second), "stream": spoken(nil, 100*time.Millisecond, "o", "ne")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCached(t, anHour, script(alpha, first))
				var all sync.WaitGroup
				for i := range 100 {
					all.Go(func() {
						change := func(*llm.Call) {}
						if name == "stream" && i%2 == 0 || name == "whole" && i%3 == 0 {
							change = streamed
						}
						if name == "whole" && i == 0 {
							change = func(*llm.Call) {}
						}
						g := c.ask(t.Context(), change)
						if g.err != nil || g.cache == llm.CacheHit && g.text != "one" {
							t.Errorf("got %q, %v", g.text, g.err)
						}
					})
				}
				all.Wait()
				if n := c.calls(alpha); n != 1 {
					t.Errorf("%d calls, want 1", n)
				}
				if diff := cmp.Diff(map[llm.CacheResult]int{llm.CacheHit: 99, llm.CacheMiss: 1}, c.tally.n); diff != "" {
					t.Errorf("counted (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// later asks after a time, beside others.
func (c *cached) later(t *testing.T, all *sync.WaitGroup, after time.Duration, ctx context.Context, into *got, changes ...func(*llm.Call)) {
	t.Helper()
	all.Go(func() {
		time.Sleep(after)
		*into = c.ask(ctx, changes...)
	})
}

// What befalls the leader alone is nothing to those who follow; what an upstream
// did is.
func TestWhatBecomesOfFollowers(t *testing.T) {
	t.Parallel()
	denied := llm.Failure{Class: llm.ClassBudgetDenied, Reason: llm.ReasonRateLimitExceeded}
	tests := map[string]struct {
		leader    behaviour
		followers string // what they get; empty = the failure
		calls     int
	}{
		"an upstream's failure is theirs":    {fails(status500, time.Second), "", 1},
		"a refusal of the request, too":      {fails(badRequest, time.Second), "", 1},
		"a limit of the leader's is not":     {fails(denied, time.Second), "next", 2},
		"nor its cancellation":               {fails(llm.Failure{Class: llm.ClassCancelled, Reason: llm.ReasonClientLeft}, time.Second), "next", 2},
		"an answer that is not to be shared": {said("", time.Second), "next", 4},
		"a panic": {func(ctx context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
			_ = spend(ctx, call, time.Second)
			panic("oh")
		}, "next", 2},
		"a stream that is cut is not the answer": {spoken(&truncated, time.Second, "lo"), "next", 4},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCached(t, anHour, script(alpha, tc.leader, said("next", time.Second)))
				var all sync.WaitGroup
				var followers [3]got
				all.Go(func() {
					defer func() { _ = recover() }()
					c.ask(t.Context(), streamed)
				})
				for i := range followers {
					c.later(t, &all, 100*time.Millisecond, t.Context(), &followers[i])
				}
				all.Wait()
				for _, f := range followers {
					if f.text != tc.followers || (f.err == nil) != (tc.followers != "") {
						t.Errorf("a follower got %q, %v", f.text, f.err)
					}
				}
				if n := c.calls(alpha); n != tc.calls {
					t.Errorf("%d calls, want %d", n, tc.calls)
				}
			})
		})
	}
}

// A leader whose client leaves goes on for those who follow, and only for them.
func TestALeaderGoesOnForItsFollowers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		why           error
		followerStays bool
		want          string
		calls         int
	}{
		"left, somebody follows":      {llm.ErrClientLeft, true, "one", 1},
		"left, nobody stays":          {llm.ErrClientLeft, false, "", 1},
		"its own time is over":        {llm.ErrCallerTimeout, true, "next", 2},
		"the gateway's time is over":  {llm.ErrRequestTimeout, true, "next", 2},
		"the whole gateway goes down": {llm.ErrShutdown, true, "next", 2},
	} {
		for shape, first := range map[string]behaviour{"whole": said("one", 10*time.Second), "stream": spoken(nil, 2*time.Second, "o", "n", "e")} {
			t.Run(name+", "+shape, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					c := newCached(t, anHour, script(alpha, first, said("next", 0)))
					leading, leave := context.WithCancelCause(t.Context())
					following, stop := context.WithCancelCause(t.Context())
					defer stop(nil)
					var all sync.WaitGroup
					var leader, follower got
					change := func(*llm.Call) {}
					if shape == "stream" {
						change = streamed
					}
					began := time.Now()
					c.later(t, &all, 0, leading, &leader, change)
					c.later(t, &all, time.Second, following, &follower)
					time.Sleep(3 * time.Second)
					leave(tc.why)
					synctest.Wait()
					if !tc.followerStays {
						stop(llm.ErrClientLeft)
						all.Wait()
						if took := time.Since(began); took > 4*time.Second || leader.err == nil || follower.err == nil {
							t.Errorf("ended after %v with %v and %v, want both cancelled at once", took, leader.err, follower.err)
						}
						return
					}
					all.Wait()
					if follower.text != tc.want || c.calls(alpha) != tc.calls {
						t.Errorf("the follower got %q (%v) from %d calls", follower.text, follower.err, c.calls(alpha))
					}
				})
			})
		}
	}
}

// A follower waits no longer than it wants to.
func TestAFollowerMayLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCached(t, anHour, script(alpha, said("one", 10*time.Second)))
		following, stop := context.WithCancelCause(t.Context())
		var all sync.WaitGroup
		var leader, follower got
		c.later(t, &all, 0, t.Context(), &leader)
		c.later(t, &all, time.Second, following, &follower)
		time.Sleep(2 * time.Second)
		stop(llm.ErrCallerTimeout)
		synctest.Wait()
		var f *llm.Failure
		if !errors.As(follower.err, &f) || f.Reason != llm.ReasonCallerTimeout {
			t.Errorf("the follower ended with %v", follower.err)
		}
		all.Wait()
		leader.is(t, "one", llm.CacheMiss)
	})
}

// Races of many who come, leave and fail, for the race detector.
func TestCrowdsUnderLoad(t *testing.T) {
	t.Parallel()
	n := 0
	var mu sync.Mutex
	c := newCached(t, pipeline.CachePolicy{TTL: time.Nanosecond}, script(alpha, func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		mu.Lock()
		n++
		kind := n % 4
		mu.Unlock()
		behaviours := []behaviour{said("x", 100*time.Microsecond), fails(status500, 100*time.Microsecond), said("", 0), fails(llm.Failure{Class: llm.ClassBudgetDenied}, 0)}
		return behaviours[kind](ctx, call, emit)
	}))
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for j := range 50 {
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Duration(50+(i*j)%200)*time.Microsecond, llm.ErrClientLeft)
				change := func(*llm.Call) {}
				if j%2 == 0 {
					change = streamed
				}
				c.ask(ctx, change, body(fmt.Sprintf(`{"messages":[%d]}`, j%3)))
				cancel()
			}
		})
	}
	all.Wait()
	if got := len(c.records.all()); got != 800 {
		t.Errorf("%d rows, want 800", got)
	}
}

// slowShelf takes its time to keep what it is given.
type slowShelf struct {
	*shelf
	takes time.Duration
}

func (s slowShelf) Keep(key llm.KeptKey, answer llm.Kept, ttl time.Duration, kept func()) {
	time.AfterFunc(s.takes, func() { s.shelf.Keep(key, answer, ttl, kept) })
}

// An answer that is not kept yet is given to who asks just after it came, and not
// for as long as a slow store takes: it may be cleared meanwhile.
func TestAnAnswerOnItsWayToTheStoreIsGivenForAMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCached(t, anHour, script(alpha, said("one", 0), said("two", 0)))
		c.wrap(t, slowShelf{c.shelf, 5 * time.Second})
		c.ask(t.Context()).is(t, "one", llm.CacheMiss)
		time.Sleep(900 * time.Millisecond)
		c.ask(t.Context()).is(t, "one", llm.CacheHit)
		time.Sleep(200 * time.Millisecond)
		c.ask(t.Context()).is(t, "two", llm.CacheMiss)
		c.ask(t.Context()).is(t, "two", llm.CacheHit)
		time.Sleep(6 * time.Second)
		c.ask(t.Context()).is(t, "two", llm.CacheHit)
		if n := c.calls(alpha); n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
	})
}
