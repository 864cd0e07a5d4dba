package openai_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

func TestReadUsage(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		usage string
		want  llm.Usage
	}{
		"both counts": {
			`{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}`,
			llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(2)},
		},
		"reasoning beside the completion": { // xAI
			`{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94}}`,
			llm.Usage{Input: llm.Tokens(32), Output: llm.Tokens(103), Reasoning: llm.Tokens(94)},
		},
		"more in all than in the halves": {
			`{"prompt_tokens":10,"completion_tokens":2,"total_tokens":312}`,
			llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(302), Anomaly: true},
		},
		"less in all than in the halves": {
			`{"prompt_tokens":10,"completion_tokens":2,"total_tokens":5}`,
			llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(2)},
		},
		"measured zero": {
			`{"prompt_tokens":0,"completion_tokens":0}`,
			llm.Usage{Input: llm.Tokens(0), Output: llm.Tokens(0)},
		},
		"all buckets": {
			`{"prompt_tokens":2000,"completion_tokens":50,"prompt_tokens_details":{"cached_tokens":500,"cache_write_tokens":300},"completion_tokens_details":{"reasoning_tokens":40}}`,
			llm.Usage{
				Input: llm.Tokens(2000), Cached: llm.Tokens(500), CacheWrite: llm.Tokens(300),
				Output: llm.Tokens(50), Reasoning: llm.Tokens(40),
			},
		},
		"whole floats":    {`{"prompt_tokens":10.0,"completion_tokens":2e1}`, llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(20)}},
		"nulls":           {`{"prompt_tokens":10,"completion_tokens":null,"prompt_tokens_details":null}`, llm.Usage{Input: llm.Tokens(10)}},
		"nothing":         {`{}`, llm.Usage{}},
		"no object":       {`"none"`, llm.Usage{}},
		"a negative":      {`{"prompt_tokens":10,"completion_tokens":-2}`, llm.Usage{Input: llm.Tokens(10), Anomaly: true}},
		"a word":          {`{"prompt_tokens":10,"completion_tokens":"2"}`, llm.Usage{Input: llm.Tokens(10), Anomaly: true}},
		"a fraction":      {`{"prompt_tokens":10,"completion_tokens":2.5}`, llm.Usage{Input: llm.Tokens(10), Anomaly: true}},
		"a truth":         {`{"prompt_tokens":10,"completion_tokens":true}`, llm.Usage{Input: llm.Tokens(10), Anomaly: true}},
		"a list":          {`{"prompt_tokens":10,"completion_tokens":[2]}`, llm.Usage{Input: llm.Tokens(10), Anomaly: true}},
		"the most":        {`{"prompt_tokens":10,"completion_tokens":1000000000}`, llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(1e9)}},
		"more than that":  {`{"prompt_tokens":10,"completion_tokens":1000000001}`, llm.Usage{Input: llm.Tokens(10), Anomaly: true}},
		"the largest int": {`{"prompt_tokens":10,"completion_tokens":9223372036854775807}`, llm.Usage{Input: llm.Tokens(10), Anomaly: true}},
		"a detail of it":  {`{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":-1}}`, llm.Usage{Input: llm.Tokens(10), Anomaly: true}},
		"nothing of use":  {`{"prompt_tokens":-1,"completion_tokens":"2"}`, llm.Usage{Anomaly: true}},
		"beyond a number": {`{"prompt_tokens":10,"completion_tokens":1e300}`, llm.Usage{Input: llm.Tokens(10), Anomaly: true}},
		"more cached than sent": {
			`{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":20,"cache_write_tokens":5}}`,
			llm.Usage{Input: llm.Tokens(10), Cached: llm.Tokens(10), CacheWrite: llm.Tokens(0), Anomaly: true},
		},
		"audio on both sides": {
			`{"prompt_tokens":100,"completion_tokens":50,"prompt_tokens_details":{"audio_tokens":60},"completion_tokens_details":{"audio_tokens":20}}`,
			llm.Usage{Input: llm.Tokens(100), AudioInput: llm.Tokens(60), Output: llm.Tokens(50), AudioOutput: llm.Tokens(20)},
		},
		"more audio than there is": {
			`{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"audio_tokens":11},"completion_tokens_details":{"reasoning_tokens":3,"audio_tokens":3}}`,
			llm.Usage{Input: llm.Tokens(10), AudioInput: llm.Tokens(10), Output: llm.Tokens(5), Reasoning: llm.Tokens(3), AudioOutput: llm.Tokens(2), Anomaly: true},
		},
		"more reasoning than output": {
			`{"completion_tokens":10,"completion_tokens_details":{"reasoning_tokens":11}}`,
			llm.Usage{Output: llm.Tokens(10), Reasoning: llm.Tokens(10), Anomaly: true},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := `{"choices":[{"message":{}}],"usage":` + tt.usage + `}`
			got, err := openai.ReadCompletion([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.Usage); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}
