package llm

import (
	"context"
	"errors"
)

// The causes with which a call's context ends before its work is done. Each is
// set by whoever cancels; CancelReason reads them back.
var (
	ErrClientLeft     = errors.New("the client left")
	ErrSlowReader     = errors.New("the client read too slowly")
	ErrCallerTimeout  = errors.New("the caller's own deadline passed")
	ErrRequestTimeout = errors.New("request_timeout passed")
	ErrMaxStream      = errors.New("max_stream passed")
	ErrShutdown       = errors.New("the gateway is shutting down")
)

// CancelReason says why a call ended early, from the cause of its context or
// from the error that Emit returned. Anything else means that the client left.
func CancelReason(err error) Reason {
	switch {
	case errors.Is(err, ErrSlowReader):
		return ReasonSlowReader
	case errors.Is(err, ErrCallerTimeout):
		return ReasonCallerTimeout
	case errors.Is(err, ErrRequestTimeout):
		return ReasonRequestTimeout
	case errors.Is(err, ErrMaxStream):
		return ReasonMaxStream
	case errors.Is(err, ErrShutdown):
		return ReasonShutdown
	default:
		return ReasonClientLeft
	}
}

// Cancelled returns the failure of an attempt that the context ended.
func Cancelled(ctx context.Context, target Target) *Failure {
	cause := context.Cause(ctx)
	return &Failure{Class: ClassCancelled, Reason: CancelReason(cause), Target: target, Err: cause}
}
