package pipeline_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// CAC-09, CF-K2: a hit is an answer for which nobody was asked.
func TestTheSameQuestionIsAskedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCached(t, anHour, script(alpha, said("one", time.Second), said("two", 0)))
		c.ask(t.Context()).is(t, "one", llm.CacheMiss)
		synctest.Wait()
		c.ask(t.Context(), body(`{"messages":[{"content":"hi","role":"user"}],"user":"u","model":"chat"}`)).is(t, "one", llm.CacheHit)
		run := c.records.last()
		if len(run.Attempts) != 0 || !run.CacheHit || run.Served != alpha || run.Outcome != llm.RunSuccess || run.HTTPStatus != 200 {
			t.Errorf("the hit's row is %+v", run)
		}
		time.Sleep(time.Hour)
		c.ask(t.Context()).is(t, "two", llm.CacheMiss)
		if diff := cmp.Diff(map[llm.CacheResult]int{llm.CacheHit: 1, llm.CacheMiss: 2}, c.tally.n); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
	})
}

// CAC-07: an answer has the shape that is asked for, whatever shape it came in.
func TestHitsHaveTheShapeThatIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCached(t, anHour, script(alpha, said("low water", 0)))
		c.ask(t.Context()).is(t, "low water", llm.CacheMiss)
		synctest.Wait()
		hit := c.ask(t.Context(), streamed)
		hit.is(t, "low water", llm.CacheHit)
		if last := hit.events[len(hit.events)-1]; last != "data: [DONE]\n\n" || hit.run.FirstContent.IsZero() || !hit.run.Committed {
			t.Errorf("events %q", hit.events)
		}

		c = newCached(t, anHour, script(alpha, spoken(nil, 0, "low ", "water")))
		c.ask(t.Context(), streamed).is(t, "low water", llm.CacheMiss)
		synctest.Wait()
		hit = c.ask(t.Context())
		hit.is(t, "low water", llm.CacheHit)
		if !strings.Contains(hit.body, `"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}`) {
			t.Errorf("no usage in %s", hit.body)
		}
		c.ask(t.Context(), streamed).is(t, "low water", llm.CacheHit)
	})
}

// CAC-05, END-01, CF-K5: only what is whole, good and says something is kept.
func TestWhatIsNotKept(t *testing.T) {
	t.Parallel()
	raw := func(body string) behaviour {
		return func(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
			return &llm.Result{Target: call.Target, Status: 200, Body: []byte(body)}, nil
		}
	}
	call := `{"choices":[{"index":0,"message":{"content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`
	tests := map[string]struct {
		first  behaviour
		call   func(*llm.Call)
		policy pipeline.CachePolicy
	}{
		"an empty answer":      {raw(`{"choices":[{"index":0,"message":{"content":""},"finish_reason":"stop"}]}`), nil, anHour},
		"an error in a 200":    {raw(`{"error":{"message":"x"}}`), nil, anHour},
		"a call of a tool":     {raw(call), nil, anHour},
		"a failure":            {fails(limited, 0), nil, anHour},
		"a stream that is cut": {spoken(&truncated, 0, "low "), streamed, anHour},
		"more than fits":       {said(strings.Repeat("x", 5<<10), 0), nil, anHour},
		"a stream over bounds": {spoken(nil, 0, strings.Repeat("x", 40<<10)), streamed, anHour},
		"without context":      {said("x", 0), func(c *llm.Call) { c.Signals.Degraded = llm.DegradedContext }, anHour},
		"no-store":             {said("x", 0), control(llm.CacheNoStore), anHour},
		"switched off":         {said("x", 0), nil, pipeline.CachePolicy{Message: "away"}},
		"no clear key":         {said("x", 0), body(`{"messages":[{"content":"\ud800"}]}`), anHour},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCached(t, tc.policy, script(alpha, tc.first, said("good", 0)))
				change := tc.call
				if change == nil {
					change = func(*llm.Call) {}
				}
				c.ask(t.Context(), change)
				synctest.Wait()
				if len(c.shelf.kept) != 0 {
					t.Errorf("kept %v", c.shelf.kept)
				}
				if second := c.ask(t.Context()); second.err == nil && second.text != "good" {
					t.Errorf("the next call got %q", second.text)
				}
			})
		})
	}
	t.Run("but tool calls where they are allowed", func(t *testing.T) {
		t.Parallel()
		c := newCached(t, pipeline.CachePolicy{TTL: time.Hour, ToolCalls: true}, script(alpha, raw(call)))
		c.ask(t.Context())
		if len(c.shelf.kept) != 1 {
			t.Error("not kept")
		}
	})
}

func TestRefreshAsksAnewAndKeeps(t *testing.T) {
	t.Parallel()
	c := newCached(t, anHour, script(alpha, said("old", 0), said("new", 0)))
	c.ask(t.Context(), control(llm.CacheRefresh)).is(t, "old", llm.CacheMiss)
	c.ask(t.Context(), control(llm.CacheRefresh)).is(t, "new", llm.CacheMiss)
	c.ask(t.Context()).is(t, "new", llm.CacheHit)
	c.ask(t.Context(), control(llm.CacheNoStore)).is(t, "new", "")
	if n := c.calls(alpha); n != 3 {
		t.Errorf("%d calls, want 3", n)
	}
}

// CAC-03: whatever two callers ask, and whenever, neither gets what the other was
// told, unless they share.
func TestCallersNeverSeeEachOthersAnswers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		shared := rapid.Bool().Draw(rt, "shared")
		asked := 0
		u := script(alpha, func(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
			asked++
			return said(call.Caller.KeyID+"|"+string(call.Body), 0)(context.Background(), call, nil)
		})
		c := newCached(t, pipeline.CachePolicy{TTL: time.Hour, Shared: shared}, u)
		known := map[string]bool{}
		for range rapid.IntRange(1, 12).Draw(rt, "calls") {
			who := rapid.SampledFrom([]string{"", "a", "b", "key:a", "ab"}).Draw(rt, "who")
			what := fmt.Sprintf(`{"messages":[%q]}`, rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "what"))
			shape := rapid.SampledFrom([]func(*llm.Call){streamed, func(*llm.Call) {}}).Draw(rt, "shape")
			g := c.ask(context.Background(), caller(who), body(what), shape, func(call *llm.Call) { call.Facts.Stream = false })
			owner, question, _ := strings.Cut(g.text, "|")
			if question != what || !shared && owner != who {
				rt.Fatalf("%q asked %s and got %q", who, what, g.text)
			}
			if shared {
				who = ""
			}
			known[who+what] = true
			if asked != len(known) {
				rt.Fatalf("%d calls upstream, want %d", asked, len(known))
			}
		}
	})
}
