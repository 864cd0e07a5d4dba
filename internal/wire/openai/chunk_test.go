package openai_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/sse"
	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

// letters spells a stream: preamble, content, usage, terminal; ! fails,
// . finishes.
func letters(c openai.Chunk) string {
	s := string("pcut"[c.Kind])
	if c.Failed {
		s = "!"
	}
	if !c.Finished.None() {
		s += "."
	}
	return s
}

func TestStreamsOfRealServers(t *testing.T) {
	t.Parallel()
	usage := func(input, output int64) llm.Usage {
		return llm.Usage{Input: llm.Tokens(input), Output: llm.Tokens(output)}
	}
	detailed := func(input, cached, output, reasoning int64) llm.Usage {
		u := usage(input, output)
		u.Cached, u.CacheWrite, u.Reasoning = llm.Tokens(cached), llm.Tokens(0), llm.Tokens(reasoning)
		u.AudioInput, u.AudioOutput = llm.Tokens(0), llm.Tokens(0)
		return u
	}
	deepseek := usage(20, 5)
	deepseek.Cached, deepseek.Reasoning = llm.Tokens(16), llm.Tokens(2)

	tests := map[string]struct {
		spelled string
		text    int
		usage   llm.Usage
	}{
		"openai_chat_stream.sse":                 {"p c c p. u t", 25, detailed(1200, 1024, 86, 64)},
		"openai_chat_stream_no_usage.sse":        {"p c p. t", 3, llm.Usage{}},
		"openai_chat_stream_tool_calls.sse":      {"p c c c c c p. u t", 67, detailed(210, 0, 41, 0)},
		"openai_chat_stream_midstream_error.sse": {"p c !", 10, llm.Usage{}},
		"openai_chat_stream_truncated.sse":       {"p c", 10, llm.Usage{}},
		"azure_chat_stream_prompt_filter.sse":    {"p p c p. u t", 3, detailed(5, 0, 2, 0)},
		"deepseek_stream_keepalive.sse":          {"c c p. t", 10, deepseek},
		"openrouter_stream_error.sse":            {"c !.", 7, llm.Usage{}},
		"vllm_stream_error.sse":                  {"p ! t", 0, llm.Usage{}},
		"ollama_err_queue_full.sse":              {"c c c c p. t", 20, llm.Usage{}},
		"ollama_runner_killed_mid_stream.sse":    {"c c p", 12, llm.Usage{}},
		"ollama_chat_stream.sse":                 {strings.Repeat("c ", 24) + "p. t", 96, llm.Usage{}},
		"ollama_chat_stream_usage.sse":           {strings.Repeat("c ", 24) + "p. u t", 92, usage(56, 24)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var spelled []string
			var text int
			var reported llm.Usage
			for _, c := range chunks(t, name) {
				spelled = append(spelled, letters(c))
				text += c.TextBytes
				if c.Usage.Known() {
					reported = c.Usage
				}
			}
			if got := strings.Join(spelled, " "); got != tt.spelled {
				t.Errorf("stream is %q, want %q", got, tt.spelled)
			}
			if text != tt.text {
				t.Errorf("%d bytes of text, want %d", text, tt.text)
			}
			if diff := cmp.Diff(tt.usage, reported); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}

func chunks(t *testing.T, name string) []openai.Chunk {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []openai.Chunk
	for r := sse.NewReader(f); ; {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		var c openai.Chunk
		if err := c.Read(e.Data); err != nil {
			t.Fatalf("read %s: %v", e.Data, err)
		}
		all = append(all, c)
	}
}

func TestReadChunk(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		data string
		want string
		text int
	}{
		"role only":                {`{"choices":[{"delta":{"role":"assistant","content":""}}]}`, "p", 0},
		"null everywhere":          {`{"choices":[{"delta":{"content":null,"tool_calls":null,"audio":null},"finish_reason":null}],"usage":null,"error":null}`, "p", 0},
		"reasoning":                {`{"choices":[{"delta":{"reasoning_content":"hm"}}]}`, "c", 2},
		"reasoning, another name":  {`{"choices":[{"delta":{"reasoning":"hm"}}]}`, "c", 2},
		"refusal":                  {`{"choices":[{"delta":{"refusal":"no"}}]}`, "c", 2},
		"tool call":                {`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]}}]}`, "c", 1},
		"tool call without text":   {`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":""}}]}}]}`, "c", 0},
		"no tool calls":            {`{"choices":[{"delta":{"tool_calls":[]}}]}`, "p", 0},
		"function call":            {`{"choices":[{"delta":{"function_call":{"name":"f"}}}]}`, "c", 1},
		"audio":                    {`{"choices":[{"delta":{"audio":{"data":"AAAA"}}}]}`, "c", 0},
		"content in parts":         {`{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}}]}`, "c", 2},
		"content and finish":       {`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`, "c.", 1},
		"second choice":            {`{"choices":[{"delta":{}},{"delta":{"content":"ab"}}]}`, "c", 2},
		"usage beside content":     {`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1}}`, "c", 1},
		"usage on its own":         {`{"usage":{"prompt_tokens":1}}`, "u", 0},
		"usage of Groq":            {`{"choices":[],"x_groq":{"usage":{"prompt_tokens":1}}}`, "u", 0},
		"empty usage":              {`{"choices":[],"usage":{}}`, "p", 0},
		"error as a text":          {`{"error":"llama runner process has terminated"}`, "!", 0},
		"error in no wrapper":      {`{"object":"error","message":"CUDA out of memory","type":"InternalServerError","param":null,"code":500}`, "!", 0},
		"error of that type":       {`{"type":"error","code":"server_error","message":"The model failed.","param":null,"sequence_number":3}`, "!", 0},
		"error of a choice":        {`{"choices":[{"index":0,"delta":{"content":""},"error":{"code":502,"message":"x"},"finish_reason":"stop"}]}`, "!.", 0},
		"error as a code":          {`{"error":500}`, "!", 0},
		"error as a flag":          {`{"error":true}`, "!", 0},
		"error in a list":          {`{"error":[{"message":"x"}]}`, "!", 0},
		"several errors":           {`{"errors":[{"message":"x"}]}`, "!", 0},
		"a detail":                 {`{"detail":"Not Found"}`, "!", 0},
		"a message without more":   {`{"message":"boom","code":500}`, "!", 0},
		"no choices but a detail":  {`{"choices":null,"detail":[{"msg":"x"}]}`, "!", 0},
		"no error in any shape":    {`{"error":0,"errors":[ ],"detail":"","message":null}`, "p", 0},
		"a message beside choices": {`{"choices":[{"delta":{"content":"a"}}],"message":"warm","errors":[1]}`, "c", 1},
		"no choice beside usage":   {`{"choices":[null],"usage":{"prompt_tokens":1}}`, "u", 0},
		"error in any bytes":       {"{\"error\":{\"message\":\"\xff\"}}", "!", 0},
		"half a surrogate pair":    {`{"choices":[{"delta":{"content":"\ud83d"}}]}`, "c", 2},
		"no error after all":       {`{"choices":[],"error":"","x":{"error":{}}}`, "p", 0},
		"finished by an error":     {`{"choices":[{"delta":{},"finish_reason":"error"}]}`, "!.", 0},
		"spaces around the end":    {" [DONE] ", "t", 0},
		"duplicate keys":           {`{"choices":[{"delta":{"content":"a","content":"b"}}]}`, "c", 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := openai.Chunk{Failed: true, TextBytes: 99} // what was there before is forgotten
			if err := c.Read([]byte(tt.data)); err != nil {
				t.Fatal(err)
			}
			if got := letters(c); got != tt.want || c.TextBytes != tt.text {
				t.Errorf("got %q with %d bytes of text, want %q with %d", got, c.TextBytes, tt.want, tt.text)
			}
		})
	}
}

func TestReadChunkRefusesWhatIsNoChunk(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"<html>", `{"choices":[{"delta":{"content":"a`, `[]`, `"a"`, `{} {}`, "{\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}"} {
		var c openai.Chunk
		if err := c.Read([]byte(data)); err == nil {
			t.Errorf("%s was taken for a chunk", data)
		}
	}
}

const contentChunk = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1793000000,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":null}`

func BenchmarkReadChunk(b *testing.B) {
	data := []byte(contentChunk)
	var c openai.Chunk
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := c.Read(data); err != nil {
			b.Fatal(err)
		}
	}
}
