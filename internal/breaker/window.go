package breaker

import (
	"math"
	"time"
)

// Window says over which outcomes a rate is taken (R23). It is either a number
// of calls, or a time in buckets.
type Window struct {
	// Calls > 0: the last so many outcomes, however old.
	Calls int
	// Otherwise those of the last Span, which slides on by one of so many
	// Buckets at a time. A Span that is no multiple of its buckets is rounded
	// up.
	Span    time.Duration
	Buckets int
}

// width is that of a bucket, in whole microseconds, rounded up.
func (w Window) width() time.Duration {
	const unit = time.Microsecond
	return ((w.Span-1)/(time.Duration(w.Buckets)*unit) + 1) * unit
}

// window counts outcomes and forgets them as time passes or others follow. An
// outcome belongs to the time at which its call ended, not began.
type window interface {
	// slide brings the window to a point in time, which others then read or
	// add to. Going back in time does nothing (R42).
	slide(now time.Duration)
	succeed(n uint64)
	// add counts one outcome and returns where it is.
	add(failed, slow bool) (mark int64)
	// blame makes a failure of the outcome that is n after the marked one. It
	// returns false when the window shows it no more.
	blame(mark int64, n int) bool
	// counts are what it shows at a time, at or after the last slide.
	counts(now time.Duration) samples
	// merge adds what was seen elsewhere to what it holds now.
	merge(d *delta)
	// steady is until when it forgets nothing but to make room.
	steady() time.Duration
	// forgotten reports whether what it holds has no meaning any more once
	// the circuit was idle until now (R39).
	forgotten(now time.Duration) bool
	clear()
}

// forever is the end of time.
const forever time.Duration = math.MaxInt64

func newWindow(w Window) window {
	if w.Calls > 0 || w.Buckets == 0 {
		return newCountWindow(w.Calls)
	}
	return newTimeWindow(w.Span, w.Buckets)
}
