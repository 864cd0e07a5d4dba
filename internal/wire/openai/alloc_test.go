package openai_test

import (
	"testing"

	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

// Not parallel: the allocations of other tests would count.
func TestReadingAnswersDoesNotAllocate(t *testing.T) {
	var chunk openai.Chunk
	body := read(t, "openai_chat_completion.json")
	plain, end := []byte(contentChunk), []byte(openai.Done)
	escaped := []byte(`{"choices":[{"delta":{"content":"\u00e4\n\ud83d\ude00"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7}}`)
	for name, reading := range map[string]func() error{
		"a chunk":           func() error { return chunk.Read(plain) },
		"a chunk's escapes": func() error { return chunk.Read(escaped) },
		"the end":           func() error { return chunk.Read(end) },
		"a whole answer":    func() error { _, err := openai.ReadCompletion(body); return err },
	} {
		allocs := testing.AllocsPerRun(100, func() {
			if err := reading(); err != nil {
				t.Fatal(err)
			}
		})
		if allocs > 0 {
			t.Errorf("%s: %v allocations, want 0", name, allocs)
		}
	}
}
