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
