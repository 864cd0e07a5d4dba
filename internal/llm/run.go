package llm

import (
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"
)

// Run is one client call as telemetry records it: one row of telemetry_runs.
// It never holds a prompt, an answer, a header, a credential or an upstream's
// words. A pointer that is nil means "not measured", which is not zero.
type Run struct {
	RunID         uuid.UUID
	CorrelationID string
	TraceID       string
	StartedAt     time.Time
	FinishedAt    time.Time
	UsageDay      time.Time // for which it counts in usage; zero = that of StartedAt where usage is written

	APIKeyID       string
	Operation      Operation
	Dialect        Dialect
	Configuration  string
	RequestedModel string
	Served         Target // zero when no target answered

	Outcome       RunOutcome
	FailureClass  FailureClass
	FailureReason Reason
	HTTPStatus    int

	Latency  time.Duration
	Overhead time.Duration // Latency less the time spent in upstreams and waits
	TTFT     *time.Duration
	Streamed bool
	Degraded Degradation // empty = the client got all that it should

	CacheHit         bool // the answer came from the response cache
	IdempotentReplay bool // the answer is that of an earlier call under the same key

	Attempts []Attempt
}

// RunOutcome is how a call ended for its client.
type RunOutcome string

const (
	RunSuccess   RunOutcome = "success"
	RunFailure   RunOutcome = "failure"
	RunCancelled RunOutcome = "cancelled"
	RunDenied    RunOutcome = "denied" // a limit refused it
)

// Degradation is what an answer had to do without; the `degraded` of the
// telemetry tables and of the header.
type Degradation string

const (
	// DegradedContext is an answer without the context that its configuration asks
	// for.
	DegradedContext Degradation = "context"
	// DegradedStale is an answer from the cache, past its time, in place of one that
	// no target gave.
	DegradedStale Degradation = "stale"
	// DegradedMessage is a text of the operator's in place of an answer.
	DegradedMessage Degradation = "message"
)

// Attempt is one permit or refusal on one target: one row of
// telemetry_attempts. Retries in place are counted, they are not attempts.
type Attempt struct {
	Target     Target
	StartedAt  time.Time
	FinishedAt time.Time

	Outcome        Outcome
	FailureClass   FailureClass
	FailureReason  Reason
	UpstreamStatus int  // 0 = none received
	Reached        bool // an upstream was asked

	Latency *time.Duration // of the last send
	TTFT    *time.Duration
	Slow    bool
	Retries int

	Credential int // which of several the last send went under, from 1; 0 = there is one
	Refusals   []CredentialRefusal

	CircuitState      string // as the attempt found it; empty when the breaker is off
	CircuitGeneration uint64
	Probe             Probe

	Usage    Usage            // of all its sends
	Cost     *decimal.Decimal // USD; nil = no usage or no price
	Unpriced bool             // usage is known, a price is not

	// Sends are those that reported something, and the last one, where one before the
	// last did: Usage and Cost are then their sums. Else there are none.
	Sends []Sent

	// Unreported is what limits have counted beyond Usage and Cost, since no provider
	// said what the attempt used. Zero where the report is whole or nothing is limited.
	Unreported Amount
}

// Sent is what one send of an attempt has used.
type Sent struct {
	Usage Usage
	Cost  *decimal.Decimal // USD; nil = no usage or no price
}

// Probe is for whose sake an attempt was made, where that is not its caller's
// alone; empty where it is.
type Probe string

const (
	ProbeCall        Probe = "probe"        // a call, which also says whether its target is well again
	ProbeCanary      Probe = "canary"       // a call of ours that says the same
	ProbeHealthCheck Probe = "health_check" // of a provider itself
)

// Signals is the scratchpad of one call: middlewares write it, telemetry reads
// it. It belongs to the goroutine that runs the call.
type Signals struct {
	Attempts     []Attempt
	Committed    bool          // the client has been sent part of a stream
	FirstContent time.Time     // when the first content event went up
	UpstreamTime time.Duration // spent in upstreams and helpers, and in waits for them
	Degraded     Degradation   // what the answer has to do without

	CacheResult      CacheResult // empty = the response cache was not asked
	KeptFrom         Target      // of an answer that was there already: who once gave it
	IdempotentReplay bool
	OriginalRun      string     // of a replay: the run that made the answer
	Standings        []Standing // the rate limits on the call
	OutputLimited    bool       // a target was asked for a shorter answer than the client asked for, since a limit holds
}

// CacheResult is what the response cache had; the header X-Breakwater-Cache.
type CacheResult string

const (
	CacheHit   CacheResult = "hit"
	CacheMiss  CacheResult = "miss"
	CacheStale CacheResult = "stale"
)

// Attempt returns the attempt in hand, the last one opened.
func (s *Signals) Attempt() *Attempt { return &s.Attempts[len(s.Attempts)-1] }

// InHand returns the target whose answer the client is being given; zero when it
// is nobody's.
func (s *Signals) InHand() Target {
	switch {
	case s.IdempotentReplay, s.CacheResult == CacheHit, s.CacheResult == CacheStale:
		return s.KeptFrom
	case s.Degraded == DegradedMessage, len(s.Attempts) == 0:
		return Target{}
	default:
		return s.Attempt().Target
	}
}

// Open starts a new attempt on a target.
func (s *Signals) Open(target Target, now time.Time) *Attempt {
	s.Attempts = append(s.Attempts, Attempt{Target: target, StartedAt: now})
	return s.Attempt()
}

// Reached counts the attempts that asked an upstream.
func (s *Signals) Reached() int {
	n := 0
	for i := range s.Attempts {
		if s.Attempts[i].Reached {
			n++
		}
	}
	return n
}
