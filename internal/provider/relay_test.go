package provider

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/wire"
)

// SEC-03: none of several keys comes back to a client, whichever of them the
// request bore; one may be the beginning of another.
func TestNoKeyComesBack(t *testing.T) {
	t.Parallel()
	upstream := NewUpstream(nil, llm.Timeouts{}, []string{"", "sk-1", "sk-12"})
	tests := map[string]struct {
		body, message string
		want          llm.UpstreamError
	}{
		"the longer":     {`{"error":{"message":"no sk-12"}}`, "no sk-12", llm.UpstreamError{Message: "no [redacted]"}},
		"the shorter":    {`{"error":{"message":"no sk-1."}}`, "no sk-1.", llm.UpstreamError{Message: "no [redacted]."}},
		"both":           {`{"error":{"message":"sk-1 sk-12"}}`, "sk-1 sk-12", llm.UpstreamError{Message: "[redacted] [redacted]"}},
		"behind escapes": {`{"error":{"message":"no","x":"\u0073k-1"}}`, "no", llm.UpstreamError{Message: "no"}},
		"none":           {`{"error":{"message":"sk-2"}}`, "sk-2", llm.UpstreamError{Message: "sk-2", Body: []byte(`{"error":{"message":"sk-2"}}`)}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := relayed(wire.Complaint{Message: tt.message, Native: true}, []byte(tt.body), upstream.secrets)
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Errorf("relayed (-want +got):\n%s", diff)
			}
		})
	}
}
