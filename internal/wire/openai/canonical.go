package openai

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/breakwater-llm/breakwater/internal/jsonscan"
)

// Canonical returns what two requests have in common that ask for the same: the
// body with sorted names, one spelling of each string and of each number that is
// no integer, and without what does not change the answer. An integer keeps its
// digits, of which a double would lose some. Reports false for a body of which
// this cannot be told, such as one with half a character.
func (Codec) Canonical(body []byte) ([]byte, bool) {
	text := make([]byte, 1, len(body)+1)
	text[0] = '{'
	s := jsonscan.Lenient(body)
	for s.Object(); s.Member(); {
		if changesNoAnswer(string(s.Name)) {
			s.Skip()
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(appendText(text, string(s.Name)), ':')
		text = append(text, s.Value()...)
	}
	canonical := jsontext.Value(append(text, '}'))
	if s.End() != nil || canonical.Canonicalize(jsontext.CanonicalizeRawInts(false)) != nil {
		return nil, false
	}
	return canonical, true
}

// changesNoAnswer names what a request may say without getting another answer:
// in which shape it comes, and for whom it is. The configuration stands for the
// model.
func changesNoAnswer(name string) bool {
	switch name {
	case "model", "stream", "stream_options", "user", "metadata":
		return true
	default:
		return false
	}
}
