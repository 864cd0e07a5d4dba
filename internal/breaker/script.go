package breaker

import (
	_ "embed"
	"errors"
	"strconv"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

// circuitScript is every step of a circuit that replicas share. A store runs its
// Lua; the Go below is the same step by the rules of machine.go, for a store in
// this process and for the test that holds the Lua to it, byte by byte.
//
// KEYS: the record, and the index of its group (the generations of those that
// are not closed). ARGV: the step, the time in microseconds where the store's
// own is not wanted, the policy, a number below 1024, one in [0, 1), the key,
// and the arguments of the step. The answer: what became of it, the time in
// microseconds, the record (empty when there is none), and every transition
// that others should hear of.
var circuitScript = &cache.Script{Name: "circuit", Lua: circuitLua, Go: runCircuit}

//go:embed circuit.lua
var circuitLua string

// hints is the channel on which the keys of circuits that have moved are told.
const hints = "cb:hints"

// The steps.
const (
	stepSync    = "sync"
	stepAcquire = "acquire"
	stepSettle  = "settle"
	stepRenew   = "renew"
	stepCommand = "command"
)

// What becomes of them.
const (
	codeApplied  = "applied"
	codeStale    = "stale"
	codeExpired  = "expired"
	codeAbsent   = "absent"   // there is no record, and none was made
	codeAdmitted = "admitted" // the circuit is closed
	codeProbe    = "probe"
	codeRefused  = "refused"
	codeIllegal  = "illegal"
)

// stepArgs is how many arguments every step has.
const stepArgs = 6

var errScriptArguments = errors.New("the circuit script was called with arguments that it cannot read")

// step is one run of the script.
type step struct {
	tx         cache.Tx
	id, index  string
	key        string
	random     uint64
	in         instant
	record     *record // nil: there is none
	read       string  // the record as it was found
	dirty      bool
	moved      bool // the others have to look
	transition string
}

func runCircuit(tx cache.Tx, keys, args []string) ([]string, error) {
	if len(keys) != 2 || len(args) < stepArgs {
		return nil, errScriptArguments
	}
	s, err := openStep(tx, keys, args)
	if err != nil {
		return nil, err
	}
	code, err := s.run(args[0], args[stepArgs:])
	if err != nil {
		return nil, err
	}
	return s.close(code), nil
}

func openStep(tx cache.Tx, keys, args []string) (*step, error) {
	settings, ok := unpackPolicy(args[2])
	random, err := strconv.ParseUint(args[3], 10, 10)
	jitter, err2 := strconv.ParseFloat(args[4], 64)
	now, err3 := stepTime(tx, args[1])
	if err := errors.Join(err, err2, err3); err != nil || !ok {
		return nil, errScriptArguments
	}
	s := &step{tx: tx, id: keys[0], index: keys[1], key: args[5], random: random}
	s.in = instant{now: now, jitter: jitter, settings: settings}
	read, _ := tx.Get(s.id)
	if r, ok := decode(read, 0); ok {
		s.record, s.read = &r, read
		s.dirty = s.record.clamp(s.in)
		s.record.reshape(settings)
		s.mint()
		s.do(s.record.catchUp(s.in))
	}
	return s, nil
}

// lastStep is the last time at which a generation can be made (mint).
const lastStep = lastMicrosecond / 1024 * 1000

func stepTime(tx cache.Tx, fixed string) (time.Duration, error) {
	us := tx.Now().UnixMicro()
	if fixed != "" {
		var err error
		if us, err = strconv.ParseInt(fixed, 10, 64); err != nil {
			return 0, err
		}
	}
	if us < 0 || us > lastStep {
		return 0, errScriptArguments
	}
	return time.Duration(us) * time.Microsecond, nil
}

// mint makes the generation that the next transition begins: it tells states
// apart, it does not order them.
func (s *step) mint() {
	s.in.mint = max(firstGeneration, uint64(s.in.now/time.Millisecond)*1024+s.random)
	if s.record != nil {
		s.in.mint = max(s.in.mint, s.record.generation+1)
	}
}

// do takes what a rule has done.
func (s *step) do(t *transition) {
	if t == nil {
		return
	}
	s.dirty, s.moved = true, true
	s.transition += t.pack()
	s.mint()
}

// make begins a record for a circuit that has none. Its birth tells it from one
// that was lost, which may have begun with the same generation.
func (s *step) make(generation uint64) {
	s.mint()
	s.record = &record{machine: newMachine(s.in.settings, s.in.now), birth: s.in.mint}
	s.record.generation = generation
	s.mint()
}

func (s *step) run(name string, args []string) (string, error) {
	switch {
	case name == stepSync && len(args) == 3:
		return s.sync(args)
	case name == stepAcquire && len(args) == 1:
		return s.acquire(args)
	case name == stepSettle && len(args) == 2:
		return s.settle(args)
	case name == stepRenew && len(args) == 1:
		return s.renew(args)
	case name == stepCommand && len(args) == 5:
		return s.command(args)
	default:
		return "", errScriptArguments
	}
}

// sync takes what a replica has seen, and tells it how the circuit is. A record
// that was lost begins anew with the generation of a replica that saw it
// closed.
func (s *step) sync(args []string) (string, error) {
	d, closed, margin, ok := unpackDelta(args)
	if !ok {
		return "", errScriptArguments
	}
	if s.record == nil {
		if d.empty() || !closed {
			return codeAbsent, nil
		}
		s.make(d.generation)
	}
	r := s.record
	current := d.generation == r.generation || d.generation == firstGeneration && r.state == Closed
	counts := r.state.counts() && s.transition == "" // else it moved just now, after all that was seen (R8)
	if !d.empty() && !(current && counts) {
		return codeStale, nil
	}
	if !counts {
		return codeApplied, nil
	}
	near := r.near
	s.in.margin = margin
	s.do(r.merge(d, s.in))
	s.dirty = s.dirty || !d.empty() || r.near != near
	s.moved = s.moved || near == 0 && r.near != 0
	return codeApplied, nil
}

// acquire leases a slot under a name that the caller has chosen.
func (s *step) acquire(args []string) (string, error) {
	u := unpacker{rest: []byte(args[0])}
	s.in.lease, s.in.canary = u.whole(), u.whole() == 1
	if u.broken {
		return "", errScriptArguments
	}
	if s.record == nil {
		return codeAbsent, nil
	}
	d, t := s.record.acquire(s.in)
	s.do(t)
	switch {
	case d.probe:
		s.dirty = true
		return codeProbe, nil
	case d.admitted:
		return codeAdmitted, nil
	default:
		return codeRefused, nil
	}
}

// settle takes the verdict of a probe. One that has been taken before is stale.
func (s *step) settle(args []string) (string, error) {
	u := unpacker{rest: []byte(args[0])}
	c := claim{generation: u.whole(), probe: true, lease: u.whole(), early: u.whole() == 1}
	o := Outcome{Kind: Kind(u.whole()), OpenFor: u.duration(), Cause: args[1]}
	if u.broken {
		return "", errScriptArguments
	}
	r := s.record
	if r == nil || r.state != HalfOpen {
		return codeStale, nil
	}
	if c.generation == 0 { // the holder was not told which
		c.generation = r.generation
	}
	settled, t := r.settle(c, o, s.in)
	s.do(t)
	s.dirty = s.dirty || settled == Applied
	return settled.String(), nil
}

// renew keeps leases whose holder is alive.
func (s *step) renew(args []string) (string, error) {
	r := s.record
	if r == nil || r.state != HalfOpen {
		return codeStale, nil
	}
	if t := r.lapse(s.in); t != nil {
		s.do(t)
		return codeStale, nil
	}
	for u := (unpacker{rest: []byte(args[0])}); len(u.rest) > 0; {
		if r.episode.extend(u.whole(), s.in) {
			s.dirty = true
		}
	}
	return codeApplied, nil
}

// command obeys a person.
func (s *step) command(args []string) (string, error) {
	u := unpacker{rest: []byte(args[1])}
	c := Command{Action: Action(args[0]), For: u.duration(), Reassert: args[2] == "1", Note: args[3], Actor: args[4]}
	if s.record == nil {
		s.mint()
		s.make(s.in.mint)
	}
	t, illegal := s.record.command(c, s.in)
	if illegal != nil {
		return codeIllegal, nil
	}
	if c.Reassert && t != nil {
		s.moved = true
	} else {
		s.do(t)
	}
	s.dirty = s.dirty || t != nil || s.record.state.operated()
	return codeApplied, nil
}

// close writes what has changed and answers.
func (s *step) close(code string) []string {
	us := strconv.FormatInt(int64(s.in.now/time.Microsecond), 10)
	if s.record == nil {
		s.tx.HashDelete(s.index, s.key)
		return []string{code, us, "", ""}
	}
	packed := s.read
	if s.dirty {
		packed = s.write()
	}
	if s.moved {
		s.tx.Publish(hints, s.key)
	}
	return []string{code, us, packed, s.transition}
}

func (s *step) write() string {
	r := s.record
	r.version++
	packed := r.encode()
	ttl := r.ttl(s.in)
	s.tx.Set(s.id, packed, ttl)
	switch {
	case r.state != Closed:
		s.tx.HashSet(s.index, s.key, strconv.FormatUint(r.generation, 10), ttl)
	case s.moved:
		s.tx.HashDelete(s.index, s.key)
	}
	return packed
}

// extend renews a lease for as long as one lasts.
func (e *episode) extend(lease uint64, in instant) bool {
	slot, ok := e.held(lease)
	if ok {
		e.slots[slot].expiresAt = max(e.slots[slot].expiresAt, later(in.now, in.settings.Lease))
	}
	return ok
}
