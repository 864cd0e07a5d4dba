package openai_test

import (
	"testing"

	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

func TestErrorFace(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in   openai.Error
		want string
	}{
		"least": {
			openai.Error{Message: "The stream broke.", Type: "server_error"},
			`{"error":{"message":"The stream broke.","type":"server_error","param":null,"code":null}}`,
		},
		"whole": {
			openai.Error{Message: `say "when"` + "\n", Type: "invalid_request_error", Param: "messages[0]", Code: "invalid_value"},
			`{"error":{"message":"say \"when\"\n","type":"invalid_request_error","param":"messages[0]","code":"invalid_value"}}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := string(openai.AppendError(nil, tt.in)); got != tt.want {
				t.Errorf("body %s, want %s", got, tt.want)
			}
			if got, want := string(openai.AppendErrorEvent(nil, tt.in)), "data: "+tt.want+"\n\n"; got != want {
				t.Errorf("event %q, want %q", got, want)
			}
		})
	}
}

func TestAppendDone(t *testing.T) {
	t.Parallel()
	if got := string(openai.AppendDone(nil)); got != "data: [DONE]\n\n" {
		t.Errorf("got %q", got)
	}
}
