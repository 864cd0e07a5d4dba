package llm

import "time"

// Result is what an attempt brought back. It comes with an error, too,
// whenever an upstream was reached: usage so far, status and timings are facts
// whether the attempt went well or not.
type Result struct {
	Target      Target
	Status      int    // upstream HTTP status
	ContentType string // of Body
	Body        []byte // the whole answer in the client's dialect; nil for a stream
	Streamed    bool
	Usage       Usage
	OutputBytes int // visible bytes of the answer so far, for estimates

	SentAt     time.Time     // when the last send began
	Latency    time.Duration // duration of the last send
	FirstToken time.Duration // from SentAt to the first content event; 0 = none came
	Retries    int           // sends after the first, inside one permit
	Credential int           // which of several the last send went under, from 1; 0 = there is one
}

// Count is a number of tokens that may be unknown. Its zero value is unknown,
// which is not the same as a measured zero.
type Count struct {
	N     int64
	Known bool
}

// Tokens returns a known count.
func Tokens(n int64) Count { return Count{N: n, Known: true} }

// Add sums two counts; unknown plus known is known.
func (c Count) Add(other Count) Count {
	return Count{N: c.N + other.N, Known: c.Known || other.Known}
}

// Usage is what a provider reported for one attempt, in one vocabulary:
// cached and cache-write tokens are part of Input, reasoning of Output.
type Usage struct {
	Input      Count
	Cached     Count
	CacheWrite Count
	Output     Count
	Reasoning  Count
	Estimated  bool // computed from bytes, not reported
	Anomaly    bool // the report contradicted itself or held what is no count; that is clamped or unknown
}

// Known reports whether any token count is known.
func (u Usage) Known() bool { return u.Input.Known || u.Output.Known }

// Revised returns the usage after one more report about the same attempt. The
// report replaces it; one in which no count can be used only leaves its mark.
func (u Usage) Revised(report Usage) Usage {
	if report.Known() {
		return report
	}
	u.Anomaly = u.Anomaly || report.Anomaly
	return u
}

// Add sums two usages, as for the attempts of one run.
func (u Usage) Add(other Usage) Usage {
	return Usage{
		Input:      u.Input.Add(other.Input),
		Cached:     u.Cached.Add(other.Cached),
		CacheWrite: u.CacheWrite.Add(other.CacheWrite),
		Output:     u.Output.Add(other.Output),
		Reasoning:  u.Reasoning.Add(other.Reasoning),
		Estimated:  u.Estimated || other.Estimated,
		Anomaly:    u.Anomaly || other.Anomaly,
	}
}

// EventKind says what an event of a stream is to the pipeline.
type EventKind uint8

const (
	// EventPreamble carries nothing a person reads: role-only deltas, created
	// events, finish marks. It does not commit a stream.
	EventPreamble EventKind = iota
	// EventContent is text, reasoning, refusal, a tool call or audio. The
	// first one commits the stream.
	EventContent
	// EventUsage carries token counts only.
	EventUsage
	// EventTerminal is the dialect's own end mark.
	EventTerminal
)

// Event is one event of a stream in the client's dialect.
type Event struct {
	// Raw is the event's bytes with its closing blank line. It is empty for an
	// event that exists only because the gateway asked for it, and valid only
	// during Emit: whoever keeps it copies it.
	Raw       []byte
	Kind      EventKind
	Usage     *Usage
	TextBytes int  // visible bytes of a content event, for estimates
	More      bool // another event is in hand already: a flush may wait for it
}

// Emit hands an event upward, towards the client. An error means that the
// client cannot be reached any more; the attempt then ends as cancelled.
type Emit func(Event) error
