package pipeline

import (
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// bytesPerToken is how many bytes of text are taken for one token.
const bytesPerToken = 4

// SlowCall is how long a call may take until it is slow, by the size of its
// request (R20).
type SlowCall struct {
	Base                    time.Duration
	Per1kInput, Per1kOutput time.Duration // for each thousand tokens
	Max                     time.Duration // 0 = no limit
}

// After returns the time for one request.
func (s SlowCall) After(f llm.Facts) time.Duration {
	after := float64(s.Base) +
		float64(s.Per1kInput)*float64(f.TextBytes)/(1000*bytesPerToken) +
		float64(s.Per1kOutput)*float64(f.MaxOutput)/1000
	if s.Max > 0 {
		after = min(after, float64(s.Max))
	}
	const century = 100 * 365 * 24 * time.Hour
	return time.Duration(min(after, float64(century)))
}
