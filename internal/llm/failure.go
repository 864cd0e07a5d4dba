package llm

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// FailureClass is the one vocabulary for failure: fallback, breaker,
// streaming, health, metrics and HTTP answers all read it. A failure is
// classified once: upstream failures by provider, our own refusals by pipeline.
type FailureClass string

// The classes, as in the class table below.
const (
	ClassConnection    FailureClass = "connection"    // no whole answer: dial, reset, our clocks, a cut stream
	ClassServerError   FailureClass = "server_error"  // the provider says that it failed
	ClassRateLimit     FailureClass = "rate_limit"    // too fast for our key
	ClassQuota         FailureClass = "quota"         // no credit left
	ClassAuth          FailureClass = "auth"          // our credentials are refused
	ClassConfiguration FailureClass = "configuration" // our set-up is wrong: model, path, feature
	ClassClientError   FailureClass = "client_error"  // the request itself is refused
	ClassCircuitOpen   FailureClass = "circuit_open"  // our own refusal: the circuit is open
	ClassSaturated     FailureClass = "saturated"     // our own refusal: the bulkhead is full
	ClassUnfit         FailureClass = "unfit"         // our own refusal: the request does not fit the target
	ClassBudgetDenied  FailureClass = "budget_denied" // our own refusal: a limit of the caller's or of the configuration's
	ClassIdempotency   FailureClass = "idempotency"   // our own refusal: of the whole call, by its idempotency key
	ClassCancelled     FailureClass = "cancelled"     // ended by the caller or by a clock of the whole request
	ClassUnknown       FailureClass = "unknown"       // anything else
)

// Outcome is what an attempt says about its target. There are three of an
// upstream that was asked, never two, and a fourth for one that was not.
type Outcome string

const (
	OutcomeSuccess Outcome = "success"
	OutcomeFailure Outcome = "failure" // counts against the circuit and the health
	OutcomeNeutral Outcome = "neutral" // says nothing about the provider
	OutcomeRefused Outcome = "refused" // the provider was not asked
)

// classTable says what a failure of each class does. Whatever counts as a
// failure of the target trips its circuit, and nothing else does.
var classTable = map[FailureClass]struct {
	movesOn bool // the next target is tried by default
	listed  bool // may be named in `fallback_on`; our own refusals may not
	outcome Outcome
}{
	ClassConnection:    {movesOn: true, listed: true, outcome: OutcomeFailure},
	ClassServerError:   {movesOn: true, listed: true, outcome: OutcomeFailure},
	ClassRateLimit:     {movesOn: true, listed: true, outcome: OutcomeFailure},
	ClassQuota:         {movesOn: true, listed: true, outcome: OutcomeFailure},
	ClassAuth:          {movesOn: false, listed: true, outcome: OutcomeNeutral},
	ClassConfiguration: {movesOn: false, listed: true, outcome: OutcomeNeutral},
	ClassClientError:   {movesOn: false, listed: false, outcome: OutcomeNeutral},
	ClassCircuitOpen:   {movesOn: true, listed: false, outcome: OutcomeRefused},
	ClassSaturated:     {movesOn: true, listed: false, outcome: OutcomeRefused},
	ClassUnfit:         {movesOn: true, listed: false, outcome: OutcomeRefused},
	ClassBudgetDenied:  {movesOn: true, listed: false, outcome: OutcomeRefused},
	ClassIdempotency:   {movesOn: false, listed: false, outcome: OutcomeNeutral},
	ClassCancelled:     {movesOn: false, listed: false, outcome: OutcomeNeutral},
	ClassUnknown:       {movesOn: false, listed: false, outcome: OutcomeNeutral},
}

// Classes returns every failure class, in the order of the table in DESIGN
// section 4; metrics initialise their labels from it.
func Classes() []FailureClass {
	return []FailureClass{
		ClassConnection, ClassServerError, ClassRateLimit, ClassQuota, ClassAuth, ClassConfiguration,
		ClassClientError, ClassCircuitOpen, ClassSaturated, ClassUnfit, ClassBudgetDenied, ClassIdempotency,
		ClassCancelled, ClassUnknown,
	}
}

// Refusal reports whether the class is one of our own refusals: they always
// lead to the next target.
func (c FailureClass) Refusal() bool { return classTable[c].outcome == OutcomeRefused }

// Reason is the closed list of `failure_reason` values.
type Reason string

const (
	ReasonConnectTimeout     Reason = "connect_timeout"
	ReasonFirstTokenTimeout  Reason = "ttft_timeout"
	ReasonIdleTimeout        Reason = "idle_timeout"
	ReasonTotalTimeout       Reason = "total_timeout"
	ReasonDNS                Reason = "dns_error"
	ReasonTLS                Reason = "tls_error"
	ReasonRefused            Reason = "connection_refused"
	ReasonReset              Reason = "connection_reset"
	ReasonTruncated          Reason = "truncated_stream"
	ReasonMalformed          Reason = "malformed_stream"
	ReasonStreamError        Reason = "stream_error"
	ReasonEmptyBody          Reason = "empty_body"
	ReasonInvalidBody        Reason = "invalid_body"
	ReasonUnexpectedAnswer   Reason = "unexpected_answer"
	ReasonOversizedEvent     Reason = "oversized_event"
	ReasonUpstreamStatus     Reason = "upstream_status"
	ReasonOverloaded         Reason = "overloaded"
	ReasonRateLimited        Reason = "rate_limited"
	ReasonQuotaExhausted     Reason = "quota_exhausted"
	ReasonInvalidCredentials Reason = "invalid_credentials"
	ReasonForbidden          Reason = "forbidden"
	ReasonModelNotFound      Reason = "model_not_found"
	ReasonUnsupported        Reason = "unsupported"
	ReasonRedirected         Reason = "redirected"
	ReasonInvalidRequest     Reason = "invalid_request"
	ReasonContentFilter      Reason = "content_filter"
	ReasonContextLength      Reason = "context_length"
	ReasonClientLeft         Reason = "client_left"
	ReasonSlowReader         Reason = "slow_reader"
	ReasonCallerTimeout      Reason = "caller_timeout"
	ReasonRequestTimeout     Reason = "request_timeout"
	ReasonMaxStream          Reason = "max_stream"
	ReasonShutdown           Reason = "shutdown"
	ReasonCircuitOpen        Reason = "circuit_open"
	ReasonProbing            Reason = "probing"
	ReasonRamping            Reason = "ramping"   // a target that has just recovered is spared
	ReasonThrottled          Reason = "throttled" // a target that answers few calls is spared
	ReasonRollup             Reason = "rollup"    // its whole provider is left alone
	ReasonBulkheadFull       Reason = "bulkhead_full"
	ReasonContextWindow      Reason = "context_window"
	ReasonBudgetExceeded     Reason = "budget_exceeded"     // a limit of a day or a month
	ReasonRateLimitExceeded  Reason = "rate_limit_exceeded" // a limit of a minute, or of calls at once
	ReasonUnpricedModel      Reason = "unpriced_model"      // what it costs is unknown, and a cost limit holds
	ReasonKeyInProgress      Reason = "idempotency_in_progress"
	ReasonKeyReused          Reason = "idempotency_key_reused"
	ReasonAnswerTooLarge     Reason = "idempotency_answer_too_large" // it was made, and is not kept
	ReasonReplayUnavailable  Reason = "idempotency_unavailable"      // nobody can tell whether the call was made before
	ReasonPanic              Reason = "panic"
)

// Failure is one classified failure of one target.
type Failure struct {
	Class  FailureClass
	Reason Reason
	Target Target

	// Status is the upstream's HTTP status, also of an error inside a 200; 0
	// when none was received.
	Status int
	// RetryAfter is how long the upstream, or an open circuit, asks to be left
	// alone; 0 when it did not say.
	RetryAfter time.Duration
	// Unsent reports that the request cannot have been processed: it failed
	// before it was sent.
	Unsent bool
	// OtherCredential reports that the failure is that of one credential of
	// several, and that the same request may go out at once under another.
	OtherCredential bool
	// Refusal is what befell the credential, when there are several; nil when
	// nothing did.
	Refusal *CredentialRefusal
	// OpenedBy is the class that opened the circuit, for ClassCircuitOpen.
	OpenedBy FailureClass
	// Latency is how long the failed send took.
	Latency time.Duration

	// Denial is which limit refused, for ClassBudgetDenied only; nil for a target
	// without a price.
	Denial *Denial
	// Upstream is what the provider said, for ClassClientError only.
	Upstream *UpstreamError
	// Err is the cause, for the log; never shown to a client.
	Err error
}

// CredentialRefusal is the failure of one credential among several of a provider.
type CredentialRefusal struct {
	Credential int // counted from 1, in the order of the configuration
	Class      FailureClass
	Reason     Reason
}

// UpstreamError is a provider's own refusal of a request, without any secret.
type UpstreamError struct {
	Type, Code, Param, Message string
	// Body is the error as JSON in the client's dialect when it may be passed
	// on as it came, else nil.
	Body []byte
}

// Error names the target, the class and the reason. It holds no text from an
// upstream, so that it may be logged and stored.
func (f *Failure) Error() string {
	var b strings.Builder
	if !f.Target.IsZero() {
		b.WriteString(f.Target.Key() + ": ")
	}
	b.WriteString(string(f.Class))
	if f.Reason != "" {
		b.WriteString(" (" + string(f.Reason) + ")")
	}
	if f.Status != 0 {
		fmt.Fprintf(&b, ", status %d", f.Status)
	}
	return b.String()
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Outcome says what the failure means for its target. A 425 is no fault of the
// provider although it is a failed connection to us, nor is what another
// credential does not suffer; a panic counts against the target on which it
// happened, although it has no class of its own (R13).
func (f *Failure) Outcome() Outcome {
	switch {
	case f.Status == 425, f.OtherCredential:
		return OutcomeNeutral
	case f.Reason == ReasonPanic:
		return OutcomeFailure
	default:
		return classTable[f.Class].outcome
	}
}

// Trips reports whether the failure counts against the target's circuit.
func (f *Failure) Trips() bool { return f.Outcome() == OutcomeFailure }

// AsFailure finds the failure in an error. An exhausted fallback is
// represented by its last failure, anything unclassified by ClassUnknown; nil
// gives nil.
func AsFailure(err error) *Failure {
	if err == nil {
		return nil
	}
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return &Failure{Class: ClassUnknown, Err: err}
}

// FallbackOnContextLength may stand in a ClassSet beside the classes: it moves
// on only those client errors that say the request is too long for the model.
const FallbackOnContextLength FailureClass = "context_length"

// ClassSet is a set of failure classes.
type ClassSet map[FailureClass]bool

// DefaultFallback returns the classes that lead to the next target when a
// configuration does not say otherwise.
func DefaultFallback() ClassSet {
	set := ClassSet{}
	for class, traits := range classTable {
		if traits.listed && traits.movesOn {
			set[class] = true
		}
	}
	return set
}

// FallbackClass reports whether a configuration may name the class in
// `fallback_on`.
func FallbackClass(name string) (FailureClass, bool) {
	class := FailureClass(name)
	return class, class == FallbackOnContextLength || classTable[class].listed
}

// MovesOn reports whether the failure leads to the next target. Our own
// refusals do, but for a rate limit of the caller's, which no target is under;
// the set decides about the rest.
func (s ClassSet) MovesOn(f *Failure) bool {
	if f.Reason == ReasonRateLimitExceeded {
		return false
	}
	if f.Class == ClassClientError && f.Reason == ReasonContextLength {
		return s[FallbackOnContextLength]
	}
	return f.Class.Refusal() || s[f.Class]
}

// ExhaustedError says that every candidate of a call failed.
type ExhaustedError struct {
	Failures []*Failure // in the order in which the targets were tried
}

// Error lists the targets in order and what each answered.
func (e *ExhaustedError) Error() string {
	parts := make([]string, len(e.Failures))
	for i, f := range e.Failures {
		parts[i] = fmt.Sprintf("%s after %s", f.Error(), f.Latency.Round(time.Millisecond))
	}
	return fmt.Sprintf("all %d targets failed: %s", len(e.Failures), strings.Join(parts, " -> "))
}

// Unwrap returns the last failure, so that errors.As finds its class.
func (e *ExhaustedError) Unwrap() error {
	if len(e.Failures) == 0 {
		return nil
	}
	return e.Failures[len(e.Failures)-1]
}
