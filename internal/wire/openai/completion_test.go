package openai_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

func TestAnswersOfRealServers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"openai_chat_completion.json", "openai_chat_completion_length.json", "openai_chat_completion_refusal.json",
		"openai_chat_completion_tool_calls.json", "ollama_chat.json", "ollama_chat_json_format.json",
		"ollama_chat_stop_word.json", "ollama_too_long_chat.json",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := openai.ReadCompletion(read(t, name))
			if err != nil {
				t.Fatal(err)
			}
			if got.Failed || got.TextBytes == 0 {
				t.Errorf("failed %v, %d bytes of text; want a good answer with text", got.Failed, got.TextBytes)
			}
		})
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReadCompletion(t *testing.T) {
	t.Parallel()
	usage := llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(5)}
	const reported = `"usage":{"prompt_tokens":10,"completion_tokens":5}`
	tests := map[string]struct {
		body  string
		err   error
		usage llm.Usage
	}{
		"good":                  {body: `{"choices":[{"message":{"content":"ok"}}],` + reported + `}`, usage: usage},
		"blank lines before":    {body: "\n\n\n{\"choices\":[{\"message\":{\"content\":\"ok\"}}]}"},
		"no content":            {body: `{"choices":[{"message":{"content":null}}]}`},
		"duplicate keys":        {body: `{"choices":[{"message":{}}],"x":1,"x":2}`},
		"error null":            {body: `{"error":null,"choices":[{"message":{}}]}`},
		"empty (BOD-05)":        {body: "", err: openai.ErrEmptyBody},
		"blank":                 {body: " \r\n", err: openai.ErrEmptyBody},
		"cut (BOD-07)":          {body: `{"id":"c1","choices":[{"mess`, err: openai.ErrInvalidBody},
		"cut after usage":       {body: `{` + reported + `,"choices":[{"mess`, err: openai.ErrInvalidBody, usage: usage},
		"no choices":            {body: `{` + reported + `}`, err: openai.ErrInvalidBody, usage: usage},
		"empty list (CST-08)":   {body: `{"choices":[],` + reported + `}`, err: openai.ErrInvalidBody, usage: usage},
		"choices null":          {body: `{"choices":null}`, err: openai.ErrInvalidBody},
		"a choice without":      {body: `{"choices":[{"message":{}},{"index":1}]}`, err: openai.ErrInvalidBody},
		"a message of no shape": {body: `{"choices":[{"message":"hi"}]}`, err: openai.ErrInvalidBody},
		"a choice of no shape":  {body: `{"choices":["hi"]}`, err: openai.ErrInvalidBody},
		"no UTF-8":              {body: "{\"choices\":[{\"message\":{\"content\":\"\xff\"}}]," + reported + "}", err: openai.ErrInvalidBody, usage: usage},
		"half a surrogate pair": {body: `{"choices":[{"message":{"content":"\ud83d"}}]}`},
		"HTML":                  {body: `<html></html>`, err: openai.ErrInvalidBody},
		"an array":              {body: `[]`, err: openai.ErrInvalidBody},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := openai.ReadCompletion([]byte(tt.body))
			if !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			if diff := cmp.Diff(tt.usage, got.Usage); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadCompletionSeesAnErrorInsteadOfAnAnswer(t *testing.T) { // BOD-03
	t.Parallel()
	for _, body := range []string{
		`{"error":{"message":"x","code":503},"choices":null}`,
		`{"error":"model is gone"}`,
		`{"choices":[{"message":{"content":"The fer"},"finish_reason":"error","error":{"code":502,"message":"x"}}]}`,
		string(read(t, "openrouter_200_error_body.json")),
	} {
		got, err := openai.ReadCompletion([]byte(body))
		if err != nil || !got.Failed {
			t.Errorf("%s: failed %v, error %v; want a failed answer", body, got.Failed, err)
		}
	}
}

func BenchmarkReadCompletion(b *testing.B) {
	body, err := os.ReadFile("testdata/openai_chat_completion.json")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := openai.ReadCompletion(body); err != nil {
			b.Fatal(err)
		}
	}
}
