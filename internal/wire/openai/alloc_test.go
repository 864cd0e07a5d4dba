//go:build !race

// The decoder comes from a pool, which the race detector empties at random.

package openai_test

import (
	"testing"

	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

func TestReadingAChunkDoesNotAllocate(t *testing.T) {
	data := []byte(contentChunk)
	var c openai.Chunk
	allocs := testing.AllocsPerRun(100, func() {
		if err := c.Read(data); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations, want 0", allocs)
	}
}
