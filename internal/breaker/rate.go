package breaker

// Rate is a share of calls in parts per million: rates are compared in whole
// numbers and nothing is rounded (R25).
type Rate uint32

// All is the rate at which every call fails.
const All Rate = 1_000_000

// RateTest says which side of its limit a rate opens on.
type RateTest uint8

const (
	// Above opens on more than the limit. A limit of All, which no rate is
	// above, opens when every call failed.
	Above RateTest = iota
	// AtLeast opens on the limit already.
	AtLeast
)

// String returns the name used in the configuration and the API.
func (t RateTest) String() string {
	if t == AtLeast {
		return "at_least"
	}
	return "above"
}

// samples are outcomes that say something about a target.
type samples struct{ calls, failures, slow uint64 }

// minCalls is how many outcomes it takes to speak of a rate: never more than
// the window can hold (R26).
func (s *Settings) minCalls() uint64 {
	if s.Window.Calls > 0 {
		return uint64(min(s.MinCalls, s.Window.Calls))
	}
	return uint64(s.MinCalls)
}

// exceeded lists the limits that these samples pass, that of failures first
// (T2, T3, R21).
func (s *Settings) exceeded(n samples) []string {
	var reasons []string
	if s.passes(s.FailureRate, n.failures, n.calls) {
		reasons = append(reasons, ReasonFailureRate)
	}
	if s.passes(s.SlowRate, n.slow, n.calls) {
		reasons = append(reasons, ReasonSlowRate)
	}
	return reasons
}

// passes reports whether so many among so many calls open; a limit of 0 means
// that no number does.
func (s *Settings) passes(limit Rate, some, calls uint64) bool {
	if limit == 0 || calls < s.minCalls() {
		return false
	}
	got, bound := some*uint64(All), calls*uint64(limit)
	return got > bound || got == bound && (s.RateTest == AtLeast || limit == All)
}

// safe reports whether no number of further successes that are not slow can
// make a rate exceed its limit where it does not now: they only ever lower a
// rate that is known, and one of nothing but successes is 0.
func (s *Settings) safe(n samples) bool {
	return n.calls >= s.minCalls() ||
		(s.FailureRate == 0 || n.failures == 0) && (s.SlowRate == 0 || n.slow == 0)
}
