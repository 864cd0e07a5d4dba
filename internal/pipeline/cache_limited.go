package pipeline

import "github.com/breakwater-llm/breakwater/internal/llm"

// limited reports whether an answer may be shorter than what was asked for because
// of a limit of its caller's. Such an answer is that caller's alone, and only while
// the limit holds.
func (q *question) limited(kept llm.Kept) bool {
	if !q.call.Signals.OutputLimited {
		return false
	}
	answered := q.call.Codec.Answered(kept.Body)
	return !answered.Complete || answered.CutShort
}
