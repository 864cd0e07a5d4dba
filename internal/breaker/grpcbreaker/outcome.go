package grpcbreaker

import (
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// verdict is what a code says about the server that sent it, and the word for
// it in refusals, snapshots and events.
type verdict struct {
	kind breaker.Kind
	word string
}

// verdictOf is the table of codes. A code of which it is not said that the
// server is at fault is neutral: an answer that came says that somebody is there,
// and no more.
func verdictOf(code codes.Code) verdict {
	switch code {
	case codes.OK:
		return verdict{breaker.Success, ""}
	case codes.Unavailable: // cannot be reached, or turns callers away
		return verdict{breaker.Failure, "unavailable"}
	case codes.DeadlineExceeded: // the time was its own, or one that was set for it
		return verdict{breaker.Failure, "deadline_exceeded"}
	case codes.ResourceExhausted: // asks to be left alone
		return verdict{breaker.Failure, "resource_exhausted"}
	case codes.Internal: // broke an invariant, or its answer cannot be read
		return verdict{breaker.Failure, "internal"}
	case codes.Unknown: // what a handler's bare error becomes
		return verdict{breaker.Failure, "unknown"}
	case codes.DataLoss:
		return verdict{breaker.Failure, "data_loss"}
	default:
		// InvalidArgument, NotFound, AlreadyExists, FailedPrecondition and
		// OutOfRange are about the request; Unauthenticated, PermissionDenied and
		// Unimplemented about how the two are set up, which waiting does not mend.
		// Aborted is callers in each other's way. Canceled means that somebody
		// lost interest, here or behind the server.
		return verdict{kind: breaker.Neutral}
	}
}

// OutcomeOf says by its code what the end of a call means. A failure whose
// details hold a RetryInfo opens the circuit for exactly that long (T4). The
// refusal of another circuit in this process is neutral: nobody was asked (R14).
func OutcomeOf(err error) breaker.Outcome {
	var inner *breaker.Refusal
	if errors.As(err, &inner) {
		return breaker.Outcome{Kind: breaker.Neutral}
	}
	v := verdictOf(codeOf(err))
	o := breaker.Outcome{Kind: v.kind, Cause: v.word}
	if o.Kind == breaker.Failure {
		o.OpenFor = RetryDelay(err)
	}
	return o
}

// codeOf is the code of an error, also of one that an interceptor took from a
// context as it was.
func codeOf(err error) codes.Code {
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err)
	}
	return s.Code()
}

// RetryDelay is how long an error asks to wait before the next call; 0 when it
// does not say.
func RetryDelay(err error) time.Duration {
	s, ok := status.FromError(err)
	if !ok {
		return 0
	}
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok && info.GetRetryDelay().IsValid() {
			return max(0, info.GetRetryDelay().AsDuration())
		}
	}
	return 0
}
