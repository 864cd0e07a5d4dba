package pipeline_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// start runs a call over the targets in a goroutine of the bubble.
func start(ctx context.Context, handle pipeline.Handler, call *llm.Call) (outcome func() error) {
	done := make(chan error, 1)
	go func() {
		_, err := handle(ctx, call, nil)
		done <- err
	}()
	return func() error { return <-done }
}

// A full provider refuses at once, is not asked, and leads to the next target.
func TestBulkhead_FullIsSaturatedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := script(alpha, answers(time.Second)).and(beta, answers(0))
		handle := wrap(t, terminal(u, pipeline.Policy{MaxConcurrent: 2}).Handle, pipeline.NewFallback(nil, nil))
		first := start(t.Context(), handle, newCall(alpha))
		second := start(t.Context(), handle, newCall(alpha))
		synctest.Wait()

		began := time.Now()
		call := newCall(alpha, beta)
		result, err := handle(t.Context(), call, nil)
		if err != nil || result.Target != beta || time.Since(began) != 0 {
			t.Fatalf("answer = %v, %v after %v, want beta's at once", result, err, time.Since(began))
		}
		want := llm.Attempt{
			Target: alpha, StartedAt: began, FinishedAt: began,
			Outcome: llm.OutcomeRefused, FailureClass: llm.ClassSaturated, FailureReason: llm.ReasonBulkheadFull,
		}
		if diff := cmp.Diff(want, call.Signals.Attempts[0]); diff != "" {
			t.Errorf("the refused attempt's row (-want +got):\n%s", diff)
		}
		if got := u.calls(alpha); got != 2 {
			t.Errorf("calls(alpha) = %d, want 2", got)
		}

		if err1, err2 := first(), second(); err1 != nil || err2 != nil {
			t.Errorf("calls in flight ended with %v, %v", err1, err2)
		}
		if _, err := handle(t.Context(), newCall(alpha), nil); err != nil {
			t.Errorf("with places free again: %v", err)
		}
	})
}

// A sleeping retry holds no place: another call gets it meanwhile.
func TestBulkhead_ARetrysWaitHoldsNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := script(alpha, fails(status503, 10*ms), answers(50*ms))
		handle := wrap(t, terminal(u, pipeline.Policy{MaxConcurrent: 1, Retry: patient}).Handle, pipeline.NewFallback(nil, nil))
		retried := start(t.Context(), handle, newCall(alpha))
		<-time.After(20 * ms) // it waits until 210 ms

		if _, err := handle(t.Context(), newCall(alpha), nil); err != nil {
			t.Errorf("a call during the wait: %v", err)
		}
		if err := retried(); err != nil {
			t.Errorf("the retried call: %v", err)
		}
	})
}

// When the place is gone after the wait, the attempt keeps its last failure:
// that is what is known of the target.
func TestBulkhead_NoPlaceAfterTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := script(alpha, fails(status503, 10*ms), answers(time.Second))
		handle := wrap(t, terminal(u, pipeline.Policy{MaxConcurrent: 1, Retry: patient}).Handle, pipeline.NewFallback(nil, nil))
		call := newCall(alpha)
		retried := start(t.Context(), handle, call)
		<-time.After(20 * ms)
		other := start(t.Context(), handle, newCall(alpha)) // until 1020 ms

		if f := llm.AsFailure(retried()); f == nil || f.Status != 503 {
			t.Errorf("error = %v, want the 503", f)
		}
		if row := call.Signals.Attempt(); row.Retries != 0 || row.Outcome != llm.OutcomeFailure || !row.Reached {
			t.Errorf("row = %+v, want one send that failed", row)
		}
		if err := other(); err != nil {
			t.Error(err)
		}
	})
}

// The counts outlive a reload: a lower limit holds for calls already in flight.
func TestBulkhead_OutlivesReload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := script(alpha, answers(time.Second))
		before := policies(pipeline.Policy{}) // unlimited
		after := policies(pipeline.Policy{MaxConcurrent: 1})
		after.Bulkheads = before.Bulkheads
		running := start(t.Context(), wrap(t, pipeline.NewTerminal(u, before).Handle, pipeline.NewFallback(nil, nil)), newCall(alpha))
		synctest.Wait()

		reloaded := wrap(t, pipeline.NewTerminal(u, after).Handle, pipeline.NewFallback(nil, nil))
		_, err := reloaded(t.Context(), newCall(alpha), nil)
		if f := llm.AsFailure(err); f == nil || f.Class != llm.ClassSaturated {
			t.Errorf("error = %v, want saturated", err)
		}
		if err := running(); err != nil {
			t.Error(err)
		}
	})
}

// Providers share no places; the models of one provider do.
func TestBulkhead_PerProvider(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sibling := llm.Target{Provider: alpha.Provider, Model: "m2", Region: alpha.Region}
		u := script(alpha, answers(time.Second)).and(beta, answers(time.Second)).and(sibling, answers(0))
		handle := wrap(t, terminal(u, pipeline.Policy{MaxConcurrent: 1}).Handle, pipeline.NewFallback(nil, nil))
		first := start(t.Context(), handle, newCall(alpha))
		second := start(t.Context(), handle, newCall(beta))
		synctest.Wait()

		_, err := handle(t.Context(), newCall(sibling), nil)
		if f := llm.AsFailure(err); f == nil || f.Class != llm.ClassSaturated {
			t.Errorf("alpha's other model: %v, want saturated", err)
		}
		if err1, err2 := first(), second(); err1 != nil || err2 != nil {
			t.Errorf("alpha and beta: %v, %v", err1, err2)
		}
	})
}

// Never more than the limit at once, never fewer than there are places, and
// every place comes back, also after a panic.
func TestBulkhead_ExactUnderConcurrency(t *testing.T) {
	t.Parallel()

	const limit, callers, rounds = 3, 16, 200
	var inFlight, peak, served atomic.Int64
	u := script(alpha, func(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
		now := inFlight.Add(1)
		defer inFlight.Add(-1)
		for old := peak.Load(); now > old && !peak.CompareAndSwap(old, now); old = peak.Load() {
		}
		if served.Add(1)%7 == 0 {
			panic("poisoned")
		}
		return &llm.Result{Target: call.Target}, nil
	})
	handle := wrap(t, terminal(u, pipeline.Policy{MaxConcurrent: limit}).Handle, pipeline.NewFallback(nil, nil))

	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range rounds {
				caught(func() { _, _ = handle(context.Background(), newCall(alpha), nil) })
			}
		})
	}
	wg.Wait()

	if got := peak.Load(); got > limit {
		t.Errorf("%d calls in flight at once, want at most %d", got, limit)
	}
	for range limit * 2 {
		caught(func() {
			_, err := handle(t.Context(), newCall(alpha), nil)
			if f := llm.AsFailure(err); f != nil && f.Class == llm.ClassSaturated {
				t.Error("a place was lost")
			}
		})
	}
}
