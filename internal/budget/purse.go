package budget

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

const (
	// pollEvery is how often lost counters are asked for that another replica
	// rebuilds; its word that they are there comes sooner.
	pollEvery = 25 * time.Millisecond
	// refuseFor is how long calls are refused without asking the database again
	// for what it could not tell.
	refuseFor = time.Second
)

// errUnknown says why a call is refused whose scope's spending nobody knows.
var errUnknown = errors.New("what was spent is not known: the counters are lost and the database is away; calls go on when it is back, or with budget.on_unknown: allow")

// purse is one scope as this replica knows it.
type purse struct {
	ledger *Ledger
	scope  llm.Scope
	key    string
	keys   []string // the key alone

	limits atomic.Pointer[packedCaps] // of the last call

	turn       chan struct{} // holds a place for whoever sends messages
	aloneUntil atomic.Int64  // until when the store is not asked about the scope, in nanoseconds

	mu        sync.Mutex
	live      map[string]*holding // by name; granted, not settled
	unwritten ring                // settled, perhaps not yet in the database
	recent    []uuid.UUID         // of them, those that are in the database
	outbox    []message           // for the store, the oldest first
	sent      int                 // how many of them are on their way
	queued    bool                // the courier will look
	numbered  int64               // of the last message
	tried     int64               // the number of the last that was ever sent
	round     *sync.WaitGroup     // reservations on their way to the store
	known     seen
	opened    chan struct{} // closed when the counters are there again
	told      chan struct{} // closed when a replica has told what it knows
	guessed   bool          // opened here without the database
	shut      time.Time     // until when nobody asks again what is unknown
	offline   *share        // not nil: counted here too, as the store did not answer last
	parted    bool          // the store answers others, and is silent about the scope
	touched   time.Time
}

// holding is what a run holds of a scope.
type holding struct {
	run        uuid.UUID
	name       string
	period     Period
	granted    bool
	amount     sums
	asked      sums
	at         int64  // the second of the window that it is counted in; 0 = none
	birth      string // of the counters that granted it; empty: they may not know it
	doubt      bool   // a message is under way that may still reserve it
	stored     bool   // the store has been told of it
	introduced bool   // by a message, which may be sent again after the run was settled
}

func newPurse(l *Ledger, scope llm.Scope) *purse {
	key := scopeKey(scope)
	return &purse{
		ledger: l, scope: scope, key: key, keys: []string{key}, live: map[string]*holding{},
		touched: time.Now(), turn: make(chan struct{}, 1), round: &sync.WaitGroup{}, opened: make(chan struct{}), told: make(chan struct{}),
	}
}

// scopeKey names a scope's hash. All of it is in the tag, so that a cluster keeps
// it in one place.
func scopeKey(scope llm.Scope) string {
	id := scope.ID
	if strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' || r == '{' || r == '}' }) || len(id) > 200 || strings.HasPrefix(id, "0x") {
		id = "0x" + hex.EncodeToString([]byte(id))
	}
	return "budget:{" + string(scope.Kind) + ":" + id + "}"
}

// reserve sets what a seat's run may use.
func (p *purse) reserve(ctx context.Context, s *seat, want sums) (numbers, error) {
	s.asked = want
	r := request{step: stepReserve, want: want, limits: s.caps}
	for {
		a, how, err := p.ask(ctx, s, r)
		switch {
		case err != nil && ctx.Err() != nil:
			p.doubt(s)
			return numbers{}, ctx.Err()
		case err != nil:
			return numbers{}, err
		case a.code == codeGranted:
			p.grant(s, want, a, how.offline)
			how.heeded()
			return a.numbers, nil
		case a.code == codeRefused && !how.offline: // by what others have taken
			p.saw(s.period, a.numbers)
		}
		how.heeded()
		switch {
		case a.code == codeRefused && how.overtakes && !r.patient:
			r.patient = true // what was settled before may leave room
		case a.code == codeRefused:
			why, err := a.refusal()
			if err != nil {
				return numbers{}, err
			}
			if s.doubt {
				p.doubt(s)
			}
			return a.numbers, s.refused(why, time.Now(), how.caps)
		case a.code == codeOver:
			s.rename()
		default:
			if err := p.learn(ctx, s, a, how); err != nil {
				return numbers{}, err
			}
		}
	}
}

// resize sets what a run holds without asking whether it fits.
func (p *purse) resize(ctx context.Context, s *seat, amount sums) error {
	a, how, err := p.ask(ctx, s, request{step: stepReserve, want: amount, limits: unlimited()})
	if err != nil {
		return err
	}
	defer how.heeded()
	if a.code != codeGranted {
		return nil // what it holds is a bound still
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.live[s.name]; h != nil {
		h.amount = amount
	}
	s.amount = amount
	return nil
}

// grant notes what was granted.
func (p *purse) grant(s *seat, want sums, a answer, offline bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.granted && (s.caps[atRequestsPerMinute] != none || s.caps[atTokensPerMinute] != none) {
		s.at = a.now / 1000
	}
	s.granted, s.amount = true, want
	if !offline {
		s.birth, s.stored = a.birth, true
	}
	if kept := p.live[s.name]; kept != nil { // as another call may have changed it since
		s.introduced = kept.introduced
		if offline {
			s.birth, s.stored = kept.birth, kept.stored
		}
	}
	h := &s.kept
	*h = s.holding
	p.live[s.name] = h
	p.touched = time.Now()
	switch {
	case !offline:
		p.known.note(s.period, a.numbers)
	case p.offline == nil: // the store came back meanwhile
		p.introduce(h)
	}
}

// doubt gives up a name under which the store may have reserved something, or
// may still do so.
func (p *purse) doubt(s *seat) {
	if s.granted { // its settlement replaces whatever was reserved
		return
	}
	s.doubt = true
	p.post(message{name: s.name, period: s.period, mark: true})
	s.rename()
}

// settle replaces what a run holds by the truth.
func (p *purse) settle(h *holding, used sums) {
	p.mu.Lock()
	if kept := p.live[h.name]; kept != nil {
		*h = *kept // with what was learnt of it since
	}
	delete(p.live, h.name)
	if used.requests > 0 {
		p.known.settled(h.period, used)
		p.keep(record{run: h.run, name: h.name, period: h.period, used: used, at: h.at})
	}
	offline := p.offline != nil
	p.mu.Unlock()

	m := message{of: h.run, name: h.name, birth: h.birth, period: h.period, used: used, mark: h.doubt || h.introduced, adds: used.exceeds(h.amount)}
	if offline {
		p.settleOffline(m)
	}
	if !h.stored && !h.doubt { // nobody knows its name
		if m.name, m.adds = "", true; used == (sums{}) {
			return
		}
	}
	p.post(m)
}

// keep remembers a run until the database has it. The caller holds mu.
func (p *purse) keep(r record) {
	p.ledger.runs.add(r.run, p)
	if dropped := p.unwritten.add(r); dropped != uuid.Nil {
		p.ledger.runs.drop(dropped, p)
	}
}

// learn deals with counters that are lost: it rebuilds them, or waits for who
// does.
func (p *purse) learn(ctx context.Context, s *seat, a answer, how asking) error {
	p.mu.Lock()
	shut, opened := p.shut, p.opened
	p.mu.Unlock()
	if s.caps.budgeted() && time.Now().Before(shut) {
		p.giveUp(how, a)
		return p.unknown(s)
	}
	wait := pollEvery
	if slices.Contains(a.more, toRebuild) {
		opened, wait = make(chan struct{}), claimLife*time.Millisecond
		p.ledger.work.Go(func() {
			defer close(opened)
			p.rebuild(s.period, how, s.caps.budgeted())
		})
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-opened:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// unknown refuses a call of a scope whose spending nobody knows.
func (p *purse) unknown(s *seat) error {
	at := s.caps.firstBudget()
	return &llm.Failure{Class: llm.ClassBudgetDenied, Reason: llm.ReasonBudgetExceeded, Err: errUnknown, Denial: &llm.Denial{
		Scope: p.scope, Limit: llm.LimitNames()[at], Allowed: inUnit(at, s.caps[at]), Asked: inUnit(at, s.asked.of(at)),
	}}
}
