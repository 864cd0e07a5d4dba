package api_test

import (
	"context"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// without returns a handler that answers from alpha, marked where degraded says.
func without(degraded llm.Degradation, streamed bool) func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) {
	return func(_ context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		call.Signals.Degraded = degraded
		reach(call, targetA)
		if !streamed {
			return &llm.Result{Target: targetA, Status: 200, Body: []byte(`{"id": "1"}`)}, nil
		}
		if err := emit(llm.Event{Kind: llm.EventContent, Raw: []byte("data: {\"id\": \"1\"}\n\n")}); err != nil {
			return nil, err
		}
		return &llm.Result{Target: targetA, Status: 200, Streamed: true}, nil
	}
}

// An answer that had to do without something says so: a whole one in its header
// and its body, a stream in its header.
func TestADegradedAnswerSaysSo(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		degraded     llm.Degradation
		streamed     bool
		header, body string
	}{
		"whole":             {llm.DegradedContext, false, "context", `{"ai_degraded":true,"id": "1"}`},
		"streamed":          {llm.DegradedContext, true, "context", "data: {\"id\": \"1\"}\n\n"},
		"whole, with all":   {"", false, "", `{"id": "1"}`},
		"streamed with all": {"", true, "", "data: {\"id\": \"1\"}\n\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := setup(t, without(tt.degraded, tt.streamed)).chat(t, nil)
			if got.status != 200 || got.body != tt.body || got.header.Get("X-Breakwater-Degraded") != tt.header {
				t.Errorf("status %d, header %q, body %q; want 200, %q, %q", got.status, got.header.Get("X-Breakwater-Degraded"), got.body, tt.header, tt.body)
			}
		})
	}
}

// A call that got no answer lacks nothing in it.
func TestAFaultIsNotDegraded(t *testing.T) {
	t.Parallel()
	got := setup(t, func(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
		call.Signals.Degraded = llm.DegradedContext
		return nil, &llm.Failure{Class: llm.ClassServerError, Status: 500, Target: targetA}
	}).chat(t, nil)
	if got.status != 502 || got.header.Get("X-Breakwater-Degraded") != "" {
		t.Errorf("status %d, header %q; want 502 and none", got.status, got.header.Get("X-Breakwater-Degraded"))
	}
}
