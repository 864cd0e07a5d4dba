package openai

import (
	"bytes"
	"slices"

	"github.com/breakwater-llm/breakwater/internal/jsonscan"
)

// MarkDegraded returns a whole answer with `"ai_degraded": true` in it, as its
// first member unless it has the member already. Every other byte stays. What is
// no JSON object is returned as it is.
func MarkDegraded(body []byte) []byte {
	s := jsonscan.Lenient(body)
	if s.Kind() != jsonscan.Object {
		return body
	}
	inside, empty := s.Offset()+1, true
	for s.Object(); s.Member(); s.Skip() {
		empty = false
		if string(s.Name) == "ai_degraded" {
			s.Kind() // goes to where its value begins
			start := s.Offset()
			s.Skip()
			return slices.Concat(body[:start], []byte("true"), body[s.Offset():])
		}
	}
	mark := []byte(`"ai_degraded":true,`)
	if empty {
		mark = bytes.TrimSuffix(mark, []byte(","))
	}
	return slices.Concat(body[:inside], mark, body[inside:])
}
