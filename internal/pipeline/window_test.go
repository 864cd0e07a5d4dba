package pipeline_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// Which targets a request of 20,000 tokens is put to. 80,000 bytes of text are
// that many tokens.
func TestFallback_SkipsWhatTheRequestDoesNotFit(t *testing.T) {
	t.Parallel()
	var (
		large = pipeline.Window{Context: 128_000}
		small = pipeline.Window{Context: 8_192}
		exact = pipeline.Window{Context: 20_000}
		short = pipeline.Window{Context: 20_500, MaxOutput: 500}
	)
	down, served := fails(status503, 0), answers(0)
	tests := []struct {
		name      string
		windows   pipeline.Windows
		maxOutput int
		alpha     behaviour
		beta      behaviour
		asked     []llm.Target
		rows      []llm.Outcome
	}{
		{"a smaller one (FAL-05)", pipeline.Windows{alpha: large, beta: small, gamma: large}, 0,
			down, served, []llm.Target{alpha, gamma}, []llm.Outcome{"failure", "refused", "success"}},
		{"the first of them", pipeline.Windows{alpha: small}, 0,
			served, served, []llm.Target{beta}, []llm.Outcome{"refused", "success"}},
		{"an undeclared window takes anything", pipeline.Windows{alpha: large}, 0,
			down, served, []llm.Target{alpha, beta}, []llm.Outcome{"failure", "success"}},
		{"none, when it just fits", pipeline.Windows{alpha: exact, beta: large}, 0,
			served, served, []llm.Target{alpha}, []llm.Outcome{"success"}},
		{"one that has no room for the answer that is asked for", pipeline.Windows{alpha: exact, beta: large}, 1,
			served, served, []llm.Target{beta}, []llm.Outcome{"refused", "success"}},
		{"none whose longest answer has room", pipeline.Windows{alpha: short, beta: large}, 4096,
			served, served, []llm.Target{alpha}, []llm.Outcome{"success"}},
		{"all but the first when it fits none", pipeline.Windows{alpha: small, beta: small, gamma: small}, 0,
			down, served, []llm.Target{alpha}, []llm.Outcome{"failure", "refused", "refused"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u := script(alpha, tt.alpha).and(beta, tt.beta).and(gamma, served)
			handle := wrap(t, terminal(u, pipeline.Policy{}).Handle, pipeline.NewFallback(nil, tt.windows))
			call := newCall(alpha, beta, gamma)
			call.Facts.TextBytes, call.Facts.MaxOutput = 80_000, tt.maxOutput

			_, err := handle(t.Context(), call, new(client).emit)

			if diff := cmp.Diff(tt.asked, u.sends); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			var rows []llm.Outcome
			for _, row := range call.Signals.Attempts {
				rows = append(rows, row.Outcome)
				if row.Outcome == llm.OutcomeRefused && (row.FailureClass != llm.ClassUnfit || row.FailureReason != llm.ReasonContextWindow || row.Reached) {
					t.Errorf("skipped with %s (%s), reached %v", row.FailureClass, row.FailureReason, row.Reached)
				}
			}
			if diff := cmp.Diff(tt.rows, rows); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if got := err == nil; got != (tt.rows[len(tt.rows)-1] == llm.OutcomeSuccess) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// FAL-06: what is skipped says nothing of why the call was not served, and no
// time is saved up for it.
func TestFallback_ASkippedTargetIsNoTarget(t *testing.T) {
	t.Parallel()
	var more []bool
	u := script(alpha, fails(status503, 0)).and(beta, answers(0))
	inner := terminal(u, pipeline.Policy{}).Handle
	handle := wrap(t, func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		more = append(more, call.MoreTargets)
		return inner(ctx, call, emit)
	}, pipeline.NewFallback(nil, pipeline.Windows{beta: {Context: 8_192}}))
	call := newCall(alpha, beta)
	call.Facts.TextBytes = 80_000

	_, err := handle(t.Context(), call, new(client).emit)

	if v := llm.Judge(err); v.Answer != llm.AnswerUnavailable || v.Failure.Target != alpha {
		t.Errorf("judged %q by %v, want alpha's 503", v.Answer, v.Failure)
	}
	if diff := cmp.Diff([]bool{false}, more); diff != "" {
		t.Errorf("more targets (-want +got):\n%s", diff)
	}
}
