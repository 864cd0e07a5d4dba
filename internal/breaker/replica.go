package breaker

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

// Mode says with whom a circuit shares what it knows.
type Mode uint8

const (
	Local  Mode = iota // with nobody
	Cached             // with all replicas, a little later; no call waits for it while the circuit is closed
	Strict             // with all replicas, before every call goes and when it has ended
)

// String returns the name used in the configuration and the API.
func (m Mode) String() string {
	switch m {
	case Cached:
		return "cached"
	case Strict:
		return "strict"
	default:
		return "local"
	}
}

// Store is what circuits are shared on. cache.Cache is one.
type Store interface {
	RunAll(ctx context.Context, runs []cache.Run) []cache.Result
	Watch(ctx context.Context, channel string, heard func(message string)) error
}

const (
	// DefaultStoreTimeout bounds a step of the store that no call waits for;
	// calls wait for two fifths of it.
	DefaultStoreTimeout = 25 * time.Millisecond

	// flushEvery is how often replicas tell each other of failures and look at
	// which circuits are not closed; it varies by a fifth, so that they do not
	// all come at once.
	flushEvery = 100 * time.Millisecond
	// successesEvery is how many flushes later successes are told that nothing
	// waits for.
	successesEvery = 20
	// awayAfter is how many steps in a row fail until the store is taken to be
	// away, and awayFor how long it is then left alone.
	awayAfter = 3
	awayFor   = time.Second
	// pipelined is how many steps go to the store at once.
	pipelined = 256
	// groups is how many indexes there are.
	groups = 64
)

// replica is the registry's side of the store.
type replica struct {
	registry *Registry
	store    Store
	timeout  time.Duration
	// clock says what time it is for the store, in microseconds; nil: it has a
	// clock of its own.
	clock func() int64

	// margin is the share of successes that the other replicas may not have told
	// yet.
	margin Rate

	misses             atomic.Int32 // in a row
	away               atomic.Bool
	met                atomic.Bool // it has answered once
	refused            atomic.Bool // it answers, and does not do what it is told
	awaySince, retryAt atomic.Int64
	tally              storeTally
	unwell             atomic.Int64 // circuits that are not closed
	inGroup            [groups]atomic.Int64
	wake               chan struct{}
	hurried            atomic.Bool // something is decided in a moment
	listens            context.CancelFunc

	mu    sync.Mutex
	queue []*circuit // those that have something to tell or to ask
}

type storeTally struct{ steps, misses, late atomic.Uint64 }

// SharedState is how the replicas stand with their store.
type SharedState struct {
	// Degraded: the store is away, and every replica decides for itself.
	Degraded bool
	Steps    uint64 // that the store has run for us
	Misses   uint64 // that failed, or took too long
	// Unknown is how many outcomes were in steps whose answer was lost. They
	// are not told again, so that none is counted twice.
	Unknown uint64
}

// Shared reports how the registry stands with its store; false when it has none.
func (r *Registry) Shared() (SharedState, bool) {
	s := r.replica
	if s == nil {
		return SharedState{}, false
	}
	return SharedState{
		Degraded: s.away.Load() || !s.met.Load(),
		Steps:    s.tally.steps.Load(), Misses: s.tally.misses.Load(), Unknown: s.tally.late.Load(),
	}, true
}

func newReplica(r *Registry, cfg Config) *replica {
	s := &replica{registry: r, store: cfg.Store, timeout: cfg.StoreTimeout, clock: cfg.StoreClock, margin: successesMargin, wake: make(chan struct{}, 1)}
	if s.timeout <= 0 {
		s.timeout = DefaultStoreTimeout
	}
	return s
}

// up reports whether the store is asked at all.
func (s *replica) up() bool { return !s.away.Load() }

// answer is what a step has come to.
type answer struct {
	code        string
	record      *record       // nil: there is none
	transitions []*transition // that this step made, and others should hear of
	sent        time.Duration
	err         error
}

// step is one run of the script for a circuit.
func (s *replica) step(c *circuit, name string, args ...string) cache.Run {
	fixed := ""
	if s.clock != nil {
		fixed = strconv.FormatInt(s.clock(), 10)
	}
	args = append([]string{
		name, fixed, c.packedSettings(), strconv.FormatUint(rand.Uint64N(1024), 10),
		strconv.FormatFloat(s.registry.jitter(), 'g', -1, 64), c.key,
	}, args...)
	return cache.Run{Script: circuitScript, Keys: []string{c.id, c.index}, Args: args}
}

// one runs a step that a call waits for.
func (s *replica) one(c *circuit, run cache.Run) answer { return s.oneWithin(c, run, s.timeout*2/5) }

func (s *replica) oneWithin(c *circuit, run cache.Run, timeout time.Duration) answer {
	a := s.run([]cache.Run{run}, timeout)[0]
	if a.err != nil {
		c.mu.Lock()
		c.link.doubt(run)
		c.mu.Unlock()
	}
	return a
}

// run asks the store. Every answer that does not come is a miss.
func (s *replica) run(runs []cache.Run, timeout time.Duration) []answer {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	sent := s.registry.now()
	answers := make([]answer, len(runs))
	answered := 0
	results := s.store.RunAll(ctx, runs)
	for i := range answers {
		answers[i].err = errAnswer // unless there is one
		if i < len(results) {
			answers[i] = read(results[i], sent)
		}
		answered += int(bit(answers[i].err == nil))
		s.heed(answers[i].err)
	}
	s.note(answered, len(runs))
	return answers
}

// read understands what the script answers.
func read(result cache.Result, sent time.Duration) answer {
	a := answer{sent: sent, err: result.Err}
	if a.err != nil {
		return a
	}
	if len(result.Values) != 4 {
		a.err = errAnswer
		return a
	}
	us, err := strconv.ParseInt(result.Values[1], 10, 64)
	if err != nil {
		a.err = errAnswer
		return a
	}
	a.code = result.Values[0]
	if packed := result.Values[2]; packed != "" {
		r, ok := decode(packed, sent-time.Duration(us)*time.Microsecond)
		if !ok {
			a.err = errAnswer
			return a
		}
		a.record = &r
	}
	for u := (unpacker{rest: []byte(result.Values[3])}); len(u.rest) > 0; {
		a.transitions = append(a.transitions, u.transition())
	}
	return a
}

// note counts what came of one round trip. Enough of them in a row without any
// answer, and the store is left alone for a while.
func (s *replica) note(answered, asked int) {
	s.tally.steps.Add(uint64(asked))
	s.tally.misses.Add(uint64(asked - answered))
	if answered > 0 {
		s.misses.Store(0)
		s.met.Store(true)
		return
	}
	if s.misses.Add(1) >= awayAfter {
		s.leave()
	}
}

// leave leaves the store alone for a while.
func (s *replica) leave() {
	now := s.registry.now()
	s.retryAt.Store(int64(later(now, awayFor)))
	if !s.away.Swap(true) {
		s.awaySince.Store(int64(now))
	}
}

// serve tells and asks until stop is closed.
func (s *replica) serve(stop <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for beat := 0; ; {
		select {
		case <-stop:
			s.flush(true)
			return
		case <-s.wake:
			if s.up() {
				s.flush(false)
			}
		case <-timer.C:
			s.beat(beat)
			beat++
			timer.Reset(flushEvery + time.Duration((rand.Float64()-0.5)*0.4*float64(flushEvery)))
		}
		if s.hurried.Swap(false) {
			timer.Reset(patience)
		}
	}
}

// beat is one turn: which circuits are not closed, and what there is to tell.
func (s *replica) beat(n int) {
	back := false
	if !s.up() {
		if s.registry.now() < time.Duration(s.retryAt.Load()) {
			return
		}
		back = true
	}
	if s.refused.Load() && !s.obeys() || !s.poll() {
		return
	}
	if back {
		s.refused.Store(false)
		s.away.Store(false)
		s.meet()
	}
	s.flush(n%successesEvery == 0)
}

// meet asks for every circuit anew, after the store was away.
func (s *replica) meet() {
	away := elapsed(s.registry.now(), time.Duration(s.awaySince.Load()))
	for _, v := range s.registry.circuits.Range {
		v.(*circuit).forget(away)
		s.ask(v.(*circuit))
	}
	if hook := s.registry.onStoreBack; hook != nil {
		hook()
	}
}

// poll looks which circuits are not closed, by one small index per group, and
// asks for those that look otherwise from here. It returns false when the store
// did not answer.
func (s *replica) poll() bool {
	listed, ok := s.indexes()
	if !ok {
		return false
	}
	for key, generation := range listed {
		if v, ok := s.registry.circuits.Load(key); ok && v.(*circuit).look().generation() != generation {
			s.ask(v.(*circuit))
		}
	}
	if s.unwell.Load() == 0 {
		return true
	}
	for key, v := range s.registry.circuits.Range {
		c := v.(*circuit)
		if _, there := listed[key.(string)]; !there && c.look()&shared != 0 && c.look().state() != Closed {
			s.ask(c)
		}
	}
	return true
}

// indexes reads the generations of all circuits that are not closed, of the
// groups that are in use here.
func (s *replica) indexes() (map[string]uint64, bool) {
	var runs []cache.Run
	for g := range groups {
		if s.inGroup[g].Load() > 0 {
			runs = append(runs, cache.Run{Script: indexScript, Keys: []string{indexKey(g)}})
		}
	}
	if len(runs) == 0 { // shows whether the store is there at all
		runs = append(runs, cache.Run{Script: indexScript, Keys: []string{indexKey(0)}})
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	listed, answered := map[string]uint64{}, 0
	for _, result := range s.store.RunAll(ctx, runs) {
		if s.heed(result.Err); result.Err != nil {
			continue
		}
		answered++
		for i := 0; i+1 < len(result.Values); i += 2 {
			generation, _ := strconv.ParseUint(result.Values[i+1], 10, 64)
			listed[result.Values[i]] = generation
		}
	}
	s.note(answered, len(runs))
	return listed, answered == len(runs)
}

// listen asks for a circuit when another replica says that it has moved.
func (s *replica) listen(ctx context.Context) {
	_ = s.store.Watch(ctx, hints, func(key string) {
		if v, ok := s.registry.circuits.Load(key); ok {
			s.ask(v.(*circuit))
			signal(s.wake)
		}
	})
}

// ask queues a circuit to be asked for.
func (s *replica) ask(c *circuit) {
	c.wanted.Store(true)
	s.enqueue(c)
}

// enqueue queues a circuit that has something to tell.
func (s *replica) enqueue(c *circuit) {
	if c.queued.Swap(true) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, c)
}

func (s *replica) queued() []*circuit {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.queue
	s.queue = nil
	return all
}

// flush tells the store what the queued circuits have seen, or all of them, and
// takes what it answers.
func (s *replica) flush(all bool) {
	if all {
		for _, v := range s.registry.circuits.Range {
			s.enqueue(v.(*circuit))
		}
	}
	var letters []letter
	for _, c := range s.queued() {
		c.queued.Store(false)
		letters = append(letters, c.letters()...)
	}
	for len(letters) > 0 {
		n := min(len(letters), pipelined)
		s.deliver(letters[:n])
		letters = letters[n:]
	}
}

// letter is a step on its way to the store.
type letter struct {
	circuit *circuit
	run     cache.Run
	news    uint64 // outcomes in it
	owed    *verdict
	said    *Command // a word in it that the store could not be told before
}

func (s *replica) deliver(letters []letter) {
	if len(letters) == 0 {
		return
	}
	runs := make([]cache.Run, len(letters))
	for i, l := range letters {
		runs[i] = l.run
	}
	for i, a := range s.run(runs, s.timeout) {
		letters[i].circuit.delivered(letters[i], a)
	}
}
