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
	AfterReport int // of them, those that came after the last report of what came out

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

// Usage is what a provider reported for one attempt, in one vocabulary: cached,
// cache-write and audio tokens are part of Input, reasoning and audio of Output.
type Usage struct {
	Input       Count
	Cached      Count
	CacheWrite  Count
	AudioInput  Count
	Output      Count
	Reasoning   Count
	AudioOutput Count

	Images       Count // pictures made
	Milliseconds Count // of sound or film taken or made
	Characters   Count // of text read out

	Estimated bool // computed from bytes, not reported
	Anomaly   bool // the report contradicted itself or held what is no count; that is clamped or unknown
}

// Known reports whether any count is known that stands for itself, tokens or
// other: then the attempt used something, and it may be billed.
func (u Usage) Known() bool {
	return u.Input.Known || u.Output.Known || u.Images.Known || u.Milliseconds.Known || u.Characters.Known
}

// Revised returns the usage after one more report about the same attempt. What it
// counts replaces what was counted before, each count with its parts; what it does
// not count, or takes back to nothing, stays.
func (u Usage) Revised(report Usage) Usage {
	if !report.Known() {
		u.Anomaly = u.Anomaly || report.Anomaly
		return u
	}
	kept, anomaly := false, report.Anomaly
	stays := func(before, now Count) bool {
		takenBack := now.Known && now.N == 0 && before.N > 0
		anomaly = anomaly || takenBack
		kept = kept || before.Known && !now.Known
		return takenBack || !now.Known
	}
	if stays(u.Input, report.Input) {
		report.Input, report.Cached, report.CacheWrite, report.AudioInput = u.Input, u.Cached, u.CacheWrite, u.AudioInput
	}
	if stays(u.Output, report.Output) {
		report.Output, report.Reasoning, report.AudioOutput = u.Output, u.Reasoning, u.AudioOutput
	}
	if stays(u.Images, report.Images) {
		report.Images = u.Images
	}
	if stays(u.Milliseconds, report.Milliseconds) {
		report.Milliseconds = u.Milliseconds
	}
	if stays(u.Characters, report.Characters) {
		report.Characters = u.Characters
	}
	report.Anomaly = anomaly || kept && u.Anomaly
	return report
}

// Add sums two usages, as for the attempts of one run.
func (u Usage) Add(other Usage) Usage {
	return Usage{
		Input:        u.Input.Add(other.Input),
		Cached:       u.Cached.Add(other.Cached),
		CacheWrite:   u.CacheWrite.Add(other.CacheWrite),
		AudioInput:   u.AudioInput.Add(other.AudioInput),
		Output:       u.Output.Add(other.Output),
		Reasoning:    u.Reasoning.Add(other.Reasoning),
		AudioOutput:  u.AudioOutput.Add(other.AudioOutput),
		Images:       u.Images.Add(other.Images),
		Milliseconds: u.Milliseconds.Add(other.Milliseconds),
		Characters:   u.Characters.Add(other.Characters),
		Estimated:    u.Estimated || other.Estimated,
		Anomaly:      u.Anomaly || other.Anomaly,
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
