package grpcbreaker

import (
	"errors"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// Refused is the error of a call that its circuit did not admit. To gRPC it is
// UNAVAILABLE with a RetryInfo, which is absent while nobody knows when the
// circuit will admit calls again (R31). The *breaker.Refusal is found by
// errors.As.
type Refused struct{ refusal *breaker.Refusal }

// refused wraps what the circuits say of a call that they did not admit.
func refused(err error) error {
	var refusal *breaker.Refusal
	if !errors.As(err, &refusal) {
		return err
	}
	return &Refused{refusal}
}

// Error names the circuit, its state and the wait.
func (r *Refused) Error() string { return r.refusal.Error() }

// Unwrap returns the refusal.
func (r *Refused) Unwrap() error { return r.refusal }

// GRPCStatus is what status.FromError and status.Code read.
func (r *Refused) GRPCStatus() *status.Status {
	s := status.New(codes.Unavailable, r.Error())
	if r.refusal.RetryAfter <= 0 {
		return s
	}
	told, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(r.refusal.RetryAfter)})
	if err != nil { // the detail cannot be packed: the code says enough
		return s
	}
	return told
}
