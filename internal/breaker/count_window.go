package breaker

import "time"

// countWindow is a ring of the last outcomes, two bits each.
type countWindow struct {
	size         int
	failed, slow bits
	pushed       int64 // outcomes since it was empty
	sum          samples
}

// bits of the ring; those that were not written yet are 0.
type bits []uint64

func (b bits) get(i int64) uint64 { return b[i/64] >> (i % 64) & 1 }

func (b bits) set(i int64, value uint64) { b[i/64] = b[i/64]&^(1<<(i%64)) | value<<(i%64) }

func newCountWindow(size int) *countWindow {
	words := (size + 63) / 64
	return &countWindow{size: size, failed: make(bits, words), slow: make(bits, words)}
}

// slide does nothing: only outcomes move a count window.
func (w *countWindow) slide(time.Duration) {}

func (w *countWindow) succeed(n uint64) {
	for range min(n, uint64(w.size)) { // more would only overwrite each other
		w.add(false, false)
	}
}

// add replaces the oldest outcome once the ring is full. It returns the number
// of the outcome.
func (w *countWindow) add(failed, slow bool) int64 {
	at := w.pushed % int64(w.size)
	w.sum.failures += bit(failed) - w.failed.get(at)
	w.sum.slow += bit(slow) - w.slow.get(at)
	w.failed.set(at, bit(failed))
	w.slow.set(at, bit(slow))
	w.sum.calls = min(w.sum.calls+1, uint64(w.size))
	w.pushed++
	return w.pushed - 1
}

func (w *countWindow) blame(mark int64, n int) bool {
	mark += int64(n)
	if w.pushed-mark > int64(w.size) {
		return false
	}
	at := mark % int64(w.size)
	w.sum.failures += 1 - w.failed.get(at)
	w.failed.set(at, 1)
	return true
}

func (w *countWindow) merge(d *delta) {
	for _, o := range d.outcomes {
		w.add(o&failedBit != 0, o&slowBit != 0)
	}
	left := d.blamed
	for i := w.pushed - 1; left > 0 && i >= max(0, w.pushed-int64(w.size)); i-- {
		at := i % int64(w.size)
		if w.slow.get(at) == 1 && w.failed.get(at) == 0 {
			w.failed.set(at, 1)
			w.sum.failures++
			left--
		}
	}
}

func bit(set bool) uint64 {
	if set {
		return 1
	}
	return 0
}

func (w *countWindow) counts(time.Duration) samples { return w.sum }

func (w *countWindow) steady() time.Duration { return forever }

// forgotten is true: a circuit that was idle for long begins anew, however many
// of its last calls failed.
func (w *countWindow) forgotten(time.Duration) bool { return true }

func (w *countWindow) clear() {
	clear(w.failed)
	clear(w.slow)
	w.pushed, w.sum = 0, samples{}
}

// outcomes are those that it shows, from the oldest on.
func (w *countWindow) outcomes() []byte {
	var all []byte
	for i := w.pushed - int64(w.sum.calls); i < w.pushed; i++ {
		at := i % int64(w.size)
		all = append(all, byte(w.failed.get(at)*failedBit|w.slow.get(at)*slowBit))
	}
	return all
}
