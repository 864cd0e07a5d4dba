package openai_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

func TestSplice_LimitsTheAnswer(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		field      openai.OutputField
		body, want string
	}{
		"nothing said": {
			openai.MaxTokens,
			`{"model":"chat","messages":[]}`,
			`{"model":"gpt-x","max_tokens":64,"messages":[]}`,
		},
		"nothing said, to a server with the newer field": {
			openai.MaxCompletionTokens,
			`{"messages":[],"model":"chat"}`,
			`{"messages":[],"model":"gpt-x","max_completion_tokens":64}`,
		},
		"with usage asked for": {
			openai.MaxTokens,
			`{"model":"chat","stream":true,"messages":[]}`,
			`{"model":"gpt-x","stream_options":{"include_usage":true},"max_tokens":64,"stream":true,"messages":[]}`,
		},
		"the client's own limit stays": {
			openai.MaxTokens,
			`{"model":"chat","messages":[],"max_tokens":100}`,
			`{"model":"gpt-x","messages":[],"max_tokens":100}`,
		},
		"null is no limit": {
			openai.MaxTokens,
			`{"model":"chat","max_tokens": null ,"messages":[]}`,
			`{"model":"gpt-x","max_tokens": 64 ,"messages":[]}`,
		},
		"a negative one is none": {
			openai.MaxCompletionTokens,
			`{"model":"chat","max_completion_tokens":-1,"messages":[]}`,
			`{"model":"gpt-x","max_completion_tokens":64,"messages":[]}`,
		},
		"no limit in the field that the server may heed as well": {
			openai.MaxTokens,
			`{"model":"chat","max_completion_tokens":-1,"messages":[]}`,
			`{"model":"gpt-x","max_tokens":64,"max_completion_tokens":64,"messages":[]}`,
		},
		"null there does no harm": {
			openai.MaxTokens,
			`{"model":"chat","max_completion_tokens":null,"messages":[]}`,
			`{"model":"gpt-x","max_tokens":64,"max_completion_tokens":null,"messages":[]}`,
		},
		"a limit in a field that the server does not know": {
			openai.MaxTokens,
			`{"model":"chat","max_completion_tokens":5,"messages":[]}`,
			`{"model":"gpt-x","max_tokens":64,"max_completion_tokens":5,"messages":[]}`,
		},
		"the older field, where both would be refused": {
			openai.MaxCompletionTokens,
			`{"model":"chat","max_tokens":5,"messages":[]}`,
			`{"model":"gpt-x","max_tokens":5,"messages":[]}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			facts, err := openai.ReadFacts([]byte(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			got := bytes.Join(openai.Splice([]byte(tt.body), facts, openai.Changes{Model: "gpt-x", OutputLimit: 64, OutputField: tt.field}), nil)
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}
