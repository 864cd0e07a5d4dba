package openai

import (
	"strconv"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// OutputField is the field in which a server looks for the limit of an answer.
type OutputField string

// The two that there are. OpenAI's own API refuses the older one for some of its
// models and both in one request; most other servers know the older one only.
const (
	MaxTokens           OutputField = fieldMaxTokens
	MaxCompletionTokens OutputField = fieldMaxCompletion
)

// limitOutput adds the edits that make a server keep its answer under the limit.
// What the client has said stays where the server heeds it; where it has said
// "no limit" it is corrected.
func limitOutput(edits []edit, body []byte, facts llm.Facts, changes Changes) []edit {
	own, other := facts.MaxTokensSpan, facts.MaxCompletionSpan
	if changes.OutputField == MaxCompletionTokens {
		own, other = other, own
		if limits(body, other) {
			return edits // a second one beside it would be refused
		}
	}
	limit := strconv.AppendInt(nil, int64(changes.OutputLimit), 10)
	switch {
	case own.IsZero():
		text := append([]byte(`,"`+string(changes.OutputField)+`":`), limit...)
		edits = append(edits, edit{llm.Span{Start: facts.ModelSpan.End, End: facts.ModelSpan.End}, text})
	case !limits(body, own):
		edits = append(edits, edit{own, limit})
	}
	if !other.IsZero() && body[other.Start] != 'n' && !limits(body, other) {
		edits = append(edits, edit{other, limit})
	}
	return edits
}

// limits reports whether a field of the body is there and limits anything; null
// and what is not over 0 do not.
func limits(body []byte, field llm.Span) bool {
	if field.IsZero() {
		return false
	}
	n, _ := wholeOf(body[field.Start:field.End])
	return n > 0
}
