package openai_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/breakwater-llm/breakwater/internal/sse"
	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

// oddities are payloads that real servers do not send, but might.
var oddities = []string{
	``, ` `, `[DONE]`, " [DONE]\t", `[DONE`, `[]`, `null`, `{}`, `{} {}`, `{"choices":[{"delta":{"content":"a`,
	`{"choices":null,"usage":null,"error":null,"x_groq":null}`, `{"choices":{"delta":{}},"usage":[1],"error":[{}],"x_groq":"x"}`,
	`{"choices":[1,null,[{"delta":{"content":"no"}}],{"delta":[]},{"delta":{"content":["a",{"text":"b","x":{"text":"c"}}],"audio":{"name":"n"}},"finish_reason":7}]}`,
	`{"choices":[{"delta":{"tool_calls":[null,1,{"function":{"arguments":"{\"a\":1}","name":["x"]}}],"function_call":{"a":0}},"finish_reason":"\u0065rror"}]}`,
	`{"ch\u006fices":[{"d\u0065lta":{"content":"\u00e4\u4f60\ud83d\ude00\ud83d\n"}}],"choices":[],"usage":{"prompt_tokens":1},"usage":{"prompt_tokens":"2"}}`,
	`{"usage":{"prompt_tokens":10.0,"completion_tokens":-1,"prompt_cache_hit_tokens":11,"prompt_tokens_details":{"cached_tokens":1e99}},"x_groq":{"usage":{"prompt_tokens":3}}}`,
	`{"usage":{"prompt_tokens":9223372036854775808,"completion_tokens":true,"prompt_tokens_details":[],"completion_tokens_details":{"reasoning_tokens":5}`,
	`{"error":-0.0}`, `{"error":false,"errors":[[]],"choices":[]}`, `{"detail":[ ]}`, `{"message":{},"choices":[{"index":130,"error":true,"finish_reason":""},{"index":-1},{"index":"1"},{"index":99999999999999999999}]}`,
	`{"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":9,"completion_tokens_details":{"reasoning_tokens":6}}}`,
	`{"error":{"message":"x"},"error":""}`, `{"error":"x","choices":[{"message":{"content":"a"}},{"message":[]}]}`,
	"{\"choices\":[{\"message\":{\"content\":\"\xff\xfe\"}}],\"usage\":{\"prompt_tokens\":1}}", `{"choices":[{"message":{},"message":{"content":"a"}}],"usage":{"prompt_tokens":1},`,
}

func TestReadingIsEqualToTheLibrarys(t *testing.T) {
	t.Parallel()
	for _, text := range payloads(t) {
		holdToLibrary(t, text)
	}
}

// FuzzReading: a chunk and an answer are what the library's decoder makes of
// them, whatever the bytes.
func FuzzReading(f *testing.F) {
	for _, text := range payloads(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) { holdToLibrary(t, text) })
}

func holdToLibrary(t *testing.T, text []byte) {
	t.Helper()
	var chunk openai.Chunk
	var wantChunk libraryChunk
	err, want := chunk.Read(text), wantChunk.Read(text)
	if (err == nil) != (want == nil) {
		t.Fatalf("chunk %q: error %v, want %v", text, err, want)
	}
	if diff := cmp.Diff(wantChunk.Chunk, chunk, cmpopts.IgnoreUnexported(openai.Chunk{})); err == nil && diff != "" {
		t.Fatalf("chunk %q (-want +got):\n%s", text, diff)
	}

	var wantAnswer libraryCompletion
	answer, err := openai.ReadCompletion(text)
	if want := wantAnswer.Read(text); !errors.Is(err, want) {
		t.Fatalf("answer %q: error %v, want %v", text, err, want)
	}
	if answer.Usage != wantAnswer.Usage { // also when it is no use
		t.Fatalf("answer %q: usage %+v, want %+v", text, answer.Usage, wantAnswer.Usage)
	}
	if diff := cmp.Diff(wantAnswer.Completion, answer, cmpopts.IgnoreUnexported(openai.Completion{})); err == nil && diff != "" {
		t.Fatalf("answer %q (-want +got):\n%s", text, diff)
	}
}

// payloads returns what real servers have sent, and the oddities.
func payloads(tb testing.TB) (all [][]byte) {
	tb.Helper()
	for _, text := range oddities {
		all = append(all, []byte(text))
	}
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) == 0 {
		tb.Fatalf("%d files, error %v", len(files), err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		if filepath.Ext(file) != ".sse" {
			all = append(all, b)
			continue
		}
		for r := sse.NewReader(bytes.NewReader(b)); ; {
			e, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				tb.Fatal(err)
			}
			all = append(all, bytes.Clone(e.Data))
		}
	}
	return all
}

func BenchmarkReadChunkByTheLibrary(b *testing.B) {
	data := []byte(contentChunk)
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		var c libraryChunk
		if err := c.Read(data); err != nil {
			b.Fatal(err)
		}
	}
}
