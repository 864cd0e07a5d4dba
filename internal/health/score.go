package health

import "time"

const (
	successWeight = 0.8
	latencyWeight = 0.2
	// neutral is the score by which a target without data is ordered. It is
	// never shown: nobody has measured it.
	neutral = 0.5
)

// Stats are the attempts of one target, or of one provider, that reached a
// verdict within the window. A latency that is nil was not measured.
type Stats struct {
	Samples     int64
	Successes   int64
	LatencyMean *time.Duration // over successes
	LatencyP50  *time.Duration
	LatencyP99  *time.Duration
	TTFTP50     *time.Duration
}

// SuccessRate returns the share of successes, and false when there is no data.
func (s Stats) SuccessRate() (rate float64, known bool) {
	if s.Samples == 0 {
		return 0, false
	}
	return float64(s.Successes) / float64(s.Samples), true
}

// Score rates the stats from 0 to 1, and reports false when there is no data:
// the success rate makes four fifths of it, the mean latency against the
// ceiling the rest. Without a measured latency there is no penalty for it.
func (s Stats) Score(ceiling time.Duration) (score float64, known bool) {
	rate, known := s.SuccessRate()
	if !known {
		return 0, false
	}
	return successWeight*rate + latencyWeight*(1-s.penalty(ceiling)), true
}

func (s Stats) penalty(ceiling time.Duration) float64 {
	if s.LatencyMean == nil || ceiling <= 0 {
		return 0
	}
	return min(1, float64(*s.LatencyMean)/float64(ceiling))
}
