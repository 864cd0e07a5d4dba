package breaker

import (
	"math"
	"time"
)

// timeWindow is a ring of buckets. All circuits of a registry share the origin
// of their buckets, the zero of its clock.
type timeWindow struct {
	width   time.Duration
	current int64 // number of the bucket that is filled now
	buckets []bucket
	sum     samples // of all buckets
}

// bucket counts are saturating (R28).
type bucket struct{ calls, failures, slow uint32 }

func newTimeWindow(span time.Duration, buckets int) *timeWindow {
	width := (span-1)/time.Duration(buckets) + 1
	return &timeWindow{width: width, buckets: make([]bucket, buckets)}
}

func (w *timeWindow) slide(now time.Duration) {
	for range w.behind(now) {
		w.current++
		w.sum = w.sum.without(*w.bucket(w.current))
		*w.bucket(w.current) = bucket{}
	}
	w.current = max(w.current, int64(now/w.width))
}

// behind is how many buckets have to make room for those up to now.
func (w *timeWindow) behind(now time.Duration) int64 {
	return min(max(0, int64(now/w.width)-w.current), int64(len(w.buckets)))
}

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

func (w *timeWindow) counts(now time.Duration) samples {
	sum := w.sum
	for i := range w.behind(now) {
		sum = sum.without(*w.bucket(w.current + 1 + i))
	}
	return sum
}

func (w *timeWindow) steady() time.Duration {
	return later(time.Duration(w.current)*w.width, w.width)
}

func (w *timeWindow) forgotten(now time.Duration) bool { return w.counts(now).calls == 0 }

func (w *timeWindow) clear() {
	clear(w.buckets)
	w.sum = samples{}
}

func (n samples) without(b bucket) samples {
	return samples{calls: n.calls - uint64(b.calls), failures: n.failures - uint64(b.failures), slow: n.slow - uint64(b.slow)}
}
