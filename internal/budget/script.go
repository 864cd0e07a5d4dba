package budget

import (
	_ "embed"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

// ledgerScript is every step of the counters of one scope. A store runs its Lua;
// the Go below is the same step, for a store in this process and for the test
// that holds the Lua to it, byte by byte.
//
// KEYS: the scope's hash. ARGV: the step, the time in milliseconds where the
// store's own is not wanted, the lease in milliseconds, the replica, a word by
// which it is known again whose rebuilding by the replica this is, and the
// arguments of the step, of which those that are only numbers are packed. The
// answer: what became of it, the birth of the counters, the time, packed, and how
// the scope stands in the periods asked for, and what the step adds to that.
var ledgerScript = &cache.Script{Name: "ledger", Lua: ledgerLua, Go: runLedger}

//go:embed ledger.lua
var ledgerLua string

// hints is the channel on which it is told whose counters are being rebuilt (ask
// and the key) and are there again (open and the key).
const hints = "budget:hints"

// The steps.
const (
	stepReserve = "reserve"
	stepSettle  = "settle"
	stepRenew   = "renew"
	stepLook    = "look"
	stepTell    = "tell"
	stepGather  = "gather"
	stepOpen    = "open"
	stepLose    = "lose"
	stepYield   = "yield"
)

// What becomes of them.
const (
	codeGranted = "granted"
	codeRefused = "refused"
	codeOver    = "over"    // the run was settled under this name
	codeUnknown = "unknown" // the counters are lost
	codeDone    = "done"
	codeStale   = "stale" // it was taken before
)

// What a replica does about unknown counters.
const (
	toRebuild = "rebuild"
	toWait    = "wait"
)

const (
	life        = 48 * time.Hour // of a scope that nobody asks for
	chargedLife = 24 * 60 * 60 * 1000
	settledLife = 10 * 60 * 1000
	claimLife   = 5 * 1000        // a rebuilder that is silent for so long has died
	buildLife   = 2 * time.Minute // of what is told for a rebuilding
)

// stepArgs is how many arguments every step has.
const stepArgs = 5

var errScriptArguments = errors.New("the ledger script was called with arguments that it cannot read")

// step is one run of the script.
type step struct {
	tx      cache.Tx
	key     string
	now     int64 // milliseconds
	lease   int64
	replica string
	token   string

	head    header
	known   bool       // the counters are there
	dirty   bool       // the header has changed
	few     [4]counted // the periods that were asked for first
	several int        // how many these are
	more    []*counted // those that came after them
	minute  window
	looked  bool // minute is what is there
}

// counted is a period of the scope; field, its date, tells which.
type counted struct {
	field string
	tally
	known, dirty bool
}

func runLedger(tx cache.Tx, keys, args []string) ([]string, error) {
	if len(keys) != 1 || len(args) < stepArgs {
		return nil, errScriptArguments
	}
	var s step // which stays on the stack, as nothing keeps it
	if err := s.begin(tx, keys[0], args); err != nil {
		return nil, err
	}
	if s.known && (s.head.next > 0 && s.head.next <= s.now || s.now < s.head.last) {
		s.sweep()
	}
	answer, err := s.run(args[0], args[stepArgs:])
	if err != nil {
		return nil, err
	}
	s.close()
	return answer, nil
}

func (s *step) begin(tx cache.Tx, key string, args []string) error {
	s.tx, s.key, s.now, s.replica, s.token = tx, key, tx.Now().UnixMilli(), args[3], args[4]
	var err, err2 error
	if args[1] != "" {
		s.now, err = strconv.ParseInt(args[1], 10, 64)
	}
	s.lease, err2 = strconv.ParseInt(args[2], 10, 64)
	if errors.Join(err, err2) != nil || s.now < 0 || s.now > top/2 || s.lease < 0 || s.lease > top/2 {
		return errScriptArguments
	}
	text, _ := tx.HashGet(key, fieldHead)
	s.head, s.known = decodeHeader(text)
	return nil
}

func (s *step) run(name string, args []string) ([]string, error) {
	switch {
	case name == stepReserve && len(args) == 5:
		return s.reserve(args)
	case name == stepSettle && len(args) == 6:
		return s.settle(args)
	case name == stepRenew && len(args) >= 2:
		return s.renew(args), nil
	case name == stepLook && len(args) == 2:
		return s.look(args), nil
	case name == stepTell && len(args) >= 3 && len(args)%3 == 0:
		return s.tell(args)
	case name == stepGather && len(args) == 1:
		return s.gather(args[0] == "1"), nil
	case name == stepYield:
		return s.yield(), nil
	case name == stepOpen && len(args) >= 11:
		return s.open(args)
	case name == stepLose:
		return s.lose(), nil
	default:
		return nil, errScriptArguments
	}
}

// close writes what has changed.
func (s *step) close() {
	for i := range s.several {
		s.keep(&s.few[i])
	}
	for _, p := range s.more {
		s.keep(p)
	}
	if s.known && s.dirty {
		s.head.last = s.now
		s.tx.HashSet(s.key, fieldHead, s.head.encode(), life)
	}
}

func (s *step) keep(p *counted) {
	if p.dirty {
		s.tx.HashSet(s.key, p.field, p.encode(), life)
	}
}

// period returns a period of the scope, known or not.
func (s *step) period(field string) *counted {
	for i := range s.several {
		if s.few[i].field == field {
			return &s.few[i]
		}
	}
	for _, p := range s.more {
		if p.field == field {
			return p
		}
	}
	text, _ := s.tx.HashGet(s.key, field)
	t, ok := decodeTally(text)
	if s.several < len(s.few) {
		p := &s.few[s.several]
		s.several++
		*p = counted{field: field, tally: t, known: ok}
		return p
	}
	p := &counted{field: field, tally: t, known: ok}
	s.more = append(s.more, p)
	return p
}

// begun returns a period as period does. One that began after the counters did
// began with nothing spent.
func (s *step) begun(field, since string) *counted {
	p := s.period(field)
	if p.known || field <= since {
		return p
	}
	p.known, p.dirty = true, true
	s.tidy(len(field))
	return p
}

// tidy forgets periods that are long over: of each kind the newest stay.
func (s *step) tidy(width int) {
	const kept = 3
	var fields []string
	for field := range s.tx.HashAll(s.key) {
		if len(field) == width && isDigit(field[0]) && !s.period(field).dirty {
			fields = append(fields, field)
		}
	}
	slices.Sort(fields)
	for i := range max(len(fields)+1-kept, 0) {
		s.tx.HashDelete(s.key, fields[i])
		s.period(fields[i]).known = false
	}
}

// both does the same to the day and the month of an entry, where they are known.
func (s *step) both(day, month string, do func(*tally)) {
	for _, field := range [2]string{day, month} {
		if p := s.period(field); p.known {
			do(&p.tally)
			p.dirty = true
		}
	}
}

func (s *step) entry(run string) (entry, bool) {
	text, _ := s.tx.HashGet(s.key, run)
	return decodeEntry(text)
}

// write keeps an entry, and when that was: a clock set back since is noticed.
func (s *step) write(run string, e entry) {
	s.tx.HashSet(s.key, run, e.encode(), life)
	s.dirty = true
	s.expect(e.expires)
}

// expect notes when an entry expires.
func (s *step) expect(expires int64) {
	if s.head.next == 0 || expires < s.head.next {
		s.head.next, s.dirty = expires, true
	}
}

// sweep charges what has expired, and forgets what was kept long enough. After
// the clock was set back nothing lasts longer than it was meant to.
func (s *step) sweep() {
	s.head.next, s.dirty = 0, true
	all := s.tx.HashAll(s.key)
	for _, field := range slices.Sorted(maps.Keys(all)) {
		if !isRun(field) {
			s.sweepHeard(field, all[field])
			continue
		}
		e, ok := decodeEntry(all[field])
		if !ok {
			s.tx.HashDelete(s.key, field)
			continue
		}
		s.sweepEntry(field, e)
	}
}

func (s *step) sweepEntry(run string, e entry) {
	most := s.now + map[byte]int64{stateLive: s.lease, stateCharged: chargedLife, stateSettled: settledLife}[e.state]
	switch {
	case e.expires > most:
		e.expires = most
	case e.expires > s.now:
		s.expect(e.expires)
		return
	case e.state == stateLive:
		s.release(e)
		s.both(e.day, e.month, func(t *tally) { t.spent.add(e.amount) })
		e.state, e.expires = stateCharged, s.now+chargedLife
	default:
		s.tx.HashDelete(s.key, run)
		return
	}
	s.write(run, e)
}

// sweepHeard forgets replicas that have said nothing for long.
func (s *step) sweepHeard(field, text string) {
	if !strings.HasPrefix(field, prefixHeard) {
		return
	}
	r := reader{rest: text}
	_, at := r.number(), r.number()
	if !r.done() || at+chargedLife < s.now {
		s.tx.HashDelete(s.key, field)
	}
}

// release takes a reservation back.
func (s *step) release(e entry) {
	s.both(e.day, e.month, func(t *tally) { t.reserved.subtract(e.amount) })
	s.head.live, s.dirty = less(s.head.live, 1), true
}

// hold is the reverse.
func (s *step) hold(e entry) {
	s.both(e.day, e.month, func(t *tally) { t.reserved.add(e.amount) })
	s.head.live, s.dirty = sum(s.head.live, 1), true
}

// answer says how the scope stands.
func (s *step) answer(code, day, month string, more ...string) []string {
	w := s.window()
	b := appendNumbers(make([]byte, 0, standingBytes), s.now, s.head.live)
	b = s.period(month).append(s.period(day).append(b))
	b = appendNumbers(b, w.requests, w.tokens, w.empties(requestsOf), w.empties(tokensOf))
	return append([]string{code, s.head.birth, string(b)}, more...)
}

// standingBytes is how long that is.
const standingBytes = 6*numberBytes + 2*tallyBytes

func (s *step) said(code string, more ...string) []string {
	return append([]string{code, s.head.birth, pack(s.now)}, more...)
}

// window returns what is in the window. It is changed in place, and kept by
// setWindow.
func (s *step) window() *window {
	if !s.looked {
		text, _ := s.tx.HashGet(s.key, fieldWindow)
		s.minute.read(text, s.now/1000)
		s.looked = true
	}
	return &s.minute
}

func (s *step) setWindow() { s.tx.HashSet(s.key, fieldWindow, s.minute.encode(), life) }

// born is the word by which this rebuilding, and the counters that come of it,
// are known.
func (s *step) born() string { return s.replica + "." + s.token }

// whole reads a number of an argument.
func whole(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > top {
		return 0, errScriptArguments
	}
	return n, nil
}
