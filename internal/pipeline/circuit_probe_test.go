package pipeline_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// What a probe's result does, 31 s after the circuit opened.
func TestCircuitBreaker_Probe(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name  string
		alpha behaviour
		want  circuit
	}{
		{"success closes (CF-B9)", answers(0), circuit{State: "closed"}},
		{"a failure re-opens (CF-B10)", fails(refusedConn, 0), circuit{State: "open", Cause: "connection"}},
		{"401 gives the slot back (CF-B11)", fails(badKey, 0), circuit{State: "half_open"}},
		{"a panic re-opens (R13)", panics("poisoned"), circuit{State: "open", Cause: breaker.CausePanic}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := guard(t, threeInARow, pipeline.Policy{Retry: patient}, script(alpha, tt.alpha))
				g.opened()
				<-time.After(31 * time.Second)
				asked := g.u.calls(alpha)

				caught(func() { g.calls(1) })
				row := g.runs.last().Attempts[0]

				if row.Probe != llm.ProbeCall || row.CircuitState != "half_open" || row.CircuitGeneration != 3 {
					t.Errorf("row = %+v, want a probe of generation 3", row)
				}
				if got := g.u.calls(alpha) - asked; got != 1 {
					t.Errorf("the probe sent %d requests, want 1", got)
				}
				if got := g.circuit(); got.State != tt.want.State || (tt.want.Cause != "" && got.Cause != tt.want.Cause) {
					t.Errorf("circuit = %+v, want %+v", got, tt.want)
				}
			})
		})
	}
}

// CF-B11, BRK-03: after a probe that said nothing the next call probes.
func TestCircuitBreaker_ACancelledProbeFreesItsSlot_BRK_03(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, threeInARow, pipeline.Policy{}, script(alpha, answers(500*ms)))
		g.opened()
		<-time.After(31 * time.Second)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*ms, func() { cancel(llm.ErrClientLeft) })

		_, err := g.handle(ctx, newCall(alpha), nil)
		if f := llm.AsFailure(err); f == nil || f.Class != llm.ClassCancelled {
			t.Fatalf("error = %v, want cancelled", err)
		}
		if got := g.circuit().State; got != "half_open" {
			t.Errorf("state after the cancel = %s, want half_open", got)
		}
		if row, err := g.call(); err != nil || row.Probe != llm.ProbeCall {
			t.Errorf("next call: probe %v, %v, want a probe that answers", row.Probe, err)
		}
		g.wants(circuit{State: "closed"})
	})
}

// BRK-05: one probe; the others are refused for `probing` and fall back.
func TestCircuitBreaker_OneProbeAtATime_BRK_05(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, threeInARow, pipeline.Policy{}, script(alpha, answers(300*ms)).and(beta, answers(0)))
		g.opened()
		<-time.After(31 * time.Second)
		asked := g.u.calls(alpha)

		probe := start(t.Context(), g.handle, newCall(alpha, beta))
		synctest.Wait()
		for range 19 {
			call := newCall(alpha, beta)
			if result, err := g.handle(t.Context(), call, nil); err != nil || result.Target != beta {
				t.Fatalf("answer = %v, %v, want beta's", result, err)
			}
			if row := call.Signals.Attempts[0]; row.FailureReason != llm.ReasonProbing || row.CircuitState != "half_open" {
				t.Fatalf("row = %+v, want refused for probing", row)
			}
		}
		if err := probe(); err != nil {
			t.Errorf("the probe: %v", err)
		}
		if got := g.u.calls(alpha) - asked; got != 1 {
			t.Errorf("calls(alpha) = %d, want 1", got)
		}
		g.wants(circuit{State: "closed"})
	})
}

// R18: the first token of a streaming probe closes the circuit; preambles do
// not, and a break after it counts.
func TestCircuitBreaker_FirstTokenSettlesAProbe_R18(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g *guarded
		var seen []string
		g = guard(t, threshold(1), pipeline.Policy{}, script(alpha, func(_ context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
			for _, event := range []llm.Event{preamble("role"), content("a"), content("b")} {
				_ = emit(event)
				seen = append(seen, g.circuit().State)
			}
			failure := truncated
			return &llm.Result{Target: call.Target, Streamed: true}, &failure
		}))
		g.opened()
		<-time.After(31 * time.Second)

		_, _ = g.handle(t.Context(), newStream(alpha), new(client).emit)

		if diff := cmp.Diff([]string{"half_open", "closed", "closed"}, seen); diff != "" {
			t.Errorf("state after each event (-want +got):\n%s", diff)
		}
		g.wants(circuit{State: "open", Streak: 1, Cause: "connection"})
	})
}

// R11: a probe that is slow but inside the call's deadline keeps its lease.
func TestCircuitBreaker_ASlowProbeKeepsItsLease_R11(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, threeInARow, pipeline.Policy{}, script(alpha, answers(5*time.Minute)))
		g.circuits.Start()
		g.opened()
		<-time.After(31 * time.Second)

		call := newCall(alpha)
		call.Deadline = time.Now().Add(10 * time.Minute)
		if _, err := g.handle(t.Context(), call, nil); err != nil {
			t.Fatal(err)
		}
		g.wants(circuit{State: "closed"})
		if err := g.circuits.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// R13: a goroutine that ends gives its permit back and says nothing.
func TestCircuitBreaker_Goexit_R13(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, threeInARow, pipeline.Policy{}, script(alpha, answers(0)))
		g.opened()
		<-time.After(31 * time.Second)
		g.u.and(alpha, func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) {
			runtime.Goexit()
			return nil, nil
		})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = g.handle(context.Background(), newCall(alpha), nil)
		}()
		<-ended
		g.wants(circuit{State: "half_open"})

		g.u.and(alpha, answers(0))
		if _, err := g.call(); err != nil {
			t.Errorf("the slot was lost: %v", err)
		}
	})
}
