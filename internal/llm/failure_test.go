package llm_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

var (
	alpha = llm.Target{Provider: "alpha", Model: "m1", Region: "r1"}
	beta  = llm.Target{Provider: "beta", Model: "m1", Region: "r2"}
	gamma = llm.Target{Provider: "gamma", Model: "m1", Region: "r3"}
)

// The class table of DESIGN section 4, written out a second time by hand: who
// moves on by default and who trips the circuit (CF-C4, CF-C7, CF-C8, CF-C9).
func TestClassTable_CF_C7_C8_C9(t *testing.T) {
	t.Parallel()

	type traits struct {
		MovesOn bool
		Outcome llm.Outcome
	}
	want := map[llm.FailureClass]traits{
		"connection":    {true, "failure"},
		"server_error":  {true, "failure"},
		"rate_limit":    {true, "failure"},
		"quota":         {true, "failure"},
		"auth":          {false, "neutral"},
		"configuration": {false, "neutral"},
		"client_error":  {false, "neutral"},
		"circuit_open":  {true, "refused"},
		"saturated":     {true, "refused"},
		"unfit":         {true, "refused"},
		"budget_denied": {true, "refused"},
		"idempotency":   {false, "neutral"},
		"cancelled":     {false, "neutral"},
		"unknown":       {false, "neutral"},
	}

	got := map[llm.FailureClass]traits{}
	for _, class := range llm.Classes() {
		f := &llm.Failure{Class: class}
		got[class] = traits{MovesOn: llm.DefaultFallback().MovesOn(f), Outcome: f.Outcome()}

		if trips := f.Outcome() == llm.OutcomeFailure; f.Trips() != trips {
			t.Errorf("%s: Trips() = %v, want %v: what counts as a failure trips, and nothing else", class, f.Trips(), trips)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("class table (-want +got):\n%s", diff)
	}
}

func TestOutcome_ExceptionsToTheTable(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name    string
		failure llm.Failure
		want    llm.Outcome
	}{
		{"425 is no fault of the provider", llm.Failure{Class: llm.ClassConnection, Status: 425}, llm.OutcomeNeutral},
		{"a limit of one credential of several says nothing of the provider (SCO-03)", llm.Failure{Class: llm.ClassRateLimit, Status: 429, OtherCredential: true}, llm.OutcomeNeutral},
		{"408 is", llm.Failure{Class: llm.ClassConnection, Status: 408}, llm.OutcomeFailure},
		{"a panic counts (R13)", llm.Failure{Class: llm.ClassUnknown, Reason: llm.ReasonPanic}, llm.OutcomeFailure},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.failure.Outcome(); got != tt.want {
				t.Errorf("Outcome() = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRefusal_OnlyOurOwn(t *testing.T) {
	t.Parallel()

	var got []llm.FailureClass
	for _, class := range llm.Classes() {
		if class.Refusal() {
			got = append(got, class)
		}
	}
	want := []llm.FailureClass{llm.ClassCircuitOpen, llm.ClassSaturated, llm.ClassUnfit, llm.ClassBudgetDenied}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
}

func TestClassSet_MovesOn(t *testing.T) {
	t.Parallel()

	tooLong := llm.Failure{Class: llm.ClassClientError, Reason: llm.ReasonContextLength, Status: 400}
	filtered := llm.Failure{Class: llm.ClassClientError, Reason: llm.ReasonContentFilter, Status: 400}
	tests := []struct {
		name    string
		set     llm.ClassSet
		failure llm.Failure
		want    bool
	}{
		{"auth stays by default", llm.DefaultFallback(), llm.Failure{Class: llm.ClassAuth}, false},
		{"auth moves on where it is named", llm.ClassSet{llm.ClassAuth: true}, llm.Failure{Class: llm.ClassAuth}, true},
		{"a narrowed set keeps the rest", llm.ClassSet{llm.ClassQuota: true}, llm.Failure{Class: llm.ClassConnection}, false},
		{"an open circuit moves on whatever the set says", llm.ClassSet{}, llm.Failure{Class: llm.ClassCircuitOpen}, true},
		{"a full bulkhead moves on whatever the set says", nil, llm.Failure{Class: llm.ClassSaturated}, true},
		{"an unfit target moves on whatever the set says", nil, llm.Failure{Class: llm.ClassUnfit}, true},
		{"no money for this target moves on", nil, llm.Failure{Class: llm.ClassBudgetDenied, Reason: llm.ReasonBudgetExceeded}, true},
		{"too fast a caller stays", llm.DefaultFallback(), llm.Failure{Class: llm.ClassBudgetDenied, Reason: llm.ReasonRateLimitExceeded}, false},
		{"too long a request stays by default", llm.DefaultFallback(), tooLong, false},
		{"context_length moves it on", llm.ClassSet{llm.FallbackOnContextLength: true}, tooLong, true},
		{"context_length moves no other client error on", llm.ClassSet{llm.FallbackOnContextLength: true}, filtered, false},
		{"client_error does not stand for context_length", llm.ClassSet{llm.ClassClientError: true}, tooLong, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.set.MovesOn(&tt.failure); got != tt.want {
				t.Errorf("MovesOn(%v) = %v, want %v", &tt.failure, got, tt.want)
			}
		})
	}
}

func TestFallbackClass_WhatAConfigurationMayName(t *testing.T) {
	t.Parallel()

	var got []string
	for _, name := range []string{
		"connection", "server_error", "rate_limit", "quota", "auth", "configuration", "context_length",
		"client_error", "circuit_open", "saturated", "unfit", "budget_denied", "idempotency", "cancelled", "unknown", "", "Connection",
	} {
		if class, ok := llm.FallbackClass(name); ok {
			got = append(got, string(class))
		}
	}
	want := []string{"connection", "server_error", "rate_limit", "quota", "auth", "configuration", "context_length"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("classes that fallback_on may name (-want +got):\n%s", diff)
	}
}

// CF-C1 and CF-C4: a failure keeps its class through any wrapping; whatever
// nobody classified is unknown and neither moves on nor trips.
func TestAsFailure(t *testing.T) {
	t.Parallel()

	refused := &llm.Failure{Class: llm.ClassConnection, Reason: llm.ReasonRefused, Target: alpha}
	if got := llm.AsFailure(fmt.Errorf("asking alpha: %w", refused)); got != refused {
		t.Errorf("AsFailure of a wrapped failure = %v, want the failure itself", got)
	}
	if got := llm.AsFailure(nil); got != nil {
		t.Errorf("AsFailure(nil) = %v, want nil", got)
	}

	got := llm.AsFailure(io.ErrUnexpectedEOF)
	if got.Class != llm.ClassUnknown || !errors.Is(got, io.ErrUnexpectedEOF) {
		t.Errorf("AsFailure of an unclassified error = %v, want unknown around it", got)
	}
	if got.Trips() || llm.DefaultFallback().MovesOn(got) {
		t.Error("an unclassified error trips or moves on")
	}
}

// CF-C5, CF-E1, CF-E3: exhausted candidates are represented by the last one.
func TestExhaustedError(t *testing.T) {
	t.Parallel()

	cause := errors.New("boom")
	err := error(&llm.ExhaustedError{Failures: []*llm.Failure{
		{Class: llm.ClassConnection, Reason: llm.ReasonRefused, Target: alpha, Latency: 3 * time.Millisecond},
		{Class: llm.ClassCircuitOpen, Reason: llm.ReasonCircuitOpen, Target: beta},
		{Class: llm.ClassServerError, Reason: llm.ReasonUpstreamStatus, Target: gamma, Status: 503, Latency: 1204 * time.Millisecond, Err: cause},
	}})

	if got := llm.AsFailure(err); got.Target != gamma || !got.Trips() {
		t.Errorf("AsFailure = %v, want the last failure", got)
	}
	if !errors.Is(err, cause) {
		t.Error("the cause of the last failure is not reachable through the error")
	}

	// CF-E2: targets in order, class, status and time of each.
	want := "all 3 targets failed: " +
		"alpha/m1/r1: connection (connection_refused) after 3ms -> " +
		"beta/m1/r2: circuit_open (circuit_open) after 0s -> " +
		"gamma/m1/r3: server_error (upstream_status), status 503 after 1.204s"
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

// CF-C6, CF-E4: without any failure there is nothing to represent it.
func TestExhaustedError_Empty(t *testing.T) {
	t.Parallel()

	err := &llm.ExhaustedError{}
	if got := err.Unwrap(); got != nil {
		t.Errorf("Unwrap() = %v, want nil", got)
	}
	if got := llm.AsFailure(err); got.Class != llm.ClassUnknown {
		t.Errorf("class = %q, want unknown", got.Class)
	}
	if got, want := err.Error(), "all 0 targets failed: "; got != want {
		t.Errorf("message = %q, want %q", got, want)
	}
}

// A failure's own text goes into logs and rows: no upstream's words in it.
func TestFailure_ErrorHidesItsCause(t *testing.T) {
	t.Parallel()

	f := &llm.Failure{
		Class: llm.ClassAuth, Reason: llm.ReasonInvalidCredentials, Target: alpha, Status: 401,
		Err: errors.New("Incorrect API key provided: sk-secret"),
	}
	if got, want := f.Error(), "alpha/m1/r1: auth (invalid_credentials), status 401"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}
