package pipeline

import (
	"context"
	"math"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// maxRetries bounds what a policy may ask for, maxSwitches how many credentials
// are tried for one send.
const (
	maxRetries  = 10
	maxSwitches = 32
)

// patience is the longest wait for a target while another is untried.
const patience = time.Second

// Retry says how often and when a failed send is repeated on the same target.
type Retry struct {
	Max      int           // sends after the first; 0 = exactly one request; at most 10 count
	Base     time.Duration // the first wait, doubled by each further one
	MaxDelay time.Duration // longest wait, a provider's hint included
	Jitter   float64       // share of the wait by which it varies both ways
}

// retrying repeats next on the same target as its provider's policy allows, and
// at once where another credential may serve. The attempt is then what its last
// send was; earlier ones show in Retries, and in what they reported of their usage.
func retrying(policies Policies, next Handler) Handler {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		sends := repeats{policy: policies.Providers[call.Target.Provider].Retry, random: policies.Random}
		result, err := next(ctx, call, emit)
		for err != nil && sends.again(ctx, call, llm.AsFailure(err)) {
			row := call.Signals.Attempt()
			sent := row.Sends
			if result != nil && result.Usage != (llm.Usage{}) { // billed, though it served nobody
				row.Sends = append(sent, llm.Sent{Usage: result.Usage})
			}
			again, failure := next(ctx, call, emit)
			if again == nil { // no place was left: nothing new is known of the target
				row.Sends = sent
				break
			}
			again.Retries = sends.retries + sends.switches
			result, err = again, failure
		}
		return result, err
	}
}

// repeats counts the sends after the first.
type repeats struct {
	policy Retry
	random func() float64

	retries  int // of the same
	switches int // to another credential: no repeat to the provider
}

// again reports that the send is to be repeated now, after a wait where one is
// due.
func (s *repeats) again(ctx context.Context, call *llm.Call, f *llm.Failure) bool {
	if f.OtherCredential && !call.Signals.Committed && s.switches < maxSwitches {
		s.switches++
		return ctx.Err() == nil
	}
	if !s.policy.allows(call, f, s.retries) {
		return false
	}
	delay, worthwhile := s.policy.delay(call, f, s.retries, s.random(), time.Now())
	s.retries++
	return worthwhile && pause(ctx, call.Signals, delay)
}

// allows reports whether the failed send may be repeated at all. What the
// client has seen a part of never is, and a probe is one request: whether the
// target has recovered must not be decided by its third try.
func (r Retry) allows(call *llm.Call, f *llm.Failure, retries int) bool {
	return retries < min(r.Max, maxRetries) &&
		!call.Signals.Committed &&
		call.Signals.Attempt().Probe == "" &&
		repeatable(f)
}

// repeatable reports whether the same request may do better on the same target
// without having been processed twice: the connection never came about, or the
// provider said by its status that it did not serve it. (A 425 and what failed
// on the way or inside a 200 are not among them.)
func repeatable(f *llm.Failure) bool {
	switch f.Class {
	case llm.ClassConnection:
		return f.Unsent || f.Status == 408
	case llm.ClassRateLimit, llm.ClassServerError:
		return f.Status >= 300
	default:
		return false
	}
}

// delay is how long to wait before the send is repeated. It reports false when
// the next target, or the failure at once, serves the client better.
func (r Retry) delay(call *llm.Call, f *llm.Failure, retries int, random float64, now time.Time) (time.Duration, bool) {
	delay := max(f.RetryAfter, r.backoff(retries, random))
	switch {
	case f.RetryAfter > r.MaxDelay:
		return 0, false
	case call.MoreTargets && delay > patience:
		return 0, false
	case !call.Deadline.IsZero() && delay > call.Deadline.Sub(now):
		return 0, false
	default:
		return delay, true
	}
}

// backoff is min(base·2^retries ± jitter, max_delay), with random in [0, 1).
func (r Retry) backoff(retries int, random float64) time.Duration {
	wait := float64(r.Base) * math.Exp2(float64(retries)) * (1 + r.Jitter*(2*random-1))
	return time.Duration(min(wait, float64(r.MaxDelay)))
}

// pause waits for d and reports false when the call ended meanwhile.
func pause(ctx context.Context, signals *llm.Signals, d time.Duration) bool {
	start := time.Now()
	defer func() { signals.UpstreamTime += time.Since(start) }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err() == nil
}
