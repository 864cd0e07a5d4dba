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
type samples struct{ calls, failures uint64 }

// minCalls is how many outcomes it takes to speak of a rate: never more than
// the window can hold (R26).
func (s *Settings) minCalls() uint64 {
	if s.Window.Calls > 0 {
		return uint64(min(s.MinCalls, s.Window.Calls))
	}
	return uint64(s.MinCalls)
}

// rateExceeded reports whether so many failures among so many calls open (T2).
func (s *Settings) rateExceeded(n samples) bool {
	if s.FailureRate == 0 || n.calls < s.minCalls() {
		return false
	}
	got, limit := n.failures*uint64(All), n.calls*uint64(s.FailureRate)
	return got > limit || got == limit && (s.RateTest == AtLeast || s.FailureRate == All)
}

// safe reports whether no number of further successes can make the rate exceed
// its limit where it does not now: they only ever lower a rate that is known,
// and one of nothing but successes is 0.
func (s *Settings) safe(n samples) bool {
	return s.FailureRate == 0 || n.failures == 0 || n.calls >= s.minCalls()
}
