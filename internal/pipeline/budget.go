package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Ledger keeps the accounts of those for whom limits hold.
type Ledger interface {
	// Open returns the account of a call that came at received; who is governed is
	// asked in that order. It does not wait for anything.
	Open(run uuid.UUID, received time.Time, governed []Governed) Account
}

// Account is what one call has reserved.
type Account interface {
	// Reserve sets what the call may use in all, whatever it was before. The error
	// is an *llm.Failure of class budget_denied when a limit does not allow that, or
	// the context's. The standings are those of rate limits, also beside an error.
	Reserve(ctx context.Context, amount llm.Amount) ([]llm.Standing, error)
	// Settle says what the call has used in the end, and whether an upstream was
	// asked: a call that reached none gives everything back. It does not wait.
	Settle(amount llm.Amount, reached bool)
}

// Governed is one of those whose limits a call must keep.
type Governed struct {
	Scope  llm.Scope
	Limits llm.Limits
}

// Bounds says what a call uses at most.
type Bounds interface {
	Of(target llm.Target, call *llm.Call) llm.Bound
}

// Denials counts what limits refused.
type Denials interface {
	Denied(scope llm.ScopeKind)
}

// Budget holds calls to the limits of their callers and configurations: nothing
// is asked of a target unless there is room for the most that it may cost.
type Budget struct {
	limits  map[string]llm.Limits
	ledger  Ledger
	bounds  Bounds
	denials Denials
}

// NewBudget returns the middleware; limits are those of configurations, by name.
// Those of callers come with their calls.
func NewBudget(limits map[string]llm.Limits, ledger Ledger, bounds Bounds, denials Denials) *Budget {
	return &Budget{limits: limits, ledger: ledger, bounds: bounds, denials: denials}
}

// Name is "budget".
func (b *Budget) Name() string { return "budget" }

// Priority puts it inside the cache, whose answers cost nothing, and outside
// fallback, which asks it about each target.
func (b *Budget) Priority() int { return priorityBudget }

// Wrap passes on a call that asks before each target, and settles what it has
// used on every way out, a panic included. A call without limits costs nothing
// here.
func (b *Budget) Wrap(next Handler) Handler {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		governed := b.governed(call)
		if len(governed) == 0 {
			return next(ctx, call, emit)
		}
		limited := *call
		s := newSpending(b, &limited, governed)
		limited.Admit = s.admit
		defer s.settle()
		return next(ctx, &limited, emit)
	}
}

// governed lists whose limits hold for a call: the caller's first, then those of
// the configuration.
func (b *Budget) governed(call *llm.Call) []Governed {
	var all []Governed
	if limits := call.Caller.Limits; !limits.IsZero() && call.Caller.KeyID != "" {
		all = append(all, Governed{llm.Scope{Kind: llm.ScopeKey, ID: call.Caller.KeyID}, limits})
	}
	if limits, ok := b.limits[call.Configuration]; ok && !limits.IsZero() {
		all = append(all, Governed{llm.Scope{Kind: llm.ScopeConfiguration, ID: call.Configuration}, limits})
	}
	return all
}

// refused is the failure of a target that a limit does not leave room for. A rate
// limit says how long to wait.
func (b *Budget) refused(target llm.Target, err error) error {
	var failure *llm.Failure
	if !errors.As(err, &failure) {
		return fmt.Errorf("reserve what a call may use: %w", err)
	}
	f := *failure
	f.Target = target
	if d := f.Denial; d != nil {
		b.denials.Denied(d.Scope.Kind)
		f.Reason = llm.ReasonBudgetExceeded
		if d.Limit.Rate() {
			f.Reason, f.RetryAfter = llm.ReasonRateLimitExceeded, untilReset(d)
		}
	}
	return &f
}

// standingOf is how a rate limit stands that has refused a call; nil of another.
func standingOf(err error) []llm.Standing {
	var f *llm.Failure
	if !errors.As(err, &f) || f.Denial == nil || !f.Denial.Limit.Rate() {
		return nil
	}
	d := f.Denial
	left := decimal.Max(d.Allowed.Sub(d.Spent).Sub(d.Reserved), decimal.Zero)
	return []llm.Standing{{Limit: d.Limit, Allowed: d.Allowed.IntPart(), Remaining: left.IntPart(), Resets: untilReset(d)}}
}

// endOfOthers is the wait that is told where the end of any other call makes room:
// nobody knows it, and most calls take no longer than a client may wait.
const endOfOthers = time.Second

// untilReset is how long a rate limit asks to be left alone; 0 when no wait helps.
func untilReset(d *llm.Denial) time.Duration {
	switch {
	case !d.Resets.IsZero():
		return max(time.Until(d.Resets), time.Millisecond)
	case d.Asked.LessThanOrEqual(d.Allowed):
		return endOfOthers
	default: // it never fits
		return 0
	}
}
