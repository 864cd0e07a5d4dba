package prober

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Canary is how the canary of one circuit is made, by the running configuration.
type Canary struct {
	Target  llm.Target
	Dialect llm.Dialect
	Body    []byte // the question
	Facts   llm.Facts
	// Expect is what the answer must hold, in capitals or not; empty = any
	// answer will do.
	Expect string
	// Timeout is how long it may take, Patience how long it may wait for the
	// others of its provider.
	Timeout, Patience time.Duration

	// Read returns the text of an answer, and whether it came to the limit of its
	// tokens.
	Read func(body []byte) (text string, cut bool)
	// Send asks, and ends the permit by what came of it; judge finds faults in an
	// answer.
	Send func(ctx context.Context, call *llm.Call, permit *breaker.Permit, judge func(*llm.Result) error) error
}

// Canaries makes canaries for circuits, of each provider one at a time: what is
// down for one of its models is likely to be down for them all, and it should
// not come back to a crowd.
type Canaries struct {
	plan  func(key string) (Canary, bool)
	turns *Turns
	log   *slog.Logger
}

// NewCanaries returns them. plan says how the canary of a circuit is made, or
// false where the running configuration knows none.
func NewCanaries(plan func(key string) (Canary, bool), turns *Turns, log *slog.Logger) *Canaries {
	return &Canaries{plan: plan, turns: turns, log: log}
}

// Send makes the canary of a circuit and ends the permit: neutral, if it could
// not be made. It returns soon after ctx has ended.
func (c *Canaries) Send(ctx context.Context, key string, permit *breaker.Permit) {
	canary, ok := c.plan(key)
	if !ok { // a reload has taken the target away
		permit.Done(breaker.Outcome{Kind: breaker.Neutral})
		return
	}
	ctx, cancel := untilShutdown(ctx)
	defer cancel()

	permit.Within(canary.Patience + canary.Timeout + grace)
	leave, err := c.turns.take(ctx, canary.Target.Provider, canary.Patience, canary.Timeout+grace)
	if err != nil {
		c.log.Warn("a canary was not sent", "circuit", key, "error", err)
		permit.Done(breaker.Outcome{Kind: breaker.Neutral})
		return
	}
	defer leave()
	guarded(c.log, llm.OperationCanary, canary.Target, func() { c.send(ctx, canary, permit) })
}

func (c *Canaries) send(ctx context.Context, canary Canary, permit *breaker.Permit) {
	call := ask(llm.OperationCanary, canary.Target, canary.Timeout)
	call.Dialect, call.Body, call.Facts = canary.Dialect, canary.Body, canary.Facts
	permit.Within(canary.Timeout + grace)

	err := canary.Send(ctx, call, permit, canary.judge)
	switch f := llm.AsFailure(err); {
	case f == nil:
		c.log.Debug("canary answered", "circuit", canary.Target.Key(), "run_id", call.RunID)
	case f.Trips():
		c.log.Debug("canary failed", "circuit", canary.Target.Key(), "run_id", call.RunID, "reason", reason(err))
	default:
		c.log.Warn("a canary says nothing about its target", "circuit", canary.Target.Key(), "run_id", call.RunID,
			"class", string(f.Class), "reason", reason(err))
	}
}

// judge finds the fault in an answer: that it says nothing, or not what is
// expected. One that was cut before it said a word is no fault of the model's,
// which may have spent all that it was given on thinking.
func (c Canary) judge(result *llm.Result) error {
	text, cut := c.Read(result.Body)
	fault := &llm.Failure{
		Class: llm.ClassServerError, Reason: llm.ReasonUnexpectedAnswer,
		Target: c.Target, Status: result.Status, Latency: result.Latency,
	}
	switch {
	case c.Expect == "" && (result.OutputBytes > 0 || cut):
		return nil
	case c.Expect != "" && strings.Contains(strings.ToLower(text), strings.ToLower(c.Expect)):
		return nil
	case cut && strings.TrimSpace(text) == "":
		fault.Class = llm.ClassUnknown
	}
	return fault
}
