package pipeline

import (
	"context"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Responses keeps whole answers for a while.
type Responses interface {
	// Find returns what is kept under a key, however old it is; false when there is
	// nothing, or it cannot be had. It bounds its own time.
	Find(ctx context.Context, key llm.KeptKey) (llm.Kept, bool)
	// Keep keeps an answer for ttl and does not wait; kept is called once it can be
	// found, or is given up.
	Keep(key llm.KeptKey, answer llm.Kept, ttl time.Duration, kept func())
}

// CacheResults counts what the response cache had for calls.
type CacheResults interface {
	Cached(result llm.CacheResult)
}

// CachePolicy says what becomes of the answers to a configuration's calls.
type CachePolicy struct {
	TTL       time.Duration // how long an answer is given again; 0 = not at all
	Shared    bool          // between callers; else each has their own
	ToolCalls bool          // answers that call tools are kept, too

	Stale   time.Duration // how much longer, when no target answers
	Message string        // what is said then, when there is no such answer; empty = nothing
}

func (p CachePolicy) isZero() bool { return p.TTL == 0 && p.Message == "" }

// CachePolicies are those of all that may be called.
type CachePolicies struct {
	Configurations map[string]CachePolicy
	Direct         CachePolicy // of targets that clients name themselves
	MaxEntry       int         // of an answer that is kept, in bytes
}

func (p CachePolicies) of(call *llm.Call) CachePolicy {
	if call.Configuration == "" {
		return p.Direct
	}
	return p.Configurations[call.Configuration]
}

func (p CachePolicies) isZero() bool {
	for _, policy := range p.Configurations {
		if !policy.isZero() {
			return false
		}
	}
	return p.Direct.isZero()
}

// Cache answers calls with what the same question got before, asks for others
// that come at the same time only once, and has an answer of some kind when no
// target gives one, each where it is configured.
type Cache struct {
	policies  CachePolicies
	responses Responses
	results   CacheResults
	crowds    *crowds
}

// NewCache returns the middleware.
func NewCache(policies CachePolicies, responses Responses, results CacheResults) *Cache {
	return &Cache{policies: policies, responses: responses, results: results, crowds: newCrowds()}
}

// Name is "cache".
func (c *Cache) Name() string { return "cache" }

// Priority puts it outside everything that costs something.
func (c *Cache) Priority() int { return priorityCache }

// Wrap asks next only for what is not known. A call whose configuration has
// nothing to do with it passes.
func (c *Cache) Wrap(next Handler) Handler {
	if c.policies.isZero() {
		return next
	}
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		policy := c.policies.of(call)
		if policy.isZero() || call.Operation != llm.OperationChat {
			return next(ctx, call, emit)
		}
		q := &question{Cache: c, policy: policy, call: call, emit: emit, next: next}
		q.keyed = policy.TTL > 0 && call.CacheControl != llm.CacheNoStore && q.findKey()
		result, err := q.answer(ctx)
		if err != nil {
			result, err = q.degrade(ctx, result, err)
		}
		if had := call.Signals.CacheResult; had != "" {
			c.results.Cached(had)
		}
		return result, err
	}
}

// question is one call on its way to an answer.
type question struct {
	*Cache
	policy CachePolicy
	call   *llm.Call
	emit   llm.Emit
	next   Handler

	key   llm.KeptKey
	keyed bool // the key says what the call asks; else its answer belongs to it alone
	asked time.Time
}

func (q *question) answer(ctx context.Context) (*llm.Result, error) {
	switch {
	case !q.keyed:
		return q.next(ctx, q.call, q.emit)
	case q.call.CacheControl == llm.CacheRefresh:
		return q.refresh(ctx)
	}
	for {
		f, leads := q.crowds.join(q.key)
		if leads {
			return q.lead(ctx, f)
		}
		began := time.Now()
		outcome, err := f.follow(ctx)
		q.call.Signals.UpstreamTime += time.Since(began)
		if err != nil {
			return nil, err
		}
		if !outcome.concerns(q.call.Caller.KeyID) {
			return q.alone(ctx)
		}
		switch outcome.kind {
		case outcomeAnswer:
			if reply, ok := q.reply(outcome.kept); ok {
				return q.hit(reply)
			}
			return q.alone(ctx)
		case outcomeFailure:
			q.call.Signals.CacheResult = llm.CacheMiss
			return nil, outcome.err
		case outcomeAlone:
			return q.alone(ctx)
		}
	}
}

// alone asks for this call's own sake.
func (q *question) alone(ctx context.Context) (*llm.Result, error) {
	q.call.Signals.CacheResult = llm.CacheMiss
	return q.next(ctx, q.call, q.emit)
}

// refresh asks anew and waits until what comes of it is kept: who asked for it
// expects to find it.
func (q *question) refresh(ctx context.Context) (*llm.Result, error) {
	r := q.transcript(nil)
	defer r.finish()
	result, err := q.ask(ctx, r)
	if err != nil {
		return result, err
	}
	if kept, ok := q.worth(result, r); ok && len(kept.Body) <= q.policies.MaxEntry && !q.limited(kept) {
		done := make(chan struct{})
		q.responses.Keep(q.key, kept, q.policy.TTL+q.policy.Stale, func() { close(done) })
		<-done
	}
	return r.ended(result)
}

func (q *question) ask(ctx context.Context, r *relay) (*llm.Result, error) {
	q.call.Signals.CacheResult, q.asked = llm.CacheMiss, time.Now()
	return q.next(ctx, q.call, r.emit)
}

// lead looks for the answer and, where there is none, asks for it on behalf of
// all who follow.
func (q *question) lead(ctx context.Context, f *crowd) (*llm.Result, error) {
	defer f.settle(outcome{kind: outcomeNext}) // unless it is settled: a panic is nobody else's
	if kept, ok := q.responses.Find(ctx, q.key); ok && time.Since(kept.At) < q.policy.TTL {
		if reply, ok := q.reply(kept); ok {
			f.settle(outcome{kind: outcomeAnswer, kept: kept})
			f.leave()
			return q.hit(reply)
		}
	}
	return q.askForAll(ctx, f)
}

// askForAll asks for the answer. It goes on without its own client as long as somebody
// follows.
func (q *question) askForAll(ctx context.Context, f *crowd) (*llm.Result, error) {
	asking, end := f.context(ctx)
	defer end()
	r := q.transcript(f)
	defer r.finish()
	result, err := q.ask(asking, r)
	if err != nil {
		f.settle(outcomeOf(q.call, err))
		return result, err
	}
	switch kept, ok := q.worth(result, r); {
	case !ok:
		f.settle(outcome{kind: outcomeAlone})
	case q.limited(kept):
		f.settle(outcome{kind: outcomeAnswer, kept: kept, limited: true, caller: q.call.Caller.KeyID})
	default:
		f.settle(outcome{kind: outcomeAnswer, kept: kept})
		q.keep(kept, f)
	}
	return r.ended(result)
}

// keep leaves the crowd to be joined until the answer can be found.
func (q *question) keep(kept llm.Kept, f *crowd) {
	if len(kept.Body) > q.policies.MaxEntry {
		f.leave()
		return
	}
	q.responses.Keep(q.key, kept, q.policy.TTL+q.policy.Stale, f.leave)
}

// worth returns an answer that others may have: whole, successful, with something
// to say, and lacking nothing.
func (q *question) worth(result *llm.Result, r *relay) (llm.Kept, bool) {
	const ok = 200
	if result == nil || result.Status != ok || q.call.Signals.Degraded != "" {
		return llm.Kept{}, false
	}
	body := result.Body
	if result.Streamed {
		var whole bool
		if body, whole = q.said(r, result.Usage); !whole {
			return llm.Kept{}, false
		}
	}
	answered := q.call.Codec.Answered(body)
	if !answered.Complete || answered.ToolCalls && !q.policy.ToolCalls {
		return llm.Kept{}, false
	}
	return llm.Kept{Body: body, Target: result.Target, Run: q.call.RunID, Usage: result.Usage, At: time.Now(), Asked: q.asked}, true
}
