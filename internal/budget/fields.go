package budget

import (
	"encoding/binary"
	"math"
)

// top is the largest number that is counted: Lua's numbers are exact up to it.
// In nano-dollars it is a little over nine million.
const top = 1<<53 - 1

// The fields of a scope's hash. What was spent and is reserved on a day is in the
// field that is named by it (2026-11-30), that of a month likewise (2026-11), and
// what a run may use is in the field that is the run's name.
const (
	fieldHead   = "h"  // what is known of the whole; absent: the counters are lost
	fieldWindow = "w"  // what was begun in the last minute
	fieldBuild  = "b"  // who is rebuilding the counters, and until when
	prefixRun   = "r:" // with which the name of a run begins
	prefixTold  = "t:" // + a replica that has told what it knows, for the rebuilding
	prefixHeard = "q:" // + a replica: the last of its numbered messages
)

// The bytes of days, months and fields. Those that every call reads and writes are
// of fixed width, so that they are read without searching.
const (
	dayBytes   = len(dayFormat)
	monthBytes = len(monthFormat)
	dateBytes  = dayBytes + monthBytes
	headBytes  = 2 + 3*numberBytes + dateBytes // and the birth
	tallyBytes = 6 * numberBytes
	entryBytes = 2 + 5*numberBytes + dateBytes
)

// header is what is known of a scope's counters as a whole.
type header struct {
	birth   string // of these counters; it tells them from those that were lost
	last    int64  // when a script last looked, in milliseconds
	next    int64  // when an entry expires next, at the earliest; 0 = there is none
	live    int64  // calls under way
	day     string // days and months that begin later began with nothing spent
	month   string
	unknown bool // begun without knowing what was spent
}

// headForm is the first byte of a header.
const headForm = '2'

func (h header) encode() string {
	b := make([]byte, 0, 160)
	b = append(b, headForm, flag(h.unknown))
	b = appendNumbers(b, h.last, h.next, h.live)
	b = append(append(append(b, h.day...), h.month...), h.birth...)
	return string(b)
}

func decodeHeader(text string) (h header, ok bool) {
	if len(text) <= headBytes || text[0] != headForm {
		return header{}, false
	}
	r := packed{rest: text[2:]}
	h = header{unknown: text[1] == 1, last: r.number(), next: r.number(), live: r.number(), day: r.take(dayBytes), month: r.take(monthBytes), birth: r.rest}
	if r.broken {
		return header{}, false
	}
	return h, true
}

// tally is what was spent and is reserved in one period.
type tally struct {
	spent, reserved sums
}

// sums are whole numbers from 0 to top.
type sums struct{ requests, tokens, nano int64 }

func (t tally) encode() string {
	return string(t.append(make([]byte, 0, tallyBytes)))
}

func (t tally) append(b []byte) []byte { return t.reserved.append(t.spent.append(b)) }

func (s sums) append(b []byte) []byte { return appendNumbers(b, s.requests, s.tokens, s.nano) }

// encode is how sums are told, as words.
func (s sums) encode() string { return join(number(s.requests), number(s.tokens), number(s.nano)) }

func decodeTally(text string) (t tally, ok bool) {
	if len(text) != tallyBytes {
		return tally{}, false
	}
	r := packed{rest: text}
	if t = (tally{spent: r.sums(), reserved: r.sums()}); r.broken {
		return tally{}, false
	}
	return t, true
}

func (s *sums) add(o sums) {
	s.requests, s.tokens, s.nano = sum(s.requests, o.requests), sum(s.tokens, o.tokens), sum(s.nano, o.nano)
}

func (s *sums) subtract(o sums) {
	s.requests, s.tokens, s.nano = less(s.requests, o.requests), less(s.tokens, o.tokens), less(s.nano, o.nano)
}

func (s sums) exceeds(o sums) bool {
	return s.requests > o.requests || s.tokens > o.tokens || s.nano > o.nano
}

func sum(a, b int64) int64  { return min(a+b, top) }
func less(a, b int64) int64 { return max(a-b, 0) }

// The states of an entry.
const (
	stateLive    = 'l' // reserved
	stateCharged = 'c' // its replica fell silent: what was reserved is spent
	stateSettled = 's' // the truth is spent, and may be told again
)

// entry is what a scope knows of one run.
type entry struct {
	state   byte  // 0: there is none
	expires int64 // in milliseconds
	at      int64 // the second in which it was counted in the window; 0 = it was not
	counted bool  // its request is counted in that second too
	amount  sums
	day     string
	month   string
}

func (e entry) encode() string {
	b := make([]byte, 0, entryBytes)
	b = append(b, e.state, flag(e.counted))
	b = e.amount.append(appendNumbers(b, e.expires, e.at))
	return string(append(append(b, e.day...), e.month...))
}

func decodeEntry(text string) (e entry, ok bool) {
	if len(text) != entryBytes {
		return entry{}, false
	}
	r := packed{rest: text[2:]}
	e = entry{state: text[0], counted: text[1] == 1, expires: r.number(), at: r.number(), amount: r.sums(), day: r.take(dayBytes), month: r.take(monthBytes)}
	if r.broken || e.state != stateLive && e.state != stateCharged && e.state != stateSettled {
		return entry{}, false
	}
	return e, true
}

// numberBytes is how long a packed number is: a float64 whose lowest byte comes
// first, which is what Lua counts with.
const numberBytes = 8

func appendNumbers(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
	}
	return b
}

// pack is numbers as one argument of a step.
func pack(numbers ...int64) string {
	return string(appendNumbers(make([]byte, 0, 16*numberBytes), numbers...))
}

// packed reads packed numbers.
type packed struct {
	rest   string
	broken bool
}

// any reads a number, whatever it is.
func (p *packed) any() float64 {
	word := p.take(numberBytes)
	if p.broken {
		return 0
	}
	return math.Float64frombits(uint64(word[0]) | uint64(word[1])<<8 | uint64(word[2])<<16 | uint64(word[3])<<24 |
		uint64(word[4])<<32 | uint64(word[5])<<40 | uint64(word[6])<<48 | uint64(word[7])<<56)
}

// number reads a whole number from 0 to top.
func (p *packed) number() int64 {
	n, ok := exact(p.any())
	p.broken = p.broken || !ok
	return n
}

// exact returns a whole number from 0 to top.
func exact(f float64) (int64, bool) {
	if !(f >= 0 && f <= top) || float64(int64(f)) != f {
		return 0, false
	}
	return int64(f), true
}

func (p *packed) sums() sums {
	return sums{requests: p.number(), tokens: p.number(), nano: p.number()}
}

func (p *packed) take(n int) string {
	if len(p.rest) < n {
		p.broken = true
		return ""
	}
	word := p.rest[:n]
	p.rest = p.rest[n:]
	return word
}

func (p *packed) done() bool { return p.rest == "" && !p.broken }

func flag(yes bool) byte {
	if yes {
		return 1
	}
	return 0
}
