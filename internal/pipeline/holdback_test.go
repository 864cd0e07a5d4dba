package pipeline_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
)

// stream runs one streamed attempt on alpha.
func stream(t *testing.T, c *client, alphaDoes behaviour) (*llm.Call, *llm.Result, error) {
	t.Helper()
	call := newStream()
	call.Target = alpha
	call.Signals.Open(alpha, time.Now())
	result, err := terminal(script(alpha, alphaDoes), pipeline.Policy{}).Handle(t.Context(), call, c.emit)
	return call, result, err
}

func TestHoldBack(t *testing.T) {
	t.Parallel()

	big := strings.Repeat("p", 40<<10)
	huge := strings.Repeat("h", 70<<10)
	tests := []struct {
		name      string
		alpha     behaviour
		events    []string
		more      []bool // what each event says about the next
		committed bool
	}{
		{
			"preambles go up with the first content",
			streams(nil, preamble("created"), preamble("role"), content("Hel"), content("lo"), done("[DONE]")),
			[]string{"created", "role", "Hel", "lo", "[DONE]"}, []bool{true, true, false, false, false}, true,
		},
		{
			"a stream that ended well without content is an answer",
			streams(nil, preamble("role"), preamble("finish"), done("[DONE]")),
			[]string{"role", "finish", "[DONE]"}, []bool{true, true, false}, true,
		},
		{"a stream that failed without content never was", streams(&truncated, preamble("role"), preamble("finish")), nil, nil, false},
		{"nothing at all commits nothing", streams(nil), nil, nil, false},
		{
			"usage does not commit",
			streams(&truncated, usage(tokens(10, 0)), preamble("role")),
			nil, nil, false,
		},
		{
			"more than 64 KiB commits",
			streams(&truncated, preamble(big), preamble(big), preamble("late")),
			[]string{big, big, "late"}, []bool{true, false, false}, true,
		},
		{"one event over 64 KiB, too", streams(&truncated, preamble(huge)), []string{huge}, []bool{false}, true},
		{
			"after the commit a failure stays a failure",
			streams(&inBand, preamble("role"), content("Hel")),
			[]string{"role", "Hel"}, []bool{true, false}, true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var c client
			call, _, _ := stream(t, &c, tt.alpha)
			if diff := cmp.Diff(tt.events, c.events); diff != "" {
				t.Errorf("the client saw (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.more, c.more); diff != "" {
				t.Errorf("announced more (-want +got):\n%s", diff)
			}
			if call.Signals.Committed != tt.committed {
				t.Errorf("committed = %v, want %v", call.Signals.Committed, tt.committed)
			}
		})
	}
}

// Events without bytes are bounded like others.
func TestHoldBack_BoundsEmptyEvents(t *testing.T) {
	t.Parallel()

	events := make([]llm.Event, 2000)
	for i := range events {
		events[i] = usage(tokens(1, 1))
	}
	call, _, _ := stream(t, new(client), streams(&truncated, events...))
	if !call.Signals.Committed {
		t.Error("2000 events are still held back")
	}
}

// Raw is valid only during Emit: what is held must be a copy.
func TestHoldBack_CopiesWhatItKeeps(t *testing.T) {
	t.Parallel()

	buffer := []byte("role")
	var c client
	_, _, err := stream(t, &c, func(_ context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		_ = emit(llm.Event{Kind: llm.EventPreamble, Raw: buffer})
		copy(buffer, "XXXX")
		_ = emit(content("ok"))
		return &llm.Result{Target: call.Target, Streamed: true}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"role", "ok"}, c.events); diff != "" {
		t.Errorf("the client saw (-want +got):\n%s", diff)
	}
}

// A client that cannot be reached ends the attempt as cancelled, whatever the
// provider made of it, and is not written to again.
func TestHoldBack_TheClientIsGone(t *testing.T) {
	t.Parallel()

	broken := errors.New("write: broken pipe")
	stubborn := func(_ context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		for _, event := range []llm.Event{content("a"), content("b"), content("c")} {
			_ = emit(event)
		}
		return &llm.Result{Target: call.Target, Streamed: true}, nil
	}
	tests := []struct {
		name   string
		alpha  behaviour
		leaves int
		why    error
		reason llm.Reason
		saw    []string
	}{
		{"in the middle", streams(nil, content("a"), content("b")), 1, broken, llm.ReasonClientLeft, []string{"a"}},
		{"too slow a reader", streams(nil, content("a"), content("b")), 1, llm.ErrSlowReader, llm.ReasonSlowReader, []string{"a"}},
		{"while held events are sent", streams(nil, preamble("a"), preamble("b"), content("c")), 1, broken, llm.ReasonClientLeft, []string{"a"}},
		{"while an empty answer is sent", streams(nil, preamble("a"), done("b")), 1, broken, llm.ReasonClientLeft, []string{"a"}},
		{"the provider does not care", stubborn, 1, broken, llm.ReasonClientLeft, []string{"a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := client{leaves: tt.leaves, why: tt.why}
			call, result, err := stream(t, &c, tt.alpha)

			f := llm.AsFailure(err)
			if f == nil || f.Class != llm.ClassCancelled || f.Reason != tt.reason || f.Target != alpha || !errors.Is(err, tt.why) {
				t.Errorf("error = %v, want cancelled (%s) of alpha because of %v", err, tt.reason, tt.why)
			}
			if result == nil || !call.Signals.Committed {
				t.Error("the attempt's facts are lost")
			}
			if diff := cmp.Diff(tt.saw, c.events); diff != "" {
				t.Errorf("the client saw (-want +got):\n%s", diff)
			}
		})
	}
}

// SSE-03: preambles are no token.
func TestHoldBack_FirstContentIsWhenContentWentUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		call, _, err := stream(t, new(client), func(_ context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
			for _, event := range []llm.Event{preamble("role"), content("a"), content("b")} {
				<-time.After(100 * ms)
				_ = emit(event)
			}
			return &llm.Result{Target: call.Target, Streamed: true}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := call.Signals.FirstContent.Sub(start); got != 200*ms {
			t.Errorf("first content after %v, want 200ms", got)
		}
	})
}
