package api

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// describe says in our words what happened to a call, on which targets, and
// what to do about it. Nothing in it comes from an upstream.
func describe(call *llm.Call, v llm.Verdict, err error) string {
	model := call.RequestedModel
	switch v.Answer {
	case llm.AnswerTimeout:
		return describeTimeout(model, v.Failure, err)
	case llm.AnswerRateLimited:
		return fmt.Sprintf("Every target of %q is rate limited (%s); %s.", model, tried(err), retryIn(v.RetryAfter))
	case llm.AnswerSaturated:
		return fmt.Sprintf("Every target of %q already serves as many calls as its max_concurrent allows (%s); %s.", model, tried(err), retryIn(v.RetryAfter))
	case llm.AnswerCircuitOpen:
		return fmt.Sprintf("No target of %q answered, and at least one could not be asked because its circuit is open (%s); %s.", model, tried(err), retryIn(v.RetryAfter))
	case llm.AnswerUnavailable, llm.AnswerFailed:
		return fmt.Sprintf("No target of %q answered (%s); %s.", model, tried(err), retryIn(v.RetryAfter))
	case llm.AnswerAuth:
		return fmt.Sprintf("The provider refused the gateway's own credentials (%s); its operator must check the api_key of this provider.", failed(v.Failure))
	case llm.AnswerConfiguration:
		return fmt.Sprintf("The gateway's set-up does not fit the provider (%s); its operator must check the model's name and the base_url.", failed(v.Failure))
	case llm.AnswerQuota:
		return fmt.Sprintf("The gateway's account at the provider has no credit left (%s); its operator must top it up or add another target.", failed(v.Failure))
	case llm.AnswerUnknown:
		return fmt.Sprintf("The provider answered in a way that the gateway does not know (%s).", failed(v.Failure))
	case llm.AnswerBudget, llm.AnswerCallerLimited:
		return describeDenial(v.Failure.Denial)
	case llm.AnswerUnpriced:
		return fmt.Sprintf("What %s costs is not known, and a cost limit holds for this call; its operator must give the model a price, or the call another model.", v.Failure.Target.Key())
	case llm.AnswerKeyInProgress:
		return "A call under this Idempotency-Key is still under way; " + retryIn(v.RetryAfter) + " and get its answer."
	case llm.AnswerKeyReused:
		return "This Idempotency-Key was used for another request; send another key, or the request that it was first used for."
	case llm.AnswerNotKept:
		return "The call under this Idempotency-Key was made and is paid for, but its answer is longer than the gateway keeps (idempotency.max_result), so only the request that made it gets it. Sending this one again, under whatever key, makes and pays another call; let the operator raise max_result if such answers are to be given again."
	case llm.AnswerNoReplay:
		return "The store of idempotency keys cannot be reached, so nobody knows whether this call was made before; " + retryIn(v.RetryAfter) + "."
	case llm.AnswerCallerTimeout:
		return "The limit that the request set by X-Breakwater-Timeout passed before an answer was there; allow more time."
	case llm.AnswerShuttingDown:
		return "The gateway is shutting down and had to end this call; send it again."
	case llm.AnswerClientLeft:
		return "The client left or read too slowly before the answer was there."
	default:
		return internalMessage(call.RunID.String())
	}
}

// describeDenial says which limit refused, how it stands, and when it begins anew.
func describeDenial(d *llm.Denial) string {
	if d == nil {
		return "A limit holds for this call."
	}
	unit := ""
	if d.Limit.Cost() {
		unit = " USD"
	}
	limit, share := d.Allowed, d.Whole.IsPositive()
	if share {
		limit = d.Whole
	}
	text := fmt.Sprintf("The limit %s of this %s is %s%s", d.Limit, d.Scope.Kind, limit, unit)
	if share {
		text += fmt.Sprintf(", of which this gateway may give %s%s while the cache that gateways share is away", d.Allowed, unit)
	}
	if d.Resets.IsZero() && !d.Limit.Rate() {
		return text + "; how much of it is used cannot be told at the moment, since the counters and the database are away. Try again later, or ask the operator."
	}
	text += fmt.Sprintf("; %s%s are used", d.Spent, unit)
	if d.Reserved.IsPositive() {
		text += fmt.Sprintf(", %s%s are reserved by calls under way", d.Reserved, unit)
	}
	text += fmt.Sprintf(", and this call may use up to %s%s", d.Asked, unit)
	switch {
	case limit.IsZero():
		return text + "; it allows nothing: ask the operator for a higher limit."
	case d.Asked.GreaterThan(limit):
		return text + "; it never fits: send a smaller max_tokens or a shorter prompt, or ask the operator for a higher limit."
	case share && (!d.Limit.Rate() || d.Asked.GreaterThan(d.Allowed)):
		return text + "; try again when the cache is back."
	case d.Resets.IsZero():
		return text + "; wait for other calls to end."
	default:
		return text + "; it resets at " + d.Resets.UTC().Format(time.RFC3339) + "."
	}
}

func describeTimeout(model string, f *llm.Failure, err error) string {
	if f.Reason == llm.ReasonRequestTimeout {
		return fmt.Sprintf("The gateway's request_timeout passed before any target of %q had answered; send a smaller request, or ask the operator for more time.", model)
	}
	return fmt.Sprintf("No target of %q answered in time (%s); send a smaller request or use streaming, or ask the operator for longer timeouts.", model, tried(err))
}

// describeCut says why a stream ends without its end. The client has part of
// the answer already.
func describeCut(err error) string {
	v := llm.Judge(err)
	if v.Failure == nil {
		return "The gateway failed after output had started; its log has the details under this request's id."
	}
	switch v.Failure.Reason {
	case llm.ReasonMaxStream:
		return "The gateway's max_stream passed after output had started."
	case llm.ReasonCallerTimeout:
		return "The limit that the request set by X-Breakwater-Timeout passed after output had started."
	case llm.ReasonShutdown:
		return "The gateway is shutting down and had to end this stream; send the request again."
	case llm.ReasonAnswerTooLarge:
		return "The stream under this Idempotency-Key, which this request had joined, grew longer than the gateway keeps (idempotency.max_result); only the request that began it gets the rest. Sending this one again makes and pays another call."
	default:
		return fmt.Sprintf("The upstream failed after output had started (%s); the answer is incomplete.", failed(v.Failure))
	}
}

// tried lists the candidates and what became of each, in order.
func tried(err error) string {
	var exhausted *llm.ExhaustedError
	if !errors.As(err, &exhausted) {
		return failed(llm.AsFailure(err))
	}
	parts := make([]string, len(exhausted.Failures))
	for i, f := range exhausted.Failures {
		parts[i] = failed(f)
	}
	return strings.Join(parts, "; ")
}

// failed names a target and why it did not serve, such as
// `alpha/m1/r1: connection (ttft_timeout)` or `beta/m1/r2: circuit_open`.
func failed(f *llm.Failure) string {
	words := f.Target.Key() + ": " + string(f.Class)
	if f.Reason != "" && string(f.Reason) != string(f.Class) {
		words += " (" + string(f.Reason) + ")"
	}
	if f.Status != 0 {
		words += fmt.Sprintf(", status %d", f.Status)
	}
	return words
}

func retryIn(wait time.Duration) string {
	if wait <= 0 {
		return "retry later"
	}
	return fmt.Sprintf("retry in %d s", roundUp(wait, time.Second))
}

func internalMessage(requestID string) string {
	return "The gateway failed; its log has the details under request id " + requestID + "."
}
