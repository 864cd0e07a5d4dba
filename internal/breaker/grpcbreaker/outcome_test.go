package grpcbreaker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/breaker/grpcbreaker"
)

func TestEveryCodeHasItsOutcome(t *testing.T) {
	t.Parallel()
	want := map[codes.Code]breaker.Outcome{
		codes.OK:                 {Kind: breaker.Success},
		codes.Canceled:           {},
		codes.Unknown:            {Kind: breaker.Failure, Cause: "unknown"},
		codes.InvalidArgument:    {},
		codes.DeadlineExceeded:   {Kind: breaker.Failure, Cause: "deadline_exceeded"},
		codes.NotFound:           {},
		codes.AlreadyExists:      {},
		codes.PermissionDenied:   {},
		codes.ResourceExhausted:  {Kind: breaker.Failure, Cause: "resource_exhausted"},
		codes.FailedPrecondition: {},
		codes.Aborted:            {},
		codes.OutOfRange:         {},
		codes.Unimplemented:      {},
		codes.Internal:           {Kind: breaker.Failure, Cause: "internal"},
		codes.Unavailable:        {Kind: breaker.Failure, Cause: "unavailable"},
		codes.DataLoss:           {Kind: breaker.Failure, Cause: "data_loss"},
		codes.Unauthenticated:    {},
	}
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		expected, ok := want[code]
		if !ok {
			t.Errorf("%v is not in the table", code)
		}
		if diff := cmp.Diff(expected, grpcbreaker.OutcomeOf(status.Error(code, "said so"))); diff != "" {
			t.Errorf("%v (-want +got):\n%s", code, diff)
		}
	}
}

func TestOutcomeOfWhatIsNoPlainStatus(t *testing.T) {
	t.Parallel()
	failure := func(word string) breaker.Outcome { return breaker.Outcome{Kind: breaker.Failure, Cause: word} }
	hinted := failure("unavailable")
	hinted.OpenFor = 7 * time.Second
	tests := map[string]struct {
		err  error
		want breaker.Outcome
	}{
		"no error":                     {nil, breaker.Outcome{Kind: breaker.Success}},
		"no status":                    {errors.New("broken"), failure("unknown")},
		"a wrapped status":             {fmt.Errorf("ask: %w", status.Error(codes.DataLoss, "")), failure("data_loss")},
		"a context's cancellation":     {fmt.Errorf("ask: %w", context.Canceled), breaker.Outcome{}},
		"a context's deadline":         {context.DeadlineExceeded, failure("deadline_exceeded")},
		"a hint":                       {hint(t, codes.Unavailable, 7*time.Second), hinted},
		"a wrapped hint":               {fmt.Errorf("ask: %w", hint(t, codes.Unavailable, 7*time.Second)), hinted},
		"a hint in the past":           {hint(t, codes.Unavailable, -time.Second), failure("unavailable")},
		"a hint beside a neutral code": {hint(t, codes.FailedPrecondition, time.Hour), breaker.Outcome{}},
		"another circuit's refusal":    {fmt.Errorf("ask: %w", &breaker.Refusal{Key: "inner", State: breaker.Open}), breaker.Outcome{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, grpcbreaker.OutcomeOf(tt.err)); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// hint is an error that asks to be left alone.
func hint(t *testing.T, code codes.Code, d time.Duration) error {
	t.Helper()
	s, err := status.New(code, "later").WithDetails(
		&errdetails.ErrorInfo{Reason: "BUSY"},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(d)},
	)
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}
