package llm_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// failed returns the error of a call whose candidates all failed so, in order.
func failed(failures ...*llm.Failure) error {
	if len(failures) == 1 {
		return failures[0]
	}
	return &llm.ExhaustedError{Failures: failures}
}

// CONTRACT section 3, "Which row".
func TestJudge(t *testing.T) {
	t.Parallel()

	var (
		timeout  = &llm.Failure{Class: llm.ClassConnection, Reason: llm.ReasonFirstTokenTimeout}
		connect  = &llm.Failure{Class: llm.ClassConnection, Reason: llm.ReasonConnectTimeout}
		reset    = &llm.Failure{Class: llm.ClassConnection, Reason: llm.ReasonReset}
		limited  = &llm.Failure{Class: llm.ClassRateLimit, Reason: llm.ReasonRateLimited, Status: 429, RetryAfter: 30 * time.Second}
		limited7 = &llm.Failure{Class: llm.ClassRateLimit, Reason: llm.ReasonRateLimited, Status: 429, RetryAfter: 7 * time.Second}
		open     = &llm.Failure{Class: llm.ClassCircuitOpen, Reason: llm.ReasonCircuitOpen, OpenedBy: llm.ClassServerError, RetryAfter: 3 * time.Second}
		open429  = &llm.Failure{Class: llm.ClassCircuitOpen, Reason: llm.ReasonCircuitOpen, OpenedBy: llm.ClassRateLimit, RetryAfter: 9 * time.Second}
		full     = &llm.Failure{Class: llm.ClassSaturated, Reason: llm.ReasonBulkheadFull}
		unfit    = &llm.Failure{Class: llm.ClassUnfit, Reason: llm.ReasonContextWindow}
		quota    = &llm.Failure{Class: llm.ClassQuota, Reason: llm.ReasonQuotaExhausted, Status: 429}
		auth     = &llm.Failure{Class: llm.ClassAuth, Reason: llm.ReasonForbidden, Status: 403}
		setup    = &llm.Failure{Class: llm.ClassConfiguration, Reason: llm.ReasonModelNotFound, Status: 404}
		bad      = &llm.Failure{Class: llm.ClassClientError, Reason: llm.ReasonInvalidRequest, Status: 400}
		odd      = &llm.Failure{Class: llm.ClassUnknown, Reason: llm.ReasonUpstreamStatus, Status: 499}
		panicked = &llm.Failure{Class: llm.ClassUnknown, Reason: llm.ReasonPanic}
		broke    = &llm.Failure{Class: llm.ClassBudgetDenied, Reason: llm.ReasonBudgetExceeded}
		unpriced = &llm.Failure{Class: llm.ClassBudgetDenied, Reason: llm.ReasonUnpricedModel}
		tooFast  = &llm.Failure{Class: llm.ClassBudgetDenied, Reason: llm.ReasonRateLimitExceeded, RetryAfter: 4 * time.Second}
		keyed    = func(reason llm.Reason) error { return &llm.Failure{Class: llm.ClassIdempotency, Reason: reason} }
		e500     = &llm.Failure{Class: llm.ClassServerError, Reason: llm.ReasonUpstreamStatus, Status: 500}
		e503     = &llm.Failure{Class: llm.ClassServerError, Reason: llm.ReasonUpstreamStatus, Status: 503}
		e529     = &llm.Failure{Class: llm.ClassServerError, Reason: llm.ReasonOverloaded, Status: 529}
		inBand   = &llm.Failure{Class: llm.ClassServerError, Reason: llm.ReasonOverloaded, Status: 200}
	)
	cancelled := func(reason llm.Reason) error { return &llm.Failure{Class: llm.ClassCancelled, Reason: reason} }

	tests := []struct {
		name       string
		err        error
		want       llm.Answer
		decided    *llm.Failure // nil = not asked
		retryAfter time.Duration
	}{
		{name: "all timed out", err: failed(timeout, connect), want: llm.AnswerTimeout, decided: connect},
		{name: "one timed out, one reset", err: failed(timeout, reset), want: llm.AnswerFailed, decided: reset},
		{name: "all rate-limited (RAT-09)", err: failed(limited, limited7), want: llm.AnswerRateLimited, decided: limited, retryAfter: 7 * time.Second},
		{name: "open because of rate limits is rate-limited", err: failed(open429, limited), want: llm.AnswerRateLimited, decided: limited, retryAfter: 9 * time.Second},
		{name: "only circuits that rate limits opened", err: failed(open429), want: llm.AnswerRateLimited, decided: open429, retryAfter: 9 * time.Second},
		{name: "rate-limited and open for another reason (FAL-08)", err: failed(limited, open), want: llm.AnswerCircuitOpen, decided: open, retryAfter: 3 * time.Second},
		{name: "open first, then a failure", err: failed(open, e500), want: llm.AnswerCircuitOpen, decided: open, retryAfter: 3 * time.Second},
		{name: "full everywhere", err: failed(full, full), want: llm.AnswerSaturated, decided: full},
		{name: "full, then a failure", err: failed(full, e503), want: llm.AnswerUnavailable, decided: e503},
		{name: "a failure, then a target that the request does not fit (FAL-06)", err: failed(e503, unfit), want: llm.AnswerUnavailable, decided: e503},
		{name: "unfit, then all others rate-limited", err: failed(unfit, limited, limited7), want: llm.AnswerRateLimited, decided: limited, retryAfter: 7 * time.Second},
		{name: "unfit, then all others full", err: failed(unfit, full), want: llm.AnswerSaturated, decided: full},
		{name: "the request itself, then unfit", err: failed(bad, unfit), want: llm.AnswerClientError, decided: bad},
		{name: "nothing but unfit", err: failed(unfit, unfit), want: llm.AnswerFailed, decided: unfit},
		{name: "no money for any target", err: failed(broke, broke), want: llm.AnswerBudget, decided: broke},
		{name: "no money for one, no price for the other", err: failed(unpriced, broke), want: llm.AnswerBudget, decided: broke},
		{name: "no price", err: failed(unpriced), want: llm.AnswerUnpriced, decided: unpriced},
		{name: "no money, then unfit", err: failed(broke, unfit), want: llm.AnswerBudget, decided: broke},
		{name: "a failure, then no money for the sibling (BUD-06)", err: failed(e503, broke), want: llm.AnswerUnavailable, decided: e503},
		{name: "no money, then a failure", err: failed(broke, e500), want: llm.AnswerFailed, decided: e500},
		{name: "the caller is too fast", err: failed(tooFast), want: llm.AnswerCallerLimited, decided: tooFast, retryAfter: 4 * time.Second},
		{name: "a failure, then the caller is too fast for more tokens", err: failed(e503, tooFast), want: llm.AnswerCallerLimited, decided: tooFast, retryAfter: 4 * time.Second},
		{name: "the key is in use", err: keyed(llm.ReasonKeyInProgress), want: llm.AnswerKeyInProgress},
		{name: "the key was used for something else", err: keyed(llm.ReasonKeyReused), want: llm.AnswerKeyReused},
		{name: "the key's answer is not kept", err: keyed(llm.ReasonAnswerTooLarge), want: llm.AnswerNotKept},
		{name: "nobody knows of the key", err: keyed(llm.ReasonReplayUnavailable), want: llm.AnswerNoReplay},
		{name: "last failure quota", err: failed(e503, quota), want: llm.AnswerQuota, decided: quota},
		{name: "quota, then another", err: failed(quota, e500), want: llm.AnswerFailed, decided: e500},
		{name: "last failure 503", err: failed(reset, e503), want: llm.AnswerUnavailable, decided: e503},
		{name: "last failure 529 (CLS-03)", err: failed(e529), want: llm.AnswerUnavailable, decided: e529},
		{name: "overload inside a 200 (END-03)", err: failed(inBand), want: llm.AnswerUnavailable, decided: inBand},
		{name: "last failure 500", err: failed(e503, e500), want: llm.AnswerFailed, decided: e500},
		{name: "a credential of ours (CLS-11)", err: failed(auth), want: llm.AnswerAuth, decided: auth},
		{name: "a class that fallback_on added comes last", err: failed(e503, auth), want: llm.AnswerAuth, decided: auth},
		{name: "our set-up", err: failed(setup), want: llm.AnswerConfiguration, decided: setup},
		{name: "the request itself", err: failed(bad), want: llm.AnswerClientError, decided: bad},
		{name: "an upstream 499 (CLS-11)", err: failed(odd), want: llm.AnswerUnknown, decided: odd},
		{name: "a panic", err: failed(panicked), want: llm.AnswerInternal, decided: panicked},
		{name: "an unclassified error", err: errors.New("nil map"), want: llm.AnswerInternal},
		{name: "an exhausted walk without failures", err: &llm.ExhaustedError{}, want: llm.AnswerInternal},
		{name: "wrapped", err: fmt.Errorf("running the call: %w", failed(limited, limited7)), want: llm.AnswerRateLimited, retryAfter: 7 * time.Second},

		{name: "the client left", err: cancelled(llm.ReasonClientLeft), want: llm.AnswerClientLeft},
		{name: "the client reads too slowly", err: cancelled(llm.ReasonSlowReader), want: llm.AnswerClientLeft},
		{name: "the caller's deadline (DIS-07)", err: cancelled(llm.ReasonCallerTimeout), want: llm.AnswerCallerTimeout},
		{name: "request_timeout", err: cancelled(llm.ReasonRequestTimeout), want: llm.AnswerTimeout},
		{name: "max_stream", err: cancelled(llm.ReasonMaxStream), want: llm.AnswerTimeout},
		{name: "draining ended", err: cancelled(llm.ReasonShutdown), want: llm.AnswerShuttingDown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := llm.Judge(tt.err)
			if got.Answer != tt.want {
				t.Errorf("answer = %q, want %q", got.Answer, tt.want)
			}
			if tt.decided != nil && got.Failure != tt.decided {
				t.Errorf("decided by %v, want %v", got.Failure, tt.decided)
			}
			if got.RetryAfter != tt.retryAfter {
				t.Errorf("Retry-After = %v, want %v", got.RetryAfter, tt.retryAfter)
			}
		})
	}
}

func TestRunOutcomeOf(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name string
		err  error
		want llm.RunOutcome
	}{
		{"no error", nil, llm.RunSuccess},
		{"a failure", &llm.Failure{Class: llm.ClassServerError}, llm.RunFailure},
		{"an unclassified error", errors.New("nil map"), llm.RunFailure},
		{"refused by the upstream", &llm.Failure{Class: llm.ClassClientError, Status: 400}, llm.RunFailure},
		{"no money", &llm.Failure{Class: llm.ClassBudgetDenied, Reason: llm.ReasonBudgetExceeded}, llm.RunDenied},
		{"too fast", &llm.Failure{Class: llm.ClassBudgetDenied, Reason: llm.ReasonRateLimitExceeded}, llm.RunDenied},
		{"the client left", &llm.Failure{Class: llm.ClassCancelled, Reason: llm.ReasonClientLeft}, llm.RunCancelled},
		{"the client's own deadline", &llm.Failure{Class: llm.ClassCancelled, Reason: llm.ReasonCallerTimeout}, llm.RunCancelled},
		{"our clock of the request", &llm.Failure{Class: llm.ClassCancelled, Reason: llm.ReasonRequestTimeout}, llm.RunFailure},
		{"our clock of the stream", &llm.Failure{Class: llm.ClassCancelled, Reason: llm.ReasonMaxStream}, llm.RunFailure},
		{"our shutdown", &llm.Failure{Class: llm.ClassCancelled, Reason: llm.ReasonShutdown}, llm.RunFailure},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := llm.RunOutcomeOf(tt.err); got != tt.want {
				t.Errorf("RunOutcomeOf(%v) = %q, want %q", tt.err, got, tt.want)
			}
		})
	}
}
