package budget

import (
	"encoding/binary"
	"math"
)

// window is what was begun in each of the last seconds, from first on, and in all
// of them. A second leaves it when it ended a whole minute ago, so that no minute,
// wherever it begins, holds more than the window.
type window struct {
	first            int64 // Unix time in seconds
	requests, tokens int64
	seconds          int
	slots            [widest * slotBytes]byte // for each second its requests and tokens
}

const (
	// windowSeconds is how long a second stays in the window, beside itself.
	windowSeconds = 60

	widest      = windowSeconds + 1
	slotBytes   = 4 + numberBytes
	windowBytes = 4 + 2*numberBytes // and the slots
	mostCounted = 1<<32 - 1
)

func (w *window) encode() string {
	b := make([]byte, 0, windowBytes+len(w.slots))
	b = binary.LittleEndian.AppendUint32(b, uint32(w.first))
	b = appendNumbers(b, w.requests, w.tokens)
	return string(append(b, w.slots[:w.seconds*slotBytes]...))
}

// read takes what is in the window at a time, in seconds.
func (w *window) read(text string, now int64) {
	w.first, w.requests, w.tokens, w.seconds = 0, 0, 0, 0
	slots := (len(text) - windowBytes) / slotBytes
	if len(text) < windowBytes || slots == 0 {
		return
	}
	r := packed{rest: text[4:]}
	first, requests, tokens := int64(uint32At(text)), r.number(), r.number()
	if slots > widest || first+int64(slots)-1 > now || len(r.rest)%slotBytes != 0 || r.broken || tokens >= top {
		w.mend(r.rest, first, now)
		return
	}
	gone := max(now-windowSeconds-first, 0)
	if gone >= int64(slots) {
		return
	}
	w.first, w.requests, w.tokens, w.seconds = first, requests, tokens, slots
	copy(w.slots[:], r.rest)
	for i := range int(gone) {
		n, t := w.slot(i)
		w.requests, w.tokens = less(w.requests, n), less(w.tokens, t)
	}
	w.first, w.seconds = first+gone, slots-int(gone)
	copy(w.slots[:], r.rest[gone*slotBytes:])
}

// mend takes what is in the window one by one, where its sums may not be trusted.
// What is not whole is not there, and what lies in the future is of this second.
func (w *window) mend(slots string, first, now int64) {
	for at := first; len(slots) >= slotBytes; at, slots = at+1, slots[slotBytes:] {
		r := packed{rest: slots[4:]}
		tokens := r.number()
		if at := min(at, now); at+windowSeconds >= now && !r.broken {
			w.add(at, int64(uint32At(slots)), tokens)
		}
	}
}

// add counts that much more in one of the seconds that may be in the window, or
// less; never below 0.
func (w *window) add(at, requests, tokens int64) {
	w.reach(at)
	i := int(at - w.first)
	oldRequests, oldTokens := w.slot(i)
	newRequests, newTokens := min(max(oldRequests+requests, 0), mostCounted), min(max(oldTokens+tokens, 0), top)
	b := w.slots[i*slotBytes:]
	binary.LittleEndian.PutUint32(b, uint32(newRequests))
	binary.LittleEndian.PutUint64(b[4:], math.Float64bits(float64(newTokens)))
	w.requests = less(w.requests+newRequests, oldRequests)
	if total := w.tokens - oldTokens + newTokens; w.tokens < top && total < top {
		w.tokens = max(total, 0)
		return
	}
	w.tokens = 0 // it was over the top, or is now: what is left of it has to be summed
	for i := range w.seconds {
		_, t := w.slot(i)
		w.tokens = sum(w.tokens, t)
	}
}

// reach makes a place for a second.
func (w *window) reach(at int64) {
	switch end := w.first + int64(w.seconds); {
	case w.seconds == 0:
		w.first = at
		w.clear(0, 1)
		w.seconds = 1
	case at < w.first:
		more := int(w.first - at)
		copy(w.slots[more*slotBytes:], w.slots[:w.seconds*slotBytes])
		w.clear(0, more)
		w.first, w.seconds = at, w.seconds+more
	case at >= end:
		more := int(at - end + 1)
		w.clear(w.seconds, more)
		w.seconds += more
	}
}

func (w *window) clear(from, n int) { clear(w.slots[from*slotBytes : (from+n)*slotBytes]) }

// slot is what was begun in one second. What is not whole is nothing.
func (w *window) slot(i int) (requests, tokens int64) {
	b := w.slots[i*slotBytes : (i+1)*slotBytes]
	tokens, _ = exact(math.Float64frombits(binary.LittleEndian.Uint64(b[4:])))
	return int64(binary.LittleEndian.Uint32(b)), tokens
}

// of is what of a second, or of the whole window, is limited.
type of func(requests, tokens int64) int64

func requestsOf(requests, _ int64) int64 { return requests }
func tokensOf(_, tokens int64) int64     { return tokens }

// fits returns the time in milliseconds from which so much is gone from the
// window that asked more stay within the limit; 0 when they never do.
func (w *window) fits(limit, asked int64, of of) int64 {
	if asked > limit {
		return 0
	}
	total := of(w.requests, w.tokens)
	for i := range w.seconds {
		total = less(total, of(w.slot(i)))
		if total+asked <= limit {
			return leaves(w.first + int64(i))
		}
	}
	return 0
}

// empties returns the time in milliseconds from which nothing of it is left; 0
// when there is nothing.
func (w *window) empties(of of) int64 {
	if of(w.requests, w.tokens) == 0 {
		return 0
	}
	for i := w.seconds - 1; i >= 0; i-- {
		if of(w.slot(i)) > 0 {
			return leaves(w.first + int64(i))
		}
	}
	return 0
}

// leaves is when a second is no longer in the window, in milliseconds.
func leaves(at int64) int64 { return (at + windowSeconds + 1) * 1000 }

func uint32At(text string) uint32 {
	return uint32(text[0]) | uint32(text[1])<<8 | uint32(text[2])<<16 | uint32(text[3])<<24
}
