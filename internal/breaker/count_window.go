package breaker

import "time"

// countWindow is a ring of the last outcomes, one bit each.
type countWindow struct {
	size   int
	failed []uint64 // bits; those that were not written yet are 0
	next   int      // where the next outcome goes
	sum    samples
}

func newCountWindow(size int) *countWindow {
	return &countWindow{size: size, failed: make([]uint64, (size+63)/64)}
}

// slide does nothing: only outcomes move a count window.
func (w *countWindow) slide(time.Duration) {}

func (w *countWindow) succeed(n uint64) {
	for range min(n, uint64(w.size)) { // more would only overwrite each other
		w.push(0)
	}
}

func (w *countWindow) fail() { w.push(1) }

// push replaces the oldest outcome once the ring is full.
func (w *countWindow) push(failed uint64) {
	word, bit := &w.failed[w.next/64], w.next%64
	w.sum.failures += failed - *word>>bit&1
	*word = *word&^(1<<bit) | failed<<bit
	w.sum.calls = min(w.sum.calls+1, uint64(w.size))
	if w.next++; w.next == w.size {
		w.next = 0
	}
}

func (w *countWindow) counts(time.Duration) samples { return w.sum }

func (w *countWindow) steady() time.Duration { return forever }

// forgotten is true: a circuit that was idle for long begins anew, however many
// of its last calls failed.
func (w *countWindow) forgotten(time.Duration) bool { return true }

func (w *countWindow) clear() {
	clear(w.failed)
	w.next, w.sum = 0, samples{}
}
