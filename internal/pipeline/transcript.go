package pipeline

import "github.com/breakwater-llm/breakwater/internal/llm"

// eventsPerByte is how much longer the events of a stream may be than the answer
// that they say: each wraps a word or two in some two hundred bytes.
const eventsPerByte = 8

// transcript is a stream on its way up, of which a copy is kept while it is not too
// long. A crowd of nil follows nobody.
func (q *question) transcript(f *crowd) *relay {
	r := &relay{recording: newRecording(eventsPerByte * q.policies.MaxEntry), signals: q.call.Signals, up: q.emit}
	if f != nil {
		r.goesOn, r.end = f.goesOn, f.cancel
		r.outgrew = func() { f.settle(outcome{kind: outcomeAlone}) } // whoever waits would get nothing
	}
	return r
}

// said returns a stream as a whole answer; false when it cannot be told.
func (q *question) said(r *relay, usage llm.Usage) ([]byte, bool) {
	raw, _, whole := r.whole()
	if !whole {
		return nil, false
	}
	return q.call.Codec.Whole([][]byte{raw}, usage)
}
