package breaker

import (
	"fmt"
	"time"
)

// Why a call was refused.
const (
	ReasonCircuitOpen = "circuit_open" // the circuit is open
	ReasonProbing     = "probing"      // it is half-open and every probe is under way
)

// probingRetryAfter is the longest that a caller is asked to wait for the
// verdict of a probe (R31).
const probingRetryAfter = 5 * time.Second

// Refusal is the error of a call that was not admitted. Asking this key again
// before RetryAfter is in vain; another key may well answer (R6). Callers share
// it and must not write to it.
type Refusal struct {
	Key    string
	State  State
	Reason string // ReasonCircuitOpen, ReasonProbing, ReasonRamping or ReasonThrottled
	// RetryAfter is in whole seconds, rounded up, and at least one (R31); 0 when
	// nobody knows, since a person keeps the circuit open.
	RetryAfter time.Duration
	// Cause is the cause of the outcome that opened the circuit.
	Cause      string
	Generation uint64
}

// Error names the key, the state and the wait. It never grows by nesting.
func (r *Refusal) Error() string {
	if r.RetryAfter == 0 {
		return fmt.Sprintf("circuit %s is %s", r.Key, r.State)
	}
	return fmt.Sprintf("circuit %s is %s: retry after %v", r.Key, r.State, r.RetryAfter)
}

// wholeSeconds rounds up, to one second at least.
func wholeSeconds(d time.Duration) time.Duration {
	if rest := d % time.Second; rest > 0 {
		d = later(d-rest, time.Second)
	}
	return max(d, time.Second)
}
