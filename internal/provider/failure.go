package provider

import (
	"context"
	"errors"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/wire"
)

// Failure names what went wrong between us and the upstream.
func (x *Exchange) Failure(err error) *llm.Failure {
	f := x.named(err)
	f.Target = x.target
	f.Latency = time.Since(x.began)
	f.Unsent = f.Unsent || !x.sent.Load() && x.resp == nil
	if x.resp != nil {
		f.Status = x.resp.StatusCode
	}
	return f
}

func (x *Exchange) named(err error) *llm.Failure {
	var limit *timeoutError
	switch cause := context.Cause(x.ctx); {
	case errors.As(cause, &limit):
		return &llm.Failure{Class: llm.ClassConnection, Reason: limit.reason, Err: limit}
	case x.ctx.Err() != nil || x.parent.Err() != nil && x.resp == nil:
		return llm.Cancelled(x.parent, x.target)
	}
	class, reason := nameFault(err)
	if reason == llm.ReasonTruncated && !x.stream {
		reason = llm.ReasonReset // a body that was promised longer, by a connection that ended
	}
	return &llm.Failure{Class: class, Reason: reason, Err: err}
}

// Unusable returns the failure of a response that came whole but is no answer.
func (x *Exchange) Unusable(class llm.FailureClass, reason llm.Reason, err error) *llm.Failure {
	return &llm.Failure{
		Class: class, Reason: reason, Target: x.target, Status: x.resp.StatusCode,
		Latency: time.Since(x.began), Err: err,
	}
}

// Refused returns the failure of a response by which the upstream refused the
// call, in the way the status and the complaint say. The body is the one that
// a client may be shown; nil when none may.
func (x *Exchange) Refused(c wire.Complaint, body []byte) *llm.Failure {
	class, reason := Classify(x.resp.StatusCode, c)
	f := x.Unusable(class, reason, refusal(x.resp.StatusCode, redacted(c, x.upstream.secrets)))
	if class == llm.ClassClientError {
		f.Upstream = relayed(c, body, x.upstream.secrets)
	}
	if f.Trips() || class == llm.ClassConnection {
		f.RetryAfter = retryAfter(x.resp.Header, c, time.Now())
	}
	return f
}

// Abandoned returns the failure of a stream whose client cannot be reached any
// more; err is what Emit returned.
func (x *Exchange) Abandoned(err error) *llm.Failure {
	return x.Unusable(llm.ClassCancelled, llm.CancelReason(err), err)
}
