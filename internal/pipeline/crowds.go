package pipeline

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// joinFor is how long an answer is given to who asks after it came, until it can
// be found. Where keeping it takes longer, it is asked for anew: what was cleared
// meanwhile does not live on.
const joinFor = time.Second

// crowds are the calls of this process that ask the same at once, so that it is
// asked once. They are spread over several locks by their key.
type crowds struct {
	shards [64]crowdShard
}

type crowdShard struct {
	mu  sync.Mutex
	all map[llm.KeptKey]*crowd
}

func newCrowds() *crowds {
	all := &crowds{}
	for i := range all.shards {
		all.shards[i].all = map[llm.KeptKey]*crowd{}
	}
	return all
}

// join returns the crowd at a key, and whether the caller leads it. Who leads
// must settle it; who does not must follow it.
func (all *crowds) join(key llm.KeptKey) (c *crowd, leads bool) {
	shard := &all.shards[key.Sum[0]%byte(len(all.shards))]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if c, ok := shard.all[key]; ok && (!c.settled || time.Since(c.at) < joinFor) {
		c.followers++
		return c, false
	}
	c = &crowd{shard: shard, key: key, done: make(chan struct{})}
	shard.all[key] = c
	return c, true
}

// crowd is one question on its way: one call leads and asks it, and others follow
// and wait.
type crowd struct {
	shard *crowdShard
	key   llm.KeptKey
	done  chan struct{} // closed once it is settled

	// Guarded by shard.mu.
	followers int
	left      error // why the leader's own client is not there any more
	cancel    context.CancelCauseFunc
	settled   bool
	at        time.Time // when it was
	outcome   outcome   // fixed before done is closed
}

// outcome is what came of a question for those who follow.
type outcome struct {
	kind outcomeKind
	kept llm.Kept // of outcomeAnswer
	err  error    // of outcomeFailure

	// limited is an outcome that a limit of the leader's may have brought about:
	// others than its caller ask for themselves.
	limited bool
	caller  string
}

// concerns reports whether the outcome is that of a caller, too.
func (o outcome) concerns(caller string) bool { return !o.limited || o.caller == caller }

type outcomeKind uint8

const (
	outcomeAnswer  outcomeKind = iota // they get it, too
	outcomeFailure                    // it would be theirs, too
	outcomeAlone                      // the answer is the leader's alone: each asks for itself
	outcomeNext                       // what ended it was the leader's own: another leads
)

// context returns what the leader asks under. It ends with ctx, unless all that has
// ended is the leader's client while somebody follows: then with the last of these.
// end frees what it holds.
func (c *crowd) context(ctx context.Context) (asking context.Context, end func()) {
	asking, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	c.shard.mu.Lock()
	c.cancel = cancel
	c.shard.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); !c.goesOn(cause) {
			cancel(cause)
		}
	})
	return asking, func() {
		stop()
		cancel(nil)
	}
}

// goesOn tells that the leader's client is gone, and reports whether it is worth
// going on.
func (c *crowd) goesOn(why error) bool {
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	if !ownEnd(why) || c.followers == 0 {
		return false
	}
	c.left = why
	return true
}

// ownEnd reports what ends a call for its client alone. A client whose own limit
// has passed is none: it is there, and waits to be told.
func ownEnd(why error) bool {
	return errors.Is(why, llm.ErrClientLeft) || errors.Is(why, llm.ErrSlowReader)
}

// follow waits for what comes of it. The error is that of a call that ended
// before.
func (c *crowd) follow(ctx context.Context) (outcome, error) {
	defer c.unfollow()
	select {
	case <-c.done:
		return c.outcome, nil
	case <-ctx.Done():
		return outcome{}, llm.Cancelled(ctx, llm.Target{})
	}
}

func (c *crowd) unfollow() {
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	c.followers--
	if c.followers == 0 && c.left != nil {
		c.cancel(c.left)
	}
}

// settle tells all who follow what came of it; the first word counts. One with an
// answer for all can be joined until it is left: others have to ask anew.
func (c *crowd) settle(o outcome) {
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	if c.settled {
		return
	}
	c.settled, c.at, c.outcome = true, time.Now(), o
	if o.kind != outcomeAnswer || o.limited {
		delete(c.shard.all, c.key)
	}
	close(c.done)
}

// leave ends one with an answer, which from now on is found or asked for.
func (c *crowd) leave() {
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	if c.shard.all[c.key] == c {
		delete(c.shard.all, c.key)
	}
}

// outcomeOf says whose failure an error is. What an upstream did to the leader it
// would have done to all; what the gateway refused, and what ended the leader's own
// call, says nothing about others; nor, to other callers, what a target did that was
// asked for a shorter answer on the leader's account. A stream that was cut tried no
// other target, and the next one may be cut as late: nobody should wait for it in a
// row.
func outcomeOf(call *llm.Call, err error) outcome {
	if call.Signals.Committed && llm.AsFailure(err).Class != llm.ClassCancelled {
		return outcome{kind: outcomeAlone}
	}
	for _, f := range failuresOf(err) {
		switch {
		case f.Class == llm.ClassCancelled, f.Class == llm.ClassBudgetDenied, f.Class == llm.ClassIdempotency, f.Reason == llm.ReasonPanic:
			return outcome{kind: outcomeNext}
		}
	}
	return outcome{kind: outcomeFailure, err: err, limited: call.Signals.OutputLimited, caller: call.Caller.KeyID}
}

// failuresOf lists the failures of all targets that were tried.
func failuresOf(err error) []*llm.Failure {
	var exhausted *llm.ExhaustedError
	if errors.As(err, &exhausted) && len(exhausted.Failures) > 0 {
		return exhausted.Failures
	}
	return []*llm.Failure{llm.AsFailure(err)}
}
