package llm

import (
	"errors"
	"slices"
	"time"
)

// Answer is the row of CONTRACT's error table under which a failed call falls.
// It is decided here, once, so that the HTTP answer and the telemetry row
// cannot differ; what status and words belong to a row is api's matter.
type Answer string

const (
	AnswerTimeout       Answer = "upstream_timeout"
	AnswerRateLimited   Answer = "upstream_rate_limited"
	AnswerSaturated     Answer = "overloaded"
	AnswerCircuitOpen   Answer = "circuit_open"
	AnswerUnavailable   Answer = "upstream_unavailable"
	AnswerFailed        Answer = "upstream_failed"
	AnswerAuth          Answer = "upstream_auth"
	AnswerConfiguration Answer = "upstream_configuration"
	AnswerQuota         Answer = "upstream_quota"
	AnswerUnknown       Answer = "upstream_unknown"
	AnswerClientError   Answer = "client_error"
	AnswerClientLeft    Answer = "client_left"
	AnswerCallerTimeout Answer = "caller_timeout"
	AnswerShuttingDown  Answer = "shutting_down"
	AnswerBudget        Answer = "budget_exceeded"
	AnswerCallerLimited Answer = "rate_limit_exceeded"
	AnswerUnpriced      Answer = "unpriced_model"
	AnswerKeyInProgress Answer = "idempotency_in_progress"
	AnswerKeyReused     Answer = "idempotency_key_reused"
	AnswerNotKept       Answer = "idempotency_answer_too_large"
	AnswerNoReplay      Answer = "idempotency_unavailable"
	AnswerInternal      Answer = "internal_error"
)

// Verdict is what a failed call amounts to.
type Verdict struct {
	Answer Answer
	// Failure is the one that decided: its class and reason go into the run
	// row. Nil only for AnswerInternal.
	Failure *Failure
	// RetryAfter is the soonest recovery over all candidates; 0 when unknown.
	RetryAfter time.Duration
}

// Judge decides which row of the error table an error of the pipeline falls
// under. A failure that could not move on is the answer; else the first row
// that fits all candidates, then the last failure.
func Judge(err error) Verdict {
	var exhausted *ExhaustedError
	if errors.As(err, &exhausted) && len(exhausted.Failures) > 0 {
		return judgeAll(exhausted.Failures)
	}
	var f *Failure
	if errors.As(err, &f) {
		return judgeAll([]*Failure{f})
	}
	return Verdict{Answer: AnswerInternal}
}

func judgeAll(failures []*Failure) Verdict {
	if v, denied := judgeDenied(failures); denied {
		return v
	}
	failures = asked(failures)
	last := failures[len(failures)-1]
	v := Verdict{Failure: last, RetryAfter: soonest(failures)}
	switch {
	case every(failures, timedOut):
		v.Answer = AnswerTimeout
	case every(failures, rateLimited):
		v.Answer = AnswerRateLimited
		v.Failure = firstOr(failures, func(f *Failure) bool { return f.Class == ClassRateLimit }, last)
	case every(failures, func(f *Failure) bool { return f.Class == ClassSaturated }):
		v.Answer = AnswerSaturated
	case some(failures, circuitOpen):
		v.Answer = AnswerCircuitOpen
		v.Failure = firstOr(failures, circuitOpen, last)
	default:
		v.Answer = judgeOne(last)
	}
	return v
}

// judgeDenied is the verdict on a call that a limit ended: its caller's own rate
// limit, which no other target is under, or the money of all the candidates that
// the request fits.
func judgeDenied(failures []*Failure) (Verdict, bool) {
	if last := failures[len(failures)-1]; last.Reason == ReasonRateLimitExceeded {
		return Verdict{Answer: AnswerCallerLimited, Failure: last, RetryAfter: last.RetryAfter}, true
	}
	denied := firstOr(failures, budgetDenied, nil)
	if denied == nil || some(failures, func(f *Failure) bool { return f.Class != ClassBudgetDenied && f.Class != ClassUnfit }) {
		return Verdict{}, false
	}
	if over := firstOr(failures, func(f *Failure) bool { return f.Reason == ReasonBudgetExceeded }, nil); over != nil {
		return Verdict{Answer: AnswerBudget, Failure: over}, true
	}
	return Verdict{Answer: AnswerUnpriced, Failure: denied}, true
}

func budgetDenied(f *Failure) bool { return f.Class == ClassBudgetDenied }

// asked leaves out the candidates that were skipped because the request does
// not fit them, or for money: they say nothing of why it was not served. If there
// were no others, they are all that can be said.
func asked(failures []*Failure) []*Failure {
	left := slices.DeleteFunc(slices.Clone(failures), func(f *Failure) bool { return f.Class == ClassUnfit || budgetDenied(f) })
	if len(left) == 0 {
		return failures
	}
	return left
}

func judgeOne(f *Failure) Answer {
	switch f.Class {
	case ClassQuota:
		return AnswerQuota
	case ClassAuth:
		return AnswerAuth
	case ClassConfiguration:
		return AnswerConfiguration
	case ClassClientError:
		return AnswerClientError
	case ClassIdempotency:
		return judgeKey(f.Reason)
	case ClassCancelled:
		return judgeCancelled(f.Reason)
	case ClassUnknown:
		if f.Reason == ReasonPanic {
			return AnswerInternal
		}
		return AnswerUnknown
	default:
		if f.Status == 503 || f.Status == 529 || f.Reason == ReasonOverloaded {
			return AnswerUnavailable
		}
		return AnswerFailed
	}
}

func judgeKey(reason Reason) Answer {
	switch reason {
	case ReasonKeyReused:
		return AnswerKeyReused
	case ReasonKeyInProgress:
		return AnswerKeyInProgress
	case ReasonAnswerTooLarge:
		return AnswerNotKept
	default:
		return AnswerNoReplay
	}
}

func judgeCancelled(reason Reason) Answer {
	switch reason {
	case ReasonCallerTimeout:
		return AnswerCallerTimeout
	case ReasonRequestTimeout, ReasonMaxStream:
		return AnswerTimeout
	case ReasonShutdown:
		return AnswerShuttingDown
	default:
		return AnswerClientLeft
	}
}

func timedOut(f *Failure) bool {
	switch f.Reason {
	case ReasonConnectTimeout, ReasonFirstTokenTimeout, ReasonIdleTimeout, ReasonTotalTimeout:
		return true
	default:
		return false
	}
}

func rateLimited(f *Failure) bool {
	return f.Class == ClassRateLimit || f.Class == ClassCircuitOpen && f.OpenedBy == ClassRateLimit
}

func circuitOpen(f *Failure) bool { return f.Class == ClassCircuitOpen }

func every(failures []*Failure, is func(*Failure) bool) bool {
	return !some(failures, func(f *Failure) bool { return !is(f) })
}

func some(failures []*Failure, is func(*Failure) bool) bool {
	return firstOr(failures, is, nil) != nil
}

func firstOr(failures []*Failure, is func(*Failure) bool, otherwise *Failure) *Failure {
	for _, f := range failures {
		if is(f) {
			return f
		}
	}
	return otherwise
}

func soonest(failures []*Failure) time.Duration {
	var best time.Duration
	for _, f := range failures {
		if f.RetryAfter > 0 && (best == 0 || f.RetryAfter < best) {
			best = f.RetryAfter
		}
	}
	return best
}

// RunOutcomeOf says how a call ended for its client, from the error the
// pipeline returned; nil is a success. Only what the client did itself is
// "cancelled": a clock of ours that ended the call is a failure. What a limit
// refused is "denied".
func RunOutcomeOf(err error) RunOutcome {
	if err == nil {
		return RunSuccess
	}
	switch Judge(err).Answer {
	case AnswerClientLeft, AnswerCallerTimeout:
		return RunCancelled
	case AnswerBudget, AnswerCallerLimited, AnswerUnpriced:
		return RunDenied
	default:
		return RunFailure
	}
}
