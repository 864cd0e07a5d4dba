package breaker

import (
	"encoding/binary"
	"math"
	"time"
)

// record is one circuit as the replicas share it: the machine, on the clock of
// the store, and what tells its copies apart.
type record struct {
	machine
	version uint64 // grows with every write
	birth   uint64 // made up when the record begins; another one when it was lost meanwhile
}

// format is the first byte of a record. A record of another format is as good as
// lost.
const format = 1

// The store keeps whole numbers of microseconds as 64-bit floats: its scripts
// have no other numbers, and up to here those are exact.
const lastMicrosecond = 1 << 53

func micros(d time.Duration) float64 {
	return float64(min(int64(d/time.Microsecond), lastMicrosecond))
}

func fromMicros(us float64) time.Duration {
	if !(us < lastMicrosecond) {
		return forever
	}
	return time.Duration(us) * time.Microsecond
}

// encode packs a record: state, numbers, words, slots, window; little-endian.
func (r *record) encode() string {
	var p packer
	p.byte(format)
	p.byte(byte(r.state))
	p.numbers(
		float64(r.version), float64(r.birth), float64(r.generation), float64(r.probed),
		micros(r.since), micros(r.openUntil), micros(r.openFor),
		float64(r.backoff.step), micros(r.backoff.healthySince),
		float64(r.streak.failures), micros(r.streak.began), micros(r.streak.last),
		micros(r.override.until), micros(r.muted), micros(r.near),
		float64(r.opened.Calls), float64(r.opened.Failures), float64(r.opened.Slow), float64(r.opened.ConsecutiveFailures),
	)
	p.words(r.reason, r.cause, r.blamed, r.override.note, r.override.actor)
	p.episode(r.episode)
	p.window(r.window)
	return string(p)
}

// decode unpacks a record that the store's clock stamped. Times are moved by
// shift, what our clock is ahead of the store's. It returns false for a record
// that cannot be read: one that encode would not have written.
func decode(packed string, shift time.Duration) (record, bool) {
	u := unpacker{rest: []byte(packed), shift: shift}
	if u.byte() != format {
		return record{}, false
	}
	var r record
	r.state = State(u.byte())
	r.version, r.birth, r.generation, r.probed = u.whole(), u.whole(), u.whole(), u.whole()
	r.since, r.openUntil, r.openFor = u.at(), u.at(), u.duration()
	r.backoff = backoff{step: int(u.whole()), healthySince: u.at()}
	r.streak = streak{failures: int(u.whole()), began: u.at(), last: u.at()}
	r.override.until, r.muted, r.near = u.at(), u.at(), u.at()
	r.opened = Counts{Calls: u.whole(), Failures: u.whole(), Slow: u.whole(), ConsecutiveFailures: int(u.whole())}
	r.reason, r.cause, r.blamed, r.override.note, r.override.actor = u.word(), u.word(), u.word(), u.word(), u.word()
	r.episode = u.episode()
	r.window = u.window()
	r.windows, r.shape = 1, 1
	known := r.state < states && (r.episode != nil) == (r.state == HalfOpen) && r.backoff.step <= maxStep
	return r, known && !u.broken && len(u.rest) == 0
}

// clamp takes a clock into account that was set back: nothing lies in the
// future, and nothing lasts longer than it was meant to. It reports whether
// anything did, for a record that is not mended waits until the clock is back.
func (m *machine) clamp(in instant) bool {
	s, now := in.settings, in.now
	set := earlier(&m.since, now)
	set = earlier(&m.backoff.healthySince, now) || set
	set = earlier(&m.streak.began, now) || set
	set = earlier(&m.streak.last, now) || set
	set = earlier(&m.near, now) || set
	set = earlier(&m.muted, later(now, max(s.MaxRetryAfter, later(s.MaxCooldown, s.MaxCooldown)))) || set
	if m.state == Open {
		set = earlier(&m.openUntil, later(now, m.openFor)) || set
	}
	if e := m.episode; e != nil {
		set = e.clamp(s, now) || set
	}
	if w, ok := m.window.(*timeWindow); ok {
		set = w.rewind(now) || set
	}
	return set
}

func (e *episode) clamp(s *Settings, now time.Duration) bool {
	set := earlier(&e.idleSince, now)
	for i := range e.slots {
		set = earlier(&e.slots[i].expiresAt, later(now, s.Lease)) || set
	}
	return set
}

// earlier sets a time to another one that it must not lie after.
func earlier(at *time.Duration, most time.Duration) bool {
	if *at <= most {
		return false
	}
	*at = most
	return true
}

// reshape gives the machine the window of its settings, empty if it had another.
func (m *machine) reshape(s *Settings) {
	switch w := m.window.(type) {
	case *timeWindow:
		if s.Window.Calls == 0 && len(w.buckets) == s.Window.Buckets && w.width == s.Window.width() {
			return
		}
	case *countWindow:
		if w.size == s.Window.Calls {
			return
		}
	}
	m.reform(s)
}

// Bounds of how long the store keeps a record.
const (
	operatedTTL = time.Hour            // of what a person has said; it is asserted again before
	longestTTL  = 365 * 24 * time.Hour // of anything
)

// ttl is how long the store has to keep the record: never shorter than what it
// guards. A record that is gone reads closed.
func (m *machine) ttl(in instant) time.Duration {
	s := in.settings
	step := decaysToForget * min(s.StepDecay, longestTTL)
	var d time.Duration
	switch {
	case m.state == Open:
		d = later(later(m.remaining(in.now), s.MaxCooldown), step)
	case m.state == HalfOpen:
		d = later(later(later(s.MaxHalfOpen, s.Lease), s.MaxCooldown), step)
	case m.state.operated():
		d = operatedTTL
	default:
		d = max(s.memory(), s.IdleTTL)
		if m.backoff.step > 0 {
			d = max(d, step)
		}
	}
	return min(d, longestTTL)
}

// packer writes what the store's scripts can read.
type packer []byte

func (p *packer) byte(b byte)    { *p = append(*p, b) }
func (p *packer) count(n uint32) { *p = binary.LittleEndian.AppendUint32(*p, n) }

func (p *packer) numbers(all ...float64) {
	for _, n := range all {
		*p = binary.LittleEndian.AppendUint64(*p, math.Float64bits(n))
	}
}

func (p *packer) words(all ...string) {
	for _, w := range all {
		w = w[:min(len(w), math.MaxUint16)]
		*p = binary.LittleEndian.AppendUint16(*p, uint16(len(w)))
		*p = append(*p, w...)
	}
}

func (p *packer) episode(e *episode) {
	if e == nil {
		p.byte(0)
		return
	}
	p.byte(1)
	p.numbers(float64(bit(e.canary)), float64(e.needed), float64(e.successes), float64(e.failures), float64(e.neutrals), float64(e.handed),
		micros(e.idle), micros(e.idleSince), float64(len(e.slots)))
	for _, s := range e.slots {
		p.numbers(float64(s.use), float64(s.lease), micros(s.expiresAt))
	}
}

// window writes the buckets of time from the newest on, or the outcomes from the
// oldest on, and before them their sums, which a script need not make again.
func (p *packer) window(w window) {
	switch w := w.(type) {
	case *timeWindow:
		p.numbers(float64(len(w.buckets)), micros(w.width), float64(w.current))
		p.sum(w.sum)
		for age := range int64(len(w.buckets)) {
			var b bucket
			if age <= w.current {
				b = *w.bucket(w.current - age)
			}
			p.count(b.calls)
			p.count(b.failures)
			p.count(b.slow)
		}
	case *countWindow:
		p.numbers(0, float64(w.size), float64(w.pushed))
		p.sum(w.sum)
		*p = append(*p, w.outcomes()...)
	}
}

func (p *packer) sum(n samples) { p.numbers(float64(n.calls), float64(n.failures), float64(n.slow)) }

// unpacker reads it back. It reads zeros once it is broken.
type unpacker struct {
	rest   []byte
	shift  time.Duration
	broken bool
}

var zeros [math.MaxUint16]byte

func (u *unpacker) take(n int) []byte {
	if n < 0 || n > len(u.rest) {
		u.broken, u.rest = true, nil
		return zeros[:min(max(n, 0), len(zeros))]
	}
	taken := u.rest[:n]
	u.rest = u.rest[n:]
	return taken
}

func (u *unpacker) byte() byte    { return u.take(1)[0] }
func (u *unpacker) count() uint32 { return binary.LittleEndian.Uint32(u.take(4)) }
func (u *unpacker) number() float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(u.take(8)))
}

// whole reads a number of things.
func (u *unpacker) whole() uint64 {
	n := u.number()
	if !(n >= 0 && n <= lastMicrosecond) || n != math.Trunc(n) || math.Signbit(n) {
		u.broken = true
		return 0
	}
	return uint64(n)
}

func (u *unpacker) duration() time.Duration { return fromMicros(float64(u.whole())) }

// at reads a point in time; 0 is none.
func (u *unpacker) at() time.Duration {
	us := u.whole()
	if us == 0 {
		return 0
	}
	return later(fromMicros(float64(us)), u.shift)
}

// flag reads 0 or 1.
func (u *unpacker) flag() bool {
	n := u.whole()
	u.broken = u.broken || n > 1
	return n == 1
}

// choice reads one of the numbers below n.
func (u *unpacker) choice(n byte) byte {
	b := u.byte()
	u.broken = u.broken || b >= n
	return b
}

func (u *unpacker) word() string {
	return string(u.take(int(binary.LittleEndian.Uint16(u.take(2)))))
}

func (u *unpacker) episode() *episode {
	if u.choice(2) == 0 {
		return nil
	}
	e := &episode{
		canary: u.flag(), needed: int(u.whole()), successes: int(u.whole()), failures: int(u.whole()), neutrals: int(u.whole()), handed: u.whole(),
		idle: u.duration(), idleSince: u.at(),
	}
	slots := u.whole()
	if slots > maxHalfOpenCalls {
		u.broken = true
		return e
	}
	for range slots {
		kind := u.whole()
		u.broken = u.broken || kind > uint64(spent)
		e.slots = append(e.slots, slot{use: use(kind), lease: u.whole(), expiresAt: u.at()})
	}
	return e
}

func (u *unpacker) window() window {
	buckets, size, position := u.whole(), u.whole(), u.whole()
	sum := samples{u.whole(), u.whole(), u.whole()}
	if buckets > 0 {
		w := u.timeWindow(buckets, time.Duration(size)*time.Microsecond, int64(position))
		u.broken = u.broken || w.sum != sum
		return w
	}
	w := u.countWindow(size, int64(position), sum.calls)
	u.broken = u.broken || w.sum != sum
	return w
}

func (u *unpacker) timeWindow(buckets uint64, width time.Duration, current int64) *timeWindow {
	if buckets > maxBuckets || width <= 0 {
		u.broken = true
		return newTimeWindow(time.Second, 1)
	}
	w := &timeWindow{width: width, origin: -u.shift, current: current, buckets: make([]bucket, buckets)}
	for age := range int64(buckets) {
		b := bucket{u.count(), u.count(), u.count()}
		u.broken = u.broken || b.failures > b.calls || b.slow > b.calls || age > current && b != bucket{}
		if age <= current {
			*w.bucket(current - age) = b
			w.sum = w.sum.with(b)
		}
	}
	return w
}

func (u *unpacker) countWindow(size uint64, pushed int64, calls uint64) *countWindow {
	if size == 0 || size > maxWindowCalls || calls > size || int64(calls) > pushed {
		u.broken = true
		return newCountWindow(1)
	}
	w := newCountWindow(int(size))
	w.pushed = pushed - int64(calls)
	for range calls {
		o := u.choice((failedBit | slowBit) + 1)
		w.add(o&failedBit != 0, o&slowBit != 0)
	}
	return w
}
