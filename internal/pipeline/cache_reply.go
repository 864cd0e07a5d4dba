package pipeline

import (
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// reply is an answer in the shape in which a call asked for it.
type reply struct {
	kept   llm.Kept
	events [][]byte // of a stream
}

// reply reports false when an answer cannot be had in the shape that is asked.
func (q *question) reply(kept llm.Kept) (reply, bool) {
	if !q.call.Facts.Stream {
		return reply{kept: kept}, true
	}
	events, ok := q.call.Codec.Events(kept.Body, q.call.Facts.IncludeUsage)
	return reply{kept, events}, ok && len(events) > 0
}

func (q *question) hit(r reply) (*llm.Result, error) {
	q.call.Signals.CacheResult = llm.CacheHit
	return q.send(r)
}

// send gives the client an answer for which nobody was asked: its result has no
// usage, and there is no attempt.
func (q *question) send(r reply) (*llm.Result, error) {
	const ok = 200
	q.call.Signals.KeptFrom = r.kept.Target
	result := &llm.Result{Target: r.kept.Target, Status: ok}
	if !q.call.Facts.Stream {
		result.Body = r.kept.Body
		return result, nil
	}
	result.Streamed = true
	q.call.Signals.Committed, q.call.Signals.FirstContent = true, time.Now()
	for i, raw := range r.events {
		if err := q.emit(llm.Event{Raw: raw, Kind: kindOf(i, len(r.events)), More: i < len(r.events)-1}); err != nil {
			return result, lost(err, r.kept.Target)
		}
	}
	return result, nil
}

// kindOf says what an event of a stream is that was made of a whole answer.
func kindOf(i, n int) llm.EventKind {
	switch i {
	case 0:
		return llm.EventPreamble
	case n - 1:
		return llm.EventTerminal
	default:
		return llm.EventContent
	}
}

// lost is the failure of a call whose client cannot be reached any more.
func lost(cause error, target llm.Target) *llm.Failure {
	return &llm.Failure{Class: llm.ClassCancelled, Reason: llm.CancelReason(cause), Target: target, Err: cause}
}
