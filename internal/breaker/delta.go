package breaker

import "time"

// delta is what one replica has seen of a closed circuit and not told the others
// yet. Successes only count; of failures also the order matters, as far as a
// streak needs it. A nil delta is one that nobody wants to know.
type delta struct {
	generation            uint64 // in which it was seen
	calls, failures, slow uint64
	blamed                uint64        // failures among slow calls that were told before
	tail                  uint64        // failures in a row at its end
	row                   uint64        // the same, with those that were told before
	broken                bool          // a success came before them
	began                 time.Duration // of the call that may have continued a streak, by our clock
	reach                 time.Duration // the same, as how long ago, once it is told
	cause                 string        // of the last failure
	openFor               time.Duration // the longest hint
	held                  bool          // too many of its siblings are open for it to open
	outcomes              []byte        // for a window of calls: the last ones, in order
	keep                  int           // how many of them; 0: none
}

// The bits of an outcome.
const (
	failedBit = 1
	slowBit   = 2
)

// restart forgets what was seen in another generation.
func (d *delta) restart(generation uint64) {
	if d != nil {
		*d = delta{generation: generation, keep: d.keep}
	}
}

// empty reports whether there is nothing to tell.
func (d *delta) empty() bool {
	return d.calls == 0 && d.blamed == 0 && d.tail == 0 && !d.broken && d.openFor == 0
}

// quiet reports whether it can open nothing.
func (d *delta) quiet() bool {
	return d.failures == 0 && d.slow == 0 && d.blamed == 0 && d.tail == 0 && d.openFor == 0
}

func (d *delta) succeed(n uint64) {
	if d == nil || n == 0 {
		return
	}
	d.endStreak()
	d.calls += n
	for range min(n, uint64(d.keep)) {
		d.push(0)
	}
}

func (d *delta) endStreak() {
	if d != nil {
		d.broken, d.tail, d.row = true, 0, 0
	}
}

// fail takes the end of a failed call that began then; sample counts it.
func (d *delta) fail(began time.Duration, cause string) {
	if d == nil {
		return
	}
	if d.tail == 0 && !d.broken {
		d.began = began
	}
	d.tail++
	d.row++
	d.cause = cause
}

func (d *delta) sample(failed, slow bool) {
	if d == nil {
		return
	}
	d.calls++
	d.failures += bit(failed)
	d.slow += bit(slow)
	d.push(byte(bit(failed)*failedBit | bit(slow)*slowBit))
}

func (d *delta) blame() {
	if d != nil {
		d.blamed++
	}
}

func (d *delta) hint(o Outcome) {
	if d != nil {
		d.openFor, d.cause = max(d.openFor, o.OpenFor), o.Cause
	}
}

func (d *delta) push(outcome byte) {
	if d.keep == 0 {
		return
	}
	if len(d.outcomes) >= 2*d.keep {
		d.outcomes = append(d.outcomes[:0], d.outcomes[len(d.outcomes)-d.keep+1:]...)
	}
	d.outcomes = append(d.outcomes, outcome)
}

// merge counts what was seen elsewhere, as if it had ended here and now.
func (m *machine) merge(d *delta, in instant) *transition {
	if d.broken {
		m.endStreak(in.now)
	}
	if d.tail > 0 {
		if !d.broken {
			m.fade(d.reach, in)
		}
		m.streak.extend(int(d.tail), in.now)
		m.blamed = d.cause
	}
	m.window.slide(in.now)
	m.window.merge(d)
	in.row, in.held = int(d.row), in.held || d.held
	switch {
	case d.openFor > 0:
		return m.hint(Outcome{Kind: Failure, Cause: d.cause, OpenFor: d.openFor}, in)
	case d.empty() && m.near == 0:
		return nil
	default:
		return m.evaluate(in)
	}
}
