package provider

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/breakwater-llm/breakwater/internal/wire"
)

// maxRetryAfter bounds a hint; what a circuit honours is the breaker's policy.
const maxRetryAfter = 24 * time.Hour

// retryAfter returns how long an upstream asks to be left alone: in
// milliseconds, else in seconds or as a date, else in the body. What cannot be
// read or lies in the past is no hint: 0.
func retryAfter(header http.Header, c wire.Complaint, now time.Time) time.Duration {
	if d, ok := number(header.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	value := header.Get("Retry-After")
	if d, ok := number(value, time.Second); ok {
		return d
	}
	if at, err := http.ParseTime(value); err == nil {
		return clamp(at.Sub(sentAt(header, now)))
	}
	return clamp(c.RetryAfter)
}

// number reads a wait of zero or more. What only a parser takes for a number,
// such as Infinity, is none.
func number(value string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
		return 0, false
	}
	return time.Duration(min(n*float64(unit), float64(maxRetryAfter))), true
}

// sentAt is when the upstream answered by its own clock, which is the one its
// dates go by.
func sentAt(header http.Header, now time.Time) time.Time {
	if at, err := http.ParseTime(header.Get("Date")); err == nil {
		return at
	}
	return now
}

func clamp(d time.Duration) time.Duration {
	return min(max(d, 0), maxRetryAfter)
}
