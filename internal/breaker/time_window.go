package breaker

import (
	"math"
	"time"
)

// timeWindow is a ring of buckets. All circuits of a registry share the origin
// of their buckets, the zero of its clock.
type timeWindow struct {
	width   time.Duration
	origin  time.Duration // what the clock of the buckets is ahead of ours
	current int64         // number of the bucket that is filled now
	buckets []bucket
	sum     samples // of all buckets
}

// bucket counts are saturating (R28).
type bucket struct{ calls, failures, slow uint32 }

func newTimeWindow(span time.Duration, buckets int) *timeWindow {
	return &timeWindow{width: Window{Span: span, Buckets: buckets}.width(), buckets: make([]bucket, buckets)}
}

// rewind makes the newest bucket that of a time before it, when the clock was
// set back; it reports whether it was.
func (w *timeWindow) rewind(now time.Duration) bool {
	back := w.current - w.number(now)
	if back <= 0 {
		return false
	}
	was := *w
	w.buckets, w.current, w.sum = make([]bucket, len(was.buckets)), was.current-back, samples{}
	for age := range min(int64(len(was.buckets)), w.current+1) {
		b := *was.bucket(was.current - age)
		*w.bucket(w.current - age) = b
		w.sum = w.sum.with(b)
	}
	return true
}

func (w *timeWindow) slide(now time.Duration) {
	for range w.behind(now) {
		w.current++
		w.sum = w.sum.without(*w.bucket(w.current))
		*w.bucket(w.current) = bucket{}
	}
	w.current = max(w.current, w.number(now))
}

// behind is how many buckets have to make room for those up to now.
func (w *timeWindow) behind(now time.Duration) int64 {
	return min(max(0, w.number(now)-w.current), int64(len(w.buckets)))
}

func (w *timeWindow) number(now time.Duration) int64 { return int64(later(now, w.origin) / w.width) }

func (w *timeWindow) bucket(number int64) *bucket {
	return &w.buckets[number%int64(len(w.buckets))]
}

func (w *timeWindow) succeed(n uint64) {
	b := w.bucket(w.current)
	n = min(n, uint64(math.MaxUint32-b.calls))
	b.calls += uint32(n)
	w.sum.calls += n
}

// add returns the number of the bucket.
func (w *timeWindow) add(failed, slow bool) int64 {
	b := w.bucket(w.current)
	if b.calls == math.MaxUint32 {
		return w.current
	}
	b.calls++
	w.sum.calls++
	if failed {
		b.failures++
		w.sum.failures++
	}
	if slow {
		b.slow++
		w.sum.slow++
	}
	return w.current
}

// blame needs no n: the outcomes of a bucket are alike.
func (w *timeWindow) blame(mark int64, _ int) bool {
	b := w.bucket(mark)
	if mark <= w.current-int64(len(w.buckets)) || b.failures == b.calls {
		return false
	}
	b.failures++
	w.sum.failures++
	return true
}

func (w *timeWindow) merge(d *delta) {
	b := w.bucket(w.current)
	was := *b
	b.calls = saturating(b.calls, d.calls, math.MaxUint32)
	b.failures = saturating(b.failures, d.failures, b.calls)
	b.slow = saturating(b.slow, d.slow, b.calls)
	w.sum = w.sum.without(was).with(*b)
	left := d.blamed
	for i := range int64(len(w.buckets)) {
		if w.current < i {
			return
		}
		b := w.bucket(w.current - i)
		n := min(left, uint64(b.calls-b.failures))
		b.failures += uint32(n)
		w.sum.failures += n
		left -= n
	}
}

// saturating adds n and stops at most (R28).
func saturating(to uint32, n uint64, most uint32) uint32 {
	return to + uint32(min(n, uint64(most-to)))
}

func (w *timeWindow) counts(now time.Duration) samples {
	sum := w.sum
	for i := range w.behind(now) {
		sum = sum.without(*w.bucket(w.current + 1 + i))
	}
	return sum
}

func (w *timeWindow) steady() time.Duration {
	return later(time.Duration(w.current)*w.width, w.width) - w.origin
}

func (w *timeWindow) forgotten(now time.Duration) bool { return w.counts(now).calls == 0 }

func (w *timeWindow) clear() {
	clear(w.buckets)
	w.sum = samples{}
}

func (n samples) with(b bucket) samples {
	return samples{calls: n.calls + uint64(b.calls), failures: n.failures + uint64(b.failures), slow: n.slow + uint64(b.slow)}
}

func (n samples) without(b bucket) samples {
	return samples{calls: n.calls - uint64(b.calls), failures: n.failures - uint64(b.failures), slow: n.slow - uint64(b.slow)}
}
