package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// Whatever its targets do: a call gets at most one committed answer, whole or
// cut but never mixed, its rows tell what happened, and it leaves one run.
func TestPipeline_AnyScript(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(inBubble{t}, func(rt *rapid.T) {
			policy := pipeline.Policy{Retry: pipeline.Retry{Max: rapid.IntRange(0, 2).Draw(rt, "max"), Base: ms, MaxDelay: 2 * time.Second}}
			world := &world{}
			u := script(alpha, world.behave)
			for _, target := range []llm.Target{beta, gamma, delta} {
				u.and(target, world.behave)
			}
			g := guard(t, threshold(2), policy, u)
			for range rapid.IntRange(1, 6).Draw(rt, "calls") {
				world.oneCall(rt, g)
				<-time.After(time.Duration(rapid.IntRange(0, 40).Draw(rt, "pause")) * time.Second)
			}
		})
	})
}

// inBubble hides the test's deadline from rapid: a bubble has another clock.
type inBubble struct{ rapid.TB }

// world draws what the targets do and remembers it.
type world struct {
	rt    *rapid.T
	sends []send // of the call in hand
}

// send is one request and what it emitted.
type send struct {
	target    llm.Target
	events    []string
	committed bool // content was among them
	err       error
}

// failures that a target may answer with.
var failures = []llm.Failure{
	refusedConn, resetConn, timedOut, status500, status503, limited, after(limited, 3*time.Second), after(status503, time.Hour),
	noCredit, badKey, noModel, badRequest, inBand,
}

// behave is one send: events of a stream, if one was asked for, up to some
// point, and then an end of some kind.
func (w *world) behave(_ context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
	w.sends = append(w.sends, send{target: call.Target})
	s := &w.sends[len(w.sends)-1]
	result := &llm.Result{Target: call.Target, Status: 200, Streamed: call.Facts.Stream}
	well := rapid.Bool().Draw(w.rt, "ends well")

	if call.Facts.Stream {
		for i := range rapid.IntRange(0, 4).Draw(w.rt, "events") {
			kind := rapid.SampledFrom([]llm.EventKind{llm.EventPreamble, llm.EventContent}).Draw(w.rt, "kind")
			raw := fmt.Sprintf("%s send %d event %d", call.Target.Provider, len(w.sends), i)
			s.events = append(s.events, raw)
			s.committed = s.committed || kind == llm.EventContent
			result.OutputBytes++
			if err := emit(llm.Event{Kind: kind, Raw: []byte(raw)}); err != nil {
				s.err = &llm.Failure{Class: llm.ClassCancelled, Reason: llm.CancelReason(err), Target: call.Target}
				return result, s.err
			}
		}
	} else if well {
		result.Body = []byte(call.Target.Provider)
	}
	if well {
		return result, nil
	}
	f := rapid.SampledFrom(failures).Draw(w.rt, "failure")
	f.Target = call.Target
	s.err = &f
	if f.Unsent {
		return nil, s.err
	}
	return result, s.err
}

func (w *world) oneCall(rt *rapid.T, g *guarded) {
	w.rt, w.sends, g.runs.runs = rt, nil, nil
	call := newCall(rapid.SliceOfN(rapid.SampledFrom([]llm.Target{alpha, beta, gamma, delta}), 1, 5).Draw(rt, "targets")...)
	call.Facts.Stream = rapid.Bool().Draw(rt, "stream")
	c := &client{leaves: rapid.IntRange(0, 6).Draw(rt, "client leaves after"), why: llm.ErrClientLeft}

	result, err := g.handle(context.Background(), call, c.emit)

	if len(g.runs.runs) != 1 {
		rt.Fatalf("%d runs recorded, want exactly 1", len(g.runs.runs))
	}
	w.checkAnswer(rt, c, result, err)
	w.checkRows(rt, call, g.runs.runs[0], err)
}

// checkAnswer: the client saw the last send and nothing else, in full when the
// call succeeded, and no send followed one that had committed.
func (w *world) checkAnswer(rt *rapid.T, c *client, result *llm.Result, err error) {
	for _, s := range w.sends[:max(0, len(w.sends)-1)] {
		if s.committed {
			rt.Fatalf("%v was sent to after it had committed", s.target)
		}
	}
	if len(w.sends) == 0 {
		if err == nil || len(c.events) > 0 {
			rt.Fatalf("an answer from nowhere: %v, %v", c.events, err)
		}
		return
	}
	last := w.sends[len(w.sends)-1]
	if !strings.HasPrefix(strings.Join(last.events, "\n"), strings.Join(c.events, "\n")) {
		rt.Fatalf("the client saw %q, want a part of %q", c.events, last.events)
	}
	if err != nil {
		return
	}
	if last.err != nil || result.Target != last.target {
		rt.Fatalf("success of %v, but the last send was %+v", result.Target, last)
	}
	if result.Streamed && len(c.events) != len(last.events) || !result.Streamed && string(result.Body) != last.target.Provider {
		rt.Fatalf("the client saw %q and %q of %+v", c.events, result.Body, last)
	}
}

// checkRows: the attempts are the targets in order, each once, with its sends.
func (w *world) checkRows(rt *rapid.T, call *llm.Call, run llm.Run, err error) {
	var tried []llm.Target
	sends := 0
	for i, row := range run.Attempts {
		tried = append(tried, row.Target)
		if refused := row.Outcome == llm.OutcomeRefused; row.Reached == refused {
			rt.Fatalf("row %+v: reached and refused at once, or neither", row)
		}
		if row.Reached {
			sends += 1 + row.Retries
		}
		if last := i == len(run.Attempts)-1; (row.Outcome == llm.OutcomeSuccess) != (last && err == nil) {
			rt.Fatalf("row %d of %d is a %s, and the call ended with %v", i+1, len(run.Attempts), row.Outcome, err)
		}
		if row.FinishedAt.IsZero() || (row.FailureClass == "") != (row.Outcome == llm.OutcomeSuccess) {
			rt.Fatalf("row %+v was not settled", row)
		}
	}
	if sends != len(w.sends) {
		rt.Fatalf("the rows tell of %d sends, want %d", sends, len(w.sends))
	}
	if want := once(call.Targets)[:len(tried)]; fmt.Sprint(tried) != fmt.Sprint(want) {
		rt.Fatalf("tried %v, want %v", tried, want)
	}
	if run.Outcome != llm.RunOutcomeOf(err) {
		rt.Fatalf("run is a %s after %v", run.Outcome, err)
	}
	var exhausted *llm.ExhaustedError
	if errors.As(err, &exhausted) && (len(exhausted.Failures) != len(tried) || len(tried) != len(once(call.Targets))) {
		rt.Fatalf("exhausted after %v of %v with %d failures", tried, call.Targets, len(exhausted.Failures))
	}
}

func once(targets []llm.Target) []llm.Target {
	var distinct []llm.Target
	seen := map[llm.Target]bool{}
	for _, target := range targets {
		if !seen[target] {
			distinct = append(distinct, target)
		}
		seen[target] = true
	}
	return distinct
}
