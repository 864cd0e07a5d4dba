package cases

import (
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

// A client that does not read its stream keeps nobody waiting who gets the same
// answer: under the same key, or to the same question.
func TestASlowClientHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	const events, size = 88, 64 << 10 // more than sockets take
	text := strings.Repeat("x", size)
	parts := []any{apptest.RoleChunk}
	for range events {
		parts = append(parts, apptest.Chunk(text))
	}
	parts = append(parts, apptest.FinishChunk, apptest.UsageChunk, apptest.Done)
	const small, large = "response_cache: {ttl: 1h, max_entry: 64KiB}", "response_cache: {ttl: 1h, max_entry: 16MiB}"
	for name, tt := range map[string]struct {
		settings string
		headers  []string
		body     string // of the second
		calls    int
	}{
		"the same question":               {large, nil, apptest.ChatBody, 1},
		"the same key":                    {"idempotency: {max_result: 32MiB}", []string{key, "k"}, apptest.StreamBody, 1},
		"both":                            {large + "\nidempotency: {max_result: 32MiB}", []string{key, "k"}, apptest.StreamBody, 1},
		"an answer too long to be shared": {small, nil, apptest.StreamBody, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := apptest.NewUpstream(t, apptest.Stream(parts...))
			g := apptest.Start(t, apptest.OneTarget(a, tt.settings, serving("write_timeout: 2m")))
			slow := g.Open(t, apptest.StreamBody, tt.headers...)
			answer := g.Post(t, tt.body, tt.headers...)
			if got := strings.Count(answer.Body, "x"); got < events*size {
				t.Errorf("who came second got %d bytes of text, want %d", got, events*size)
			}
			slow.Until("[DONE]") // it was not let go meanwhile
			equal(t, "calls of A", a.Calls(), tt.calls)
		})
	}
}
