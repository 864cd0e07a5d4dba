// Package llm holds the words that every room of the gateway shares: what a
// call is, which target it goes to, what came back, and how it failed. It
// imports no other room, does no I/O and knows neither HTTP nor any dialect.
package llm

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Operation is what a caller asks a model to do; it is the `operation` of the
// telemetry tables and of metrics.
type Operation string

const (
	// OperationChat is a chat completion, streamed or not.
	OperationChat Operation = "chat"

	// What the gateway asks on its own account, for no caller.
	OperationCanary      Operation = "canary"       // a small chat, to find out whether a target is well again
	OperationHealthCheck Operation = "health_check" // whether a provider answers at all
)

// Own reports whether the gateway asks on its own account.
func (o Operation) Own() bool { return o == OperationCanary || o == OperationHealthCheck }

// CorrelationID is what all that the gateway asks of a target on its own account
// has in common, so that it can be found by it.
func (o Operation) CorrelationID(t Target) string {
	const longest = 128 // bytes, as of any correlation id
	id := string(o) + ":" + t.Key()
	return strings.ToValidUTF8(id[:min(len(id), longest)], "")
}

// Dialect is the shape of a request and its answer on the wire.
type Dialect string

// DialectOpenAI is the shape of OpenAI's chat completions API.
const DialectOpenAI Dialect = "openai"

// Target is one upstream model in one region: the unit of fallback, of health
// and of the circuit breaker.
type Target struct {
	Provider string
	Model    string
	Region   string
}

// Key returns the circuit key `provider/model/region`. Provider and region
// hold no slash, so the key splits at its first and its last one.
func (t Target) Key() string {
	return t.Provider + "/" + t.Model + "/" + t.Region
}

// ContextProvider stands in the circuit keys of context assemblers where those of
// targets have their provider: `context/configuration/default`. No provider can
// have this name.
const ContextProvider = "context"

// healthModel stands in the place of a model where a provider itself is meant.
const healthModel = "@health"

// HealthTarget is a provider itself, as its health checks see it.
func HealthTarget(provider, region string) Target {
	return Target{Provider: provider, Model: healthModel, Region: region}
}

// IsHealth reports whether the target is a provider itself.
func (t Target) IsHealth() bool { return t.Model == healthModel && t.Provider != ContextProvider }

// IsZero reports whether no target is named.
func (t Target) IsZero() bool { return t == Target{} }

// ParseTarget splits a circuit key at its first and its last slash. It reports
// false unless all three parts are there.
func ParseTarget(key string) (Target, bool) {
	first, last := strings.IndexByte(key, '/'), strings.LastIndexByte(key, '/')
	if first <= 0 || last <= first+1 || last == len(key)-1 {
		return Target{}, false
	}
	return Target{Provider: key[:first], Model: key[first+1 : last], Region: key[last+1:]}, true
}

// Call is one client request on its way through the pipeline. It is immutable
// but for Signals: a middleware that changes something passes on a copy, which
// shares Signals with the original.
type Call struct {
	RunID         uuid.UUID // version 7
	CorrelationID string
	TraceID       string // 32 hex digits, or empty
	Traceparent   string // what an upstream is sent, or empty
	ReceivedAt    time.Time

	Caller         Caller
	Operation      Operation
	Dialect        Dialect
	Configuration  string // empty for a direct target
	RequestedModel string // what the client wrote in "model"

	Body   []byte    // as it came; never modified
	Insert Insertion // what goes into the body on its way to a provider
	Facts  Facts     // of the body with what goes into it
	Codec  Codec     // of the dialect. The api sets it.

	Targets     []Target  // the candidates in configured order, without repeats
	FallbackOn  ClassSet  // classes whose failures lead to the next target
	Timeouts    Timeouts  // overrides of the providers' clocks; zero = theirs
	Deadline    time.Time // when request_timeout or the caller's own limit ends the call
	Target      Target    // the candidate in hand; set by fallback
	MoreTargets bool      // an untried candidate remains after Target

	// Admit asks whether the call may go to a target, and says how long an answer it
	// may ask for. Set by budget; nil = nothing is limited. Its error is an *Failure.
	Admit func(ctx context.Context, target Target) (Admission, error)
	// OutputLimit is what the target in hand is told to keep its answer under, in
	// tokens, because the client said nothing and a limit holds; 0 = nothing.
	OutputLimit int

	IdempotencyKey string       // empty = none was given
	CacheControl   CacheControl // of the response cache
	// Left ends when the client of a call with an idempotency key has left or its
	// own limit has passed, while the call itself goes on; nil without a key, whose
	// context ends with its client.
	Left *Departure

	// StatusOf returns the HTTP status that the client gets for an error, so
	// that telemetry can record it. The api sets it.
	StatusOf func(error) int
	// Deliver sends the client what is left of the answer to a call that has
	// succeeded, so that telemetry records whether the client got it. Returns the
	// *Failure of a client that could not be reached. The api sets it.
	Deliver func(*Result) error

	Signals *Signals
}

// Admission is what a target that is admitted has to keep to.
type Admission struct {
	OutputLimit int // tokens; 0 = what the client said, or nothing
}

// CacheControl is what the caller wants of the response cache, from
// X-Breakwater-Cache.
type CacheControl string

const (
	CacheNoStore CacheControl = "no-store" // neither looked up nor kept
	CacheRefresh CacheControl = "refresh"  // not looked up, but kept
)

// Departure tells of a client that nobody waits for any more.
type Departure struct {
	Done  <-chan struct{}
	Cause func() error // why, once Done is closed: one of the causes in this package
}

// WithTarget returns a copy of the call aimed at one of its candidates.
func (c *Call) WithTarget(t Target, more bool) *Call {
	next := *c
	next.Target, next.MoreTargets = t, more
	return &next
}

// Insertion is a text that a body gets at an offset; zero = none. The bytes on
// both sides stay as they are.
type Insertion struct {
	At   int
	Text []byte
}

// Codec does what is dialect-shaped in a middleware's job. A body that it is
// given is one whose facts were read.
type Codec interface {
	// UserText returns the text of the last message of the user; empty when there
	// is none.
	UserText(body []byte) string
	// SystemMessages returns what makes texts system messages in front of the
	// first message of the user, in their order. Without a message of the user
	// there is no such place, and the Insertion is zero.
	SystemMessages(body []byte, texts []string) Insertion

	// Canonical returns what two requests have in common that ask for the same;
	// false when that cannot be told.
	Canonical(body []byte) ([]byte, bool)
	// Answered says what a whole answer holds.
	Answered(body []byte) Answered
	// Events returns a whole answer as the events of a stream, each as it goes to a
	// client; false when a stream cannot say it.
	Events(body []byte, includeUsage bool) ([][]byte, bool)
	// Whole returns the events of a stream as a whole answer, with the usage that
	// they do not report themselves; false when it is not sure to be the same.
	Whole(events [][]byte, usage Usage) ([]byte, bool)
	// Message returns a whole answer of one text, from no model.
	Message(model, text string, now time.Time) []byte
	// Degraded returns a whole answer that says of itself it is a makeshift.
	Degraded(body []byte) []byte
}

// Answered is what a whole answer holds; its zero value is one that is no use to
// anybody else.
type Answered struct {
	Complete  bool // each choice says something, and came to its end
	ToolCalls bool // what the caller is to do next, rather than a text
	CutShort  bool // a choice ended for want of tokens
}

// Timeouts are the clocks of one attempt. A zero field means "not set here".
type Timeouts struct {
	Connect    time.Duration // dial and TLS
	FirstToken time.Duration // streams: until the first content event
	Idle       time.Duration // streams: between two reads after the first content
	Total      time.Duration // everything else: until the whole answer is read
}

// Or returns t with its unset fields taken from defaults.
func (t Timeouts) Or(defaults Timeouts) Timeouts {
	pick := func(own, fallback time.Duration) time.Duration {
		if own != 0 {
			return own
		}
		return fallback
	}
	return Timeouts{
		Connect:    pick(t.Connect, defaults.Connect),
		FirstToken: pick(t.FirstToken, defaults.FirstToken),
		Idle:       pick(t.Idle, defaults.Idle),
		Total:      pick(t.Total, defaults.Total),
	}
}

// Facts are what one scan of a request body finds out. They are read by the
// pipeline and by the providers instead of the body.
type Facts struct {
	Model        string
	Stream       bool
	IncludeUsage bool // the caller itself asked for usage in its stream
	TextBytes    int  // bytes of visible prompt text, for estimates
	ToolBytes    int  // bytes of what a model reads beside the messages: tools and the shape of its answer
	MaxOutput    int  // output token limit the caller gave; 0 = none
	MostOutput   int  // of two limits that the caller gave the larger, since servers differ in which they heed
	Choices      int  // how many answers the caller asks for at once; 0 = it did not say, which means one
	Media        int  // images and sounds among the messages
	Files        int  // files and films, which may hold anything
	MediaBytes   int  // of the body, what all of these take

	ModelSpan         Span // the value of "model"
	StreamOptionsSpan Span // the value of "stream_options"; zero when absent
	MaxTokensSpan     Span // the value of "max_tokens"; zero when absent
	MaxCompletionSpan Span // the value of "max_completion_tokens"; zero when absent
}

// Span is a byte range of a body, end exclusive.
type Span struct{ Start, End int }

// IsZero reports whether the span is absent.
func (s Span) IsZero() bool { return s == Span{} }
