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

// pack and unpackTransition carry a transition to those who tell of it.
func (t *transition) pack() string {
	var p packer
	p.byte(byte(t.from))
	p.byte(byte(t.to))
	p.numbers(float64(t.generation), float64(t.counts.Calls), float64(t.counts.Failures), float64(t.counts.Slow),
		float64(t.counts.ConsecutiveFailures), float64(t.expired), micros(t.openFor))
	exceeded := [2]string{}
	copy(exceeded[:], t.exceeded)
	p.words(t.reason, t.cause, exceeded[0], exceeded[1], t.actor, t.note)
	return string(p)
}

func (u *unpacker) transition() *transition {
	t := &transition{from: State(u.byte()), to: State(u.byte()), generation: u.whole()}
	t.counts = Counts{Calls: u.whole(), Failures: u.whole(), Slow: u.whole(), ConsecutiveFailures: int(u.whole())}
	t.expired, t.openFor = int(u.whole()), u.duration()
	t.reason, t.cause = u.word(), u.word()
	for range 2 {
		if word := u.word(); word != "" {
			t.exceeded = append(t.exceeded, word)
		}
	}
	t.actor, t.note = u.word(), u.word()
	return t
}

// pack and unpackDelta carry what a replica has seen.
func (d *delta) pack(closed bool, margin Rate) []string {
	var p packer
	p.numbers(float64(d.generation), float64(bit(closed)), float64(margin),
		float64(d.calls), float64(d.failures), float64(d.slow), float64(d.blamed), float64(d.tail), float64(d.row), float64(bit(d.broken)),
		micros(d.reach), micros(d.openFor), float64(bit(d.held)))
	return []string{string(p), d.cause, string(d.outcomes)}
}

func unpackDelta(args []string) (d *delta, closed bool, margin Rate, ok bool) {
	u := unpacker{rest: []byte(args[0])}
	d = &delta{generation: u.whole()}
	closed, margin = u.whole() == 1, Rate(u.whole())
	d.calls, d.failures, d.slow, d.blamed = u.whole(), u.whole(), u.whole(), u.whole()
	d.tail, d.row, d.broken = u.whole(), u.whole(), u.whole() == 1
	d.reach, d.openFor, d.held, d.cause, d.outcomes = u.duration(), u.duration(), u.whole() == 1, args[1], []byte(args[2])
	return d, closed, margin, !u.broken && len(u.rest) == 0
}

// pack and unpackPolicy carry the settings that govern a step.
func (s *Settings) pack() string {
	var p packer
	w, width := s.Window, 0.0
	switch {
	case w.Calls == 0 && w.Buckets == 0: // of settings that are not enabled: nothing is counted there
		w.Calls = 1
	case w.Calls == 0:
		width = micros(w.width() + time.Microsecond - 1)
	}
	p.numbers(float64(s.FailureThreshold), float64(s.FailureRate), float64(s.RateTest), float64(s.MinCalls), float64(s.SlowRate),
		float64(w.Calls), width, float64(w.Buckets),
		micros(s.Cooldown), s.CooldownMultiplier, micros(s.MaxCooldown), s.CooldownJitter, micros(max(s.StepDecay, time.Microsecond)), micros(s.MaxRetryAfter),
		float64(s.HalfOpenCalls), float64(s.SuccessThreshold), micros(s.MaxHalfOpen), micros(s.Lease), float64(s.MaxNeutral), micros(s.IdleTTL),
		float64(bit(s.Enabled)), float64(bit(s.Canary)), float64(bit(s.CanaryCloses)))
	return string(p)
}

func unpackPolicy(packed string) (*Settings, bool) {
	u := unpacker{rest: []byte(packed)}
	s := &Settings{FailureThreshold: int(u.whole()), FailureRate: Rate(u.whole()), RateTest: RateTest(u.whole()), MinCalls: int(u.whole()), SlowRate: Rate(u.whole())}
	s.Window.Calls = int(u.whole())
	width := u.duration()
	s.Window.Buckets = int(u.whole())
	s.Window.Span = width * time.Duration(s.Window.Buckets)
	s.Cooldown, s.CooldownMultiplier, s.MaxCooldown, s.CooldownJitter = u.duration(), u.number(), u.duration(), u.number()
	s.StepDecay, s.MaxRetryAfter = u.duration(), u.duration()
	s.HalfOpenCalls, s.SuccessThreshold, s.MaxHalfOpen, s.Lease, s.MaxNeutral = int(u.whole()), int(u.whole()), u.duration(), u.duration(), int(u.whole())
	s.IdleTTL, s.Enabled = u.duration(), u.whole() == 1
	s.Canary, s.CanaryCloses = u.whole() == 1, u.whole() == 1
	return s, !u.broken && len(u.rest) == 0 && s.StepDecay > 0 && s.HalfOpenCalls <= maxHalfOpenCalls && s.Window.countable(width)
}

// countable reports whether a window has a size to count in.
func (w Window) countable(width time.Duration) bool {
	if w.Calls > 0 {
		return w.Calls <= maxWindowCalls
	}
	return w.Buckets > 0 && w.Buckets <= maxBuckets && width > 0 && width <= forever/time.Duration(w.Buckets)
}
