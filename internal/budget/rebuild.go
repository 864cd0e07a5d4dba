package budget

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

const (
	// hearFor is how long a rebuilding waits for what other replicas know.
	hearFor = time.Second
	// askAgain is how long it waits until it asks again those that have not heard.
	askAgain = 200 * time.Millisecond
	// booksFor is how long it waits for the database.
	booksFor = 2 * time.Second
	// chunk is how many runs are told at once.
	chunk = 200
)

// rebuild begins the counters of a period anew: with what the database has, what
// the replicas still hold, and what they have settled and the database has not.
func (p *purse) rebuild(period Period, how asking, budgeted bool) {
	ctx, cancel := context.WithTimeout(context.Background(), claimLife*time.Millisecond)
	defer cancel()
	if how.offline {
		p.rebuildOffline(ctx, period, how, budgeted)
		return
	}
	if err := p.tellAll(ctx); err != nil {
		p.ledger.report(tellCounters, err)
		p.yield(how.token) // the next that asks begins anew, or finds the store away
		return
	}
	told, err := p.hear(ctx, how.token)
	if err != nil {
		p.ledger.report("hear what other gateways know of lost counters", err)
		p.yield(how.token)
		return
	}
	spent, err := p.ledger.look(ctx, p.scope, period, told)
	if err != nil && budgeted && !p.ledger.allow {
		p.shutFor(refuseFor)
		_, _ = p.send(ctx, p.step(stepYield, how.token))
		return
	}
	a, err := p.send(ctx, p.step(stepOpen, how.token, p.opening(period, spent, err != nil)...))
	p.ledger.report("begin lost counters anew", err)
	if err == nil && a.code == codeDone {
		p.wasOpened(period, a, spent.guess)
	}
}

// opening are the arguments of open.
func (p *purse) opening(period Period, f found, guess bool) []string {
	now := p.ledger.period(time.Now())
	args := []string{now.Day, now.Month, period.Day, period.Month}
	for _, s := range [2]sums{f.day, f.month} {
		args = append(args, number(s.requests), number(s.tokens), number(s.nano))
	}
	return append(append(args, bit(guess)), f.written...)
}

func (p *purse) wasOpened(period Period, a answer, guess bool) {
	p.saw(period, a.numbers)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.guessed = guess
}

func (p *purse) shutFor(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = time.Now().Add(d)
}

// giveUp leaves to others a rebuilding that the replica was given and does not
// want.
func (p *purse) giveUp(how asking, a answer) {
	if len(a.more) == 0 || a.more[0] != toRebuild {
		return
	}
	if how.offline {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = p.runOffline(ctx, p.step(stepYield, how.token))
		return
	}
	p.yield(how.token)
}

// yield leaves a rebuilding to others that the store may have given to a token:
// where its answer is lost nobody goes on with it, and all calls of the scope
// would wait until it is taken for dead.
func (p *purse) yield(token string) {
	if p.ledger.away.Load() {
		return // it is given to others by the time the store is back
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = p.send(ctx, p.step(stepYield, token))
}

// hearing is what was told for a rebuilding.
type hearing struct {
	replicas map[string]string // with what each has last seen
	entries  map[string]entry  // of runs that the database may have counted
}

// hear waits until all replicas that are known to live have told what they know.
func (p *purse) hear(ctx context.Context, token string) (hearing, error) {
	began := time.Now()
	asked := began
	others := p.ledger.others(ctx)
	for {
		p.mu.Lock()
		told := p.told
		p.mu.Unlock()
		again := time.Since(asked) >= askAgain
		if again {
			asked = time.Now()
		}
		a, err := p.send(ctx, p.step(stepGather, token, bit(again)))
		if err != nil {
			return hearing{}, err
		}
		h, ok := a.hearing()
		if !ok {
			return hearing{}, errAnswer
		}
		if h.has(others) || time.Since(began) >= hearFor {
			return h, nil
		}
		timer := time.NewTimer(pollEvery)
		select {
		case <-told:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return hearing{}, ctx.Err()
		}
		timer.Stop()
	}
}

func (h hearing) has(replicas []string) bool {
	for _, r := range replicas {
		if _, ok := h.replicas[r]; !ok {
			return false
		}
	}
	return true
}

func (a answer) hearing() (hearing, bool) {
	h := hearing{replicas: map[string]string{}, entries: map[string]entry{}}
	if len(a.more) == 0 {
		return h, false
	}
	r := reader{rest: a.more[0]}
	n := int(r.number())
	if rest := a.more[1:]; r.done() && len(rest) >= 2*n && len(rest)%2 == 0 {
		for i := 0; i < len(rest); i += 2 {
			if i < 2*n {
				h.replicas[rest[i]] = rest[i+1]
			} else if e, ok := decodeEntry(rest[i+1]); ok {
				h.entries[rest[i]] = e
			}
		}
		return h, true
	}
	return h, false
}

// found is what a rebuilding begins with.
type found struct {
	day, month sums
	written    []string // the runs that are in them
	guess      bool     // the database could not tell
}

// look asks the database what was spent, and, when it cannot tell, the replicas.
func (l *Ledger) look(ctx context.Context, scope llm.Scope, period Period, h hearing) (found, error) {
	if l.books == nil {
		return h.guess(period), nil
	}
	runs := make([]uuid.UUID, 0, len(h.entries))
	names := make(map[uuid.UUID][]string, len(h.entries))
	for name := range h.entries {
		if run, ok := runOf(name); ok {
			runs = append(runs, run)
			names[run] = append(names[run], name)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, booksFor)
	defer cancel()
	day, month, written, err := l.books.Spent(ctx, scope, period.Days(), runs)
	if err != nil {
		l.log.Warn("what was spent could not be read; the counters begin with what the gateways know, or calls are refused", "scope", string(scope.Kind), "error", err)
		f := h.guess(period)
		f.guess = true
		return f, err
	}
	f := found{day: day.sums(), month: month.sums()}
	for run := range written {
		if written[run] {
			f.written = append(f.written, names[run]...)
		}
	}
	return f, nil
}

// tellAll tells lost counters what this replica knows of the scope.
func (p *purse) tellAll(ctx context.Context) error {
	p.mu.Lock()
	round := p.round // what the old counters granted, and we have not heard of yet
	p.round = &sync.WaitGroup{}
	p.mu.Unlock()
	round.Wait()
	select {
	case p.turn <- struct{}{}: // no message goes until all is told
	case <-ctx.Done():
		return ctx.Err()
	}
	defer p.hurry()
	defer func() { <-p.turn }()

	p.mu.Lock()
	runs, told, covered := p.story(), p.unwritten.all(), len(p.outbox)
	names := slices.Collect(maps.Keys(p.live))
	numbered, seen := p.numbered, p.known.tell()
	p.mu.Unlock()
	var a answer
	for {
		part := runs[:min(len(runs), 3*chunk)]
		runs = runs[len(part):]
		args := append([]string{number(numbered), bit(len(runs) == 0), seen}, part...)
		values, err := p.ledger.store.Run(ctx, ledgerScript, p.keys, p.step(stepTell, "", args...).Args...)
		if a, err = read(cache.Result{Values: values, Err: err}); err != nil || a.code == codeUnknown {
			return err
		}
		if len(runs) == 0 {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.code == codeDone { // and not counters that are there, which take the messages
		p.outbox = append([]message(nil), p.outbox[covered:]...)
	}
	for _, r := range told {
		if a.code == codeDone || r.birth != "" {
			p.unwritten.counted(r.run, a.birth)
		}
	}
	for _, name := range names {
		if h := p.live[name]; h != nil {
			h.birth, h.stored = a.birth, true
		}
	}
	return nil
}

// story is all that this replica knows of runs, as tell takes it. The caller
// holds mu.
func (p *purse) story() []string {
	var runs []string
	for name, h := range p.live {
		runs = append(runs, name, h.entry(p.ledger.lease).encode(), h.birth)
	}
	for _, r := range p.unwritten.all() {
		runs = append(runs, r.name, r.entry().encode(), r.birth)
	}
	return runs
}
