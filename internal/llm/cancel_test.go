package llm_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

func TestCancelReason(t *testing.T) {
	t.Parallel()

	tests := []struct {
		err  error
		want llm.Reason
	}{
		{llm.ErrClientLeft, llm.ReasonClientLeft},
		{llm.ErrSlowReader, llm.ReasonSlowReader},
		{llm.ErrCallerTimeout, llm.ReasonCallerTimeout},
		{llm.ErrRequestTimeout, llm.ReasonRequestTimeout},
		{llm.ErrMaxStream, llm.ReasonMaxStream},
		{llm.ErrShutdown, llm.ReasonShutdown},
		{fmt.Errorf("flushing: %w", llm.ErrSlowReader), llm.ReasonSlowReader},
		{context.Canceled, llm.ReasonClientLeft},
		{errors.New("write: broken pipe"), llm.ReasonClientLeft},
	}
	for _, tt := range tests {
		t.Run(tt.err.Error(), func(t *testing.T) {
			t.Parallel()
			if got := llm.CancelReason(tt.err); got != tt.want {
				t.Errorf("CancelReason(%v) = %q, want %q", tt.err, got, tt.want)
			}
		})
	}
}

// The cause of a context survives whoever derives from it.
func TestCancelled_ReadsTheCause(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithTimeoutCause(t.Context(), 0, llm.ErrRequestTimeout)
	defer cancel()
	inner, stop := context.WithTimeout(ctx, time.Hour)
	defer stop()

	got := llm.Cancelled(inner, alpha)
	if got.Class != llm.ClassCancelled || got.Reason != llm.ReasonRequestTimeout || got.Target != alpha {
		t.Errorf("Cancelled = %v, want cancelled (request_timeout) of alpha", got)
	}
	if got.Outcome() != llm.OutcomeNeutral {
		t.Errorf("outcome = %q, want neutral", got.Outcome())
	}
}
