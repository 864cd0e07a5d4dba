package pipeline_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

var inNeed = pipeline.CachePolicy{TTL: time.Minute, Stale: time.Hour, Message: "We are away."}

// When no target answers, what is past its time is better than nothing, and a
// message is better than an error. Neither is anybody's success.
func TestDegradedAnswers(t *testing.T) {
	t.Parallel()
	for shape, change := range map[string]func(*llm.Call){"whole": func(*llm.Call) {}, "stream": streamed} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCached(t, inNeed, script(alpha, said("good", 0), fails(status500, 0)))
				c.ask(t.Context()).is(t, "good", llm.CacheMiss)
				time.Sleep(30 * time.Minute)
				stale := c.ask(t.Context(), change)
				stale.is(t, "good", llm.CacheStale)
				c.isDegraded(t, stale, llm.DegradedStale, alpha)

				time.Sleep(time.Hour)
				message := c.ask(t.Context(), change)
				message.is(t, "We are away.", llm.CacheMiss)
				c.isDegraded(t, message, llm.DegradedMessage, llm.Target{})
				if len(c.shelf.kept) != 1 {
					t.Errorf("kept %v", c.shelf.kept)
				}
			})
		})
	}
}

func (c *cached) isDegraded(t *testing.T, g got, how llm.Degradation, served llm.Target) {
	t.Helper()
	run := c.records.last()
	if run.Degraded != how || run.Outcome != llm.RunSuccess || run.Served != served || run.FailureClass != "" {
		t.Errorf("the row is %+v", run)
	}
	if len(run.Attempts) != 1 || run.Attempts[0].Outcome != llm.OutcomeFailure {
		t.Errorf("attempts %+v", run.Attempts)
	}
	const mark = `"ai_degraded":true`
	if len(g.events) > 0 && (!strings.Contains(g.events[0], mark) || strings.Contains(strings.Join(g.events[1:], ""), mark) || len(g.events) != 4) {
		t.Errorf("events %q", g.events)
	}
	if len(g.events) == 0 && !strings.Contains(g.body, mark) {
		t.Errorf("body %s", g.body)
	}
}

func TestWhatIsNotDegraded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		failure behaviour
		policy  pipeline.CachePolicy
	}{
		"a refused request":       {fails(badRequest, 0), inNeed},
		"our credentials":         {fails(badKey, 0), inNeed},
		"our set-up":              {fails(noModel, 0), inNeed},
		"a limit":                 {fails(llm.Failure{Class: llm.ClassBudgetDenied, Reason: llm.ReasonBudgetExceeded}, 0), inNeed},
		"a call that was ended":   {fails(llm.Failure{Class: llm.ClassCancelled, Reason: llm.ReasonRequestTimeout}, 0), inNeed},
		"a stream that has begun": {spoken(&truncated, 0, "lo"), inNeed},
		"nothing is configured":   {fails(status500, 0), anHour},
		"nothing stale is there":  {fails(status500, 0), pipeline.CachePolicy{TTL: time.Minute, Stale: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCached(t, tc.policy, script(alpha, tc.failure))
			if g := c.ask(t.Context(), streamed); g.err == nil || g.run.Degraded != "" {
				t.Errorf("got %q, degraded %q, %v", g.text, g.run.Degraded, g.err)
			}
		})
	}
}

// Each kind of outage is one; a target that was left out for money or size is no
// reason against it.
func TestWhatIsDegraded(t *testing.T) {
	t.Parallel()
	denied := llm.Failure{Class: llm.ClassBudgetDenied, Reason: llm.ReasonBudgetExceeded}
	for name, failures := range map[string][]llm.Failure{
		"time-out": {timedOut}, "connection": {refusedConn}, "server": {status503}, "rate": {limited}, "credit": {noCredit},
		"circuit": {{Class: llm.ClassCircuitOpen, Reason: llm.ReasonCircuitOpen}}, "full": {{Class: llm.ClassSaturated, Reason: llm.ReasonBulkheadFull}},
		"several": {status500, limited}, "and one too dear": {status500, denied}, "one too dear first": {denied, resetConn},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := script(alpha, fails(failures[0], 0)).and(beta, fails(failures[len(failures)-1], 0))
			c := newCached(t, pipeline.CachePolicy{Message: "We are away."}, u)
			g := c.ask(t.Context(), func(call *llm.Call) {
				if len(failures) > 1 {
					call.Targets = []llm.Target{alpha, beta}
				}
			})
			g.is(t, "We are away.", "")
		})
	}
}
