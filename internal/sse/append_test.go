package sse_test

import (
	"testing"

	"github.com/breakwater-llm/breakwater/internal/sse"
)

func TestAppendData(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ data, want string }{
		"one line":  {"[DONE]", "x\n\ndata: [DONE]\n\n"},
		"two lines": {"a\nb", "x\n\ndata: a\ndata: b\n\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := string(sse.AppendData([]byte("x\n\n"), []byte(tt.data))); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
