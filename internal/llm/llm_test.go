package llm_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

func TestParseTarget(t *testing.T) {
	t.Parallel()

	tests := []struct {
		key  string
		want llm.Target
		ok   bool
	}{
		{"alpha/m1/r1", alpha, true},
		{"router/meta-llama/llama-3/70b/eu", llm.Target{Provider: "router", Model: "meta-llama/llama-3/70b", Region: "eu"}, true},
		{"a//m//r", llm.Target{Provider: "a", Model: "/m/", Region: "r"}, true},
		{"alpha/m1", llm.Target{}, false},
		{"alpha", llm.Target{}, false},
		{"", llm.Target{}, false},
		{"/m1/r1", llm.Target{}, false},
		{"alpha//r1", llm.Target{}, false},
		{"alpha/m1/", llm.Target{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.key, func(t *testing.T) {
			t.Parallel()
			got, ok := llm.ParseTarget(tt.key)
			if got != tt.want || ok != tt.ok {
				t.Fatalf("ParseTarget(%q) = %+v, %v, want %+v, %v", tt.key, got, ok, tt.want, tt.ok)
			}
			if ok && got.Key() != tt.key {
				t.Errorf("Key() = %q, want %q back", got.Key(), tt.key)
			}
		})
	}
}

// A middleware that changes a call passes on a copy: the original stays as it
// was, and both share one scratchpad.
func TestCall_WithTarget(t *testing.T) {
	t.Parallel()

	call := &llm.Call{Target: alpha, MoreTargets: true, Signals: &llm.Signals{}}
	next := call.WithTarget(beta, false)

	if next.Target != beta || next.MoreTargets {
		t.Errorf("the copy aims at %v (more: %v), want the last target beta", next.Target, next.MoreTargets)
	}
	if call.Target != alpha || !call.MoreTargets {
		t.Error("the original call was changed")
	}
	if next.Signals != call.Signals {
		t.Error("the copy has signals of its own")
	}
}

func TestTimeouts_Or(t *testing.T) {
	t.Parallel()

	got := llm.Timeouts{Total: 77 * time.Second}.Or(llm.Timeouts{Connect: 5 * time.Second, Total: 240 * time.Second})
	want := llm.Timeouts{Connect: 5 * time.Second, Total: 77 * time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("timeouts (-want +got):\n%s", diff)
	}
}
