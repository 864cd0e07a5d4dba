package llm_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// DIS-06: a measured zero is a value; only what was never reported is unknown.
func TestUsage_Add(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name string
		a, b llm.Usage
		want llm.Usage
	}{
		{"nothing and nothing stays unknown", llm.Usage{}, llm.Usage{}, llm.Usage{}},
		{
			"unknown plus known is known",
			llm.Usage{},
			llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(2)},
			llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(2)},
		},
		{
			"zero is known",
			llm.Usage{Output: llm.Tokens(0)},
			llm.Usage{},
			llm.Usage{Output: llm.Tokens(0)},
		},
		{
			"what is no token, too",
			llm.Usage{Images: llm.Tokens(1), AudioInput: llm.Tokens(5), AudioOutput: llm.Tokens(7)},
			llm.Usage{Images: llm.Tokens(2), Milliseconds: llm.Tokens(30), Characters: llm.Tokens(4), AudioInput: llm.Tokens(6), AudioOutput: llm.Tokens(8)},
			llm.Usage{Images: llm.Tokens(3), Milliseconds: llm.Tokens(30), Characters: llm.Tokens(4), AudioInput: llm.Tokens(11), AudioOutput: llm.Tokens(15)},
		},
		{
			"each bucket by itself, marks are kept",
			llm.Usage{Input: llm.Tokens(10), Cached: llm.Tokens(4), Output: llm.Tokens(5), Estimated: true},
			llm.Usage{Input: llm.Tokens(1), CacheWrite: llm.Tokens(3), Output: llm.Tokens(2), Reasoning: llm.Tokens(1), Anomaly: true},
			llm.Usage{
				Input: llm.Tokens(11), Cached: llm.Tokens(4), CacheWrite: llm.Tokens(3),
				Output: llm.Tokens(7), Reasoning: llm.Tokens(1), Estimated: true, Anomaly: true,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, tt.a.Add(tt.b)); diff != "" {
				t.Errorf("a+b (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, tt.b.Add(tt.a)); diff != "" {
				t.Errorf("b+a (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUsage_Revised(t *testing.T) {
	t.Parallel()
	first := llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(2)}
	marked := first
	marked.Anomaly = true
	last := llm.Usage{Input: llm.Tokens(12), Output: llm.Tokens(3)}
	input := llm.Usage{Input: llm.Tokens(10), Cached: llm.Tokens(4)}
	output := llm.Usage{Output: llm.Tokens(2), Reasoning: llm.Tokens(1)}
	both := llm.Usage{Input: llm.Tokens(10), Cached: llm.Tokens(4), Output: llm.Tokens(2), Reasoning: llm.Tokens(1)}

	tests := map[string]struct{ usage, report, want llm.Usage }{
		"the last report holds":             {marked, last, last},
		"no report changes nothing":         {marked, llm.Usage{}, marked},
		"a useless one marks what is known": {first, llm.Usage{Anomaly: true}, marked},
		"a useless one is told":             {llm.Usage{}, llm.Usage{Anomaly: true}, llm.Usage{Anomaly: true}},
		"a half is added":                   {input, output, both},
		"the other half is added":           {output, input, both},
		"parts go with their count":         {both, llm.Usage{Input: llm.Tokens(11), Output: llm.Tokens(5)}, llm.Usage{Input: llm.Tokens(11), Output: llm.Tokens(5)}},
		"a half that is no count stays":     {first, llm.Usage{Output: llm.Tokens(3), Anomaly: true}, llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(3), Anomaly: true}},
		"a mark stays with what it is of":   {marked, llm.Usage{Output: llm.Tokens(3)}, llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(3), Anomaly: true}},
		"all is not taken back":             {first, llm.Usage{Input: llm.Tokens(0), Output: llm.Tokens(0)}, marked},
		"a half is not taken back":          {first, llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(0)}, marked},
		"less is believed":                  {last, first, first},
		"a zero may be the first":           {llm.Usage{}, llm.Usage{Input: llm.Tokens(0)}, llm.Usage{Input: llm.Tokens(0)}},
		"a zero may grow":                   {llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(0)}, last, last},
		"pictures stay beside tokens":       {llm.Usage{Images: llm.Tokens(2)}, llm.Usage{Input: llm.Tokens(9)}, llm.Usage{Input: llm.Tokens(9), Images: llm.Tokens(2)}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, tt.usage.Revised(tt.report)); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUsage_Known(t *testing.T) {
	t.Parallel()

	if (llm.Usage{Cached: llm.Tokens(3), Estimated: true}).Known() {
		t.Error("usage without input or output is known")
	}
	if !(llm.Usage{Output: llm.Tokens(0)}).Known() {
		t.Error("a measured zero is not known")
	}
	if !(llm.Usage{Images: llm.Tokens(1)}).Known() {
		t.Error("a picture is not known")
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()

	var signals llm.Signals
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	signals.Open(alpha, now).Reached = true
	signals.Open(beta, now.Add(time.Second))

	want := []llm.Attempt{
		{Target: alpha, StartedAt: now, Reached: true},
		{Target: beta, StartedAt: now.Add(time.Second)},
	}
	if diff := cmp.Diff(want, signals.Attempts); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	if got := signals.Attempt().Target; got != beta {
		t.Errorf("attempt in hand is on %v, want the last opened", got)
	}
	if got := signals.Reached(); got != 1 {
		t.Errorf("reached %d upstreams, want 1", got)
	}
}
