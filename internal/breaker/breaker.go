// Package breaker keeps one circuit per key: it lets calls through while their
// target is well, refuses them while it is not, and finds out with a few
// probes when it is well again. It knows neither what a call is nor what a key
// stands for: the caller says which key a call belongs to and what its end
// means, success, failure or neutral. It must not know HTTP, providers,
// databases or wall clocks.
//
// The rules are in the pure core (machine.go, counting.go, episode.go, streak.go,
// rate.go, window.go, watch.go, cooldown.go, command.go): state and input and now
// give the next state and at most one transition. The shell (registry.go,
// circuit.go, gate.go, tab.go, permit.go, sweep.go) holds the clock, the locks and
// the one ticker. A closed circuit admits a call with one atomic load and counts
// its success with one atomic add.
//
// Circuits that replicas share are records in a store (record.go, packed.go). One
// script takes every step on them, in Lua on a server (circuit.lua) and, by the
// very rules of the core, in Go (script.go). A replica (replica.go) decides by its
// copy and tells the store what its calls came to (delta.go, link.go), takes what
// the store answers (absorb.go), and asks it before a probe goes (shared.go).
//
// canary.go, sparing.go and rollup.go keep calls from targets that are not well
// yet. Rule numbers (R8) and transitions (T6) in comments are those of the
// breaker's specification.
package breaker

import "time"

// State is what a circuit does with calls.
type State uint8

const (
	Closed   State = iota // admits every call
	Open                  // refuses every call until its time is up
	HalfOpen              // admits a few probes and refuses the rest

	// The rest are set by a person and left by a command, or when their time is
	// up.
	ForcedOpen // refuses every call
	Disabled   // admits every call and records nothing
	Shadow     // admits every call, and tells when it would have opened

	states // how many there are
)

// String returns the name used in telemetry, metrics and the API.
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half_open"
	case ForcedOpen:
		return "forced_open"
	case Disabled:
		return "disabled"
	case Shadow:
		return "shadow"
	default:
		return "invalid"
	}
}

// operated reports whether a person has set the state.
func (s State) operated() bool { return s == ForcedOpen || s == Disabled || s == Shadow }

// counts reports whether the ends of calls are counted in a window.
func (s State) counts() bool { return s == Closed || s == Shadow }

// Kind is what the end of a call says about its target. There are three,
// because a caller who left or a bad request says nothing.
type Kind uint8

const (
	Neutral Kind = iota // says nothing: neither trips, nor resets, nor closes
	Success
	Failure
)

// Outcome is the end of one call.
type Outcome struct {
	Kind Kind
	// Cause is the caller's word for a failure; refusals, snapshots and events
	// carry it.
	Cause string
	// GaveUp says of a neutral end that the caller left before the answer. If
	// the call had become slow by then, that is no secret (R16).
	GaveUp bool
	// OpenFor > 0 opens the circuit for exactly that long (T4), whatever the
	// counters say, up to Settings.MaxRetryAfter.
	OpenFor time.Duration
	// At is when the call ended, by Registry.Now; 0 lets the circuit read the
	// clock itself, where it needs to.
	At time.Duration
	// Took is how long the call lasted. A failure streak decays by the time
	// that passes without a call, so slow failures need it to add up (R27).
	Took time.Duration
}

// Settlement is what became of an outcome.
type Settlement uint8

const (
	Applied Settlement = iota // it counted
	Stale                     // the circuit has moved on since the call was admitted; it only went into a counter (R8)
	Expired                   // the probe outlived its lease, and its end was what showed it (T16)
	Ignored                   // second Done, or a permit without a circuit behind it
)

// String names the settlement for logs and metrics.
func (s Settlement) String() string {
	switch s {
	case Applied:
		return "applied"
	case Stale:
		return "stale"
	case Expired:
		return "expired"
	default:
		return "ignored"
	}
}
