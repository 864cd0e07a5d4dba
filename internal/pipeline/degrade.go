package pipeline

import (
	"context"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// degrade has another answer when no target has given one, where the configuration
// says so: what was kept and is past its time, else a message. Without either, and
// for a call that failed in another way, the error stays as it is. Nobody keeps
// such an answer, and the attempts stay the failures that they are.
func (q *question) degrade(ctx context.Context, result *llm.Result, err error) (*llm.Result, error) {
	if q.policy.Stale == 0 && q.policy.Message == "" || q.call.Signals.Committed || ctx.Err() != nil || !outage(err) {
		return result, err
	}
	if kept, ok := q.stale(ctx); ok {
		if reply, ok := q.reply(kept); ok {
			q.call.Signals.CacheResult, q.call.Signals.Degraded = llm.CacheStale, llm.DegradedStale
			return q.send(reply)
		}
	}
	if q.policy.Message == "" {
		return result, err
	}
	body := q.call.Codec.Message(q.call.RequestedModel, q.policy.Message, time.Now())
	reply, ok := q.reply(llm.Kept{Body: q.call.Codec.Degraded(body)})
	if !ok {
		return result, err
	}
	q.call.Signals.Degraded = llm.DegradedMessage
	return q.send(reply)
}

// stale returns what is kept for this call and may be given in need.
func (q *question) stale(ctx context.Context) (llm.Kept, bool) {
	if !q.keyed || q.policy.Stale == 0 {
		return llm.Kept{}, false
	}
	kept, ok := q.responses.Find(ctx, q.key)
	if !ok || time.Since(kept.At) >= q.policy.TTL+q.policy.Stale {
		return llm.Kept{}, false
	}
	kept.Body = q.call.Codec.Degraded(kept.Body)
	return kept, true
}

// outage reports whether all that kept a call from its answer is that targets
// could not be reached or did not work. One that was left out for its size or its
// price is not asked for its opinion.
func outage(err error) bool {
	if llm.RunOutcomeOf(err) != llm.RunFailure {
		return false
	}
	down := false
	for _, f := range failuresOf(err) {
		switch f.Class {
		case llm.ClassConnection, llm.ClassServerError, llm.ClassRateLimit, llm.ClassQuota, llm.ClassCircuitOpen, llm.ClassSaturated:
			down = true
		case llm.ClassUnfit, llm.ClassBudgetDenied:
		default:
			return false
		}
	}
	return down
}
