package budget

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

// aloneFor is how long a scope goes without a store that is silent about it, until
// a call tries it again.
const aloneFor = time.Second

// share is this replica's part of what was left of a scope when the store went
// away. Every replica takes as much, so that together they stay within it.
type share struct {
	replicas int64
	taken    map[string]sums // by period: what was spent or reserved by then
}

// of are the limits of the share. A limit of a minute, or of calls at once, is
// never less than one: it gives back by itself.
func (s *share) of(c caps, period Period) caps {
	day, month := s.taken[period.Day], s.taken[period.Month]
	for i, limit := range c {
		switch {
		case limit == none:
		case i < atRequestsPerDay:
			c[i] = min(max(limit/s.replicas, 1), limit)
		case i < atRequestsPerMonth:
			c[i] = part(limit, day.total(i), s.replicas)
		default:
			c[i] = part(limit, month.total(i), s.replicas)
		}
	}
	return c
}

func part(limit, taken, replicas int64) int64 {
	if taken >= limit {
		return limit
	}
	return taken + (limit-taken)/replicas
}

func (s sums) total(limit int) int64 {
	if limit == atRequestsPerDay || limit == atRequestsPerMonth {
		return s.requests
	}
	return s.of(limit)
}

// missed notes that the store did not answer for the nth time since a call has
// begun to ask, and reports whether the scope goes on without it. A store that
// answers others is slow, and the call tries on for a while; then it is silent
// about this scope alone, as a cluster is of which one part is gone.
func (p *purse) missed(ctx context.Context, err error, n int, began time.Time) bool {
	l := p.ledger
	if !errors.Is(err, cache.ErrUnavailable) {
		p.standAlone(err)
		return true
	}
	if n+1 < tries {
		return false
	}
	if l.heard.Load() <= began.UnixNano() { // perhaps nobody else has asked
		if _, away := l.meet(ctx, "", 0); away != nil && ctx.Err() == nil {
			l.leave()
			return true
		}
	}
	if time.Since(began) >= slowFor {
		p.standAlone(err)
		return true
	}
	select {
	case <-time.After(slowPause):
	case <-ctx.Done():
	}
	return false
}

// standAlone goes on without the store in this scope, for a while. Then it is
// asked again.
func (p *purse) standAlone(err error) {
	p.aloneUntil.Store(time.Now().Add(aloneFor).UnixNano())
	p.mu.Lock()
	before := p.parted
	p.parted = true
	p.mu.Unlock()
	if before {
		return
	}
	p.ledger.parted.Add(1)
	p.ledger.log.Warn("the limits of a scope are kept by this gateway alone, within its share of what was left: the cache does not answer about it",
		"kind", string(p.scope.Kind), "id", p.scope.ID, "error", err)
}

// alone reports whether the scope is counted without the store.
func (p *purse) alone() bool {
	return p.ledger.away.Load() || time.Now().UnixNano() < p.aloneUntil.Load()
}

// mayAsk reports whether a call is to ask the store about the scope. When the time
// is over in which it is left alone, one call is: it finds out for the others,
// which go on without.
func (p *purse) mayAsk() bool {
	until := p.aloneUntil.Load()
	if until == 0 {
		return true
	}
	now := time.Now()
	return now.UnixNano() >= until && p.aloneUntil.CompareAndSwap(until, now.Add(aloneFor).UnixNano())
}

// leave goes on without the store until a probe finds it.
func (l *Ledger) leave() {
	if !l.away.Swap(true) {
		l.log.Warn("limits are kept by this gateway alone, within its share of what was left: the cache is away")
	}
	signal(l.probe)
}

// askOffline asks the counters of this replica.
func (p *purse) askOffline(ctx context.Context, s *seat, r request, began time.Time) (answer, asking, error) {
	how := p.begin(asking{offline: true, token: p.ledger.token()})
	how.overtakes = false // this replica's own counters are told at once
	p.mu.Lock()
	if p.offline == nil && !p.alone() { // it has just come back
		p.mu.Unlock()
		how.heeded()
		return p.askSince(ctx, s, r, began)
	}
	if p.offline == nil {
		p.offline = &share{replicas: p.ledger.fleet.size(), taken: map[string]sums{}}
	}
	how.caps = p.offline.of(r.limits, s.period)
	p.mu.Unlock()
	a, err := p.runOffline(ctx, p.request(s, r, how.caps, how.token))
	if err != nil {
		how.heeded()
	}
	return a, how, err
}

func (p *purse) runOffline(ctx context.Context, run cache.Run) (answer, error) {
	values, err := p.ledger.local.Run(ctx, run.Script, run.Keys, run.Args...)
	p.ledger.report("count in this gateway's memory", err)
	return read(cache.Result{Values: values, Err: err})
}

// rebuildOffline begins the counters of this replica, with what it last saw of
// those in the store, else with what the database has.
func (p *purse) rebuildOffline(ctx context.Context, period Period, how asking, budgeted bool) {
	p.mu.Lock()
	known, alive := p.known, p.alive()
	h := hearing{entries: map[string]entry{}}
	for _, r := range p.unwritten.all() {
		h.entries[r.name] = r.entry()
	}
	p.mu.Unlock()

	var f found
	var err error
	if known.day == period.Day && known.month == period.Month {
		f = known.taken(period, alive)
	} else if f, err = p.ledger.look(ctx, p.scope, period, h); err != nil && budgeted && !p.ledger.allow {
		p.shutFor(refuseFor)
		_, _ = p.runOffline(ctx, p.step(stepYield, how.token))
		return
	} else if p.ledger.books != nil && err == nil {
		f.addUnwritten(h, period)
	}
	p.openOffline(ctx, period, how, f, alive)
}

func (p *purse) openOffline(ctx context.Context, period Period, how asking, f found, alive map[string]entry) {
	day, month := f.day, f.month
	args := []string{"0", "0", ""}
	for name, e := range alive {
		args = append(args, name, e.encode(), "")
		if e.day == period.Day {
			day.add(e.amount)
		}
		if e.month == period.Month {
			month.add(e.amount)
		}
	}
	p.mu.Lock()
	if p.offline == nil { // the store is back
		p.mu.Unlock()
		_, _ = p.runOffline(ctx, p.step(stepYield, how.token)) // nobody is to wait for this rebuilding
		return
	}
	taken := maps.Clone(p.offline.taken)
	taken[period.Day], taken[period.Month] = day, month
	p.offline = &share{replicas: p.offline.replicas, taken: taken}
	p.mu.Unlock()
	if _, err := p.runOffline(ctx, p.step(stepTell, "", args...)); err != nil {
		return
	}
	f.written = nil
	_, _ = p.runOffline(ctx, p.step(stepOpen, how.token, p.opening(period, f, false)...))
}

// addUnwritten adds what this replica has settled and the database has not.
func (f *found) addUnwritten(h hearing, period Period) {
	for _, name := range f.written {
		delete(h.entries, name)
	}
	for _, e := range h.entries {
		if e.day == period.Day {
			f.day.add(e.amount)
		}
		if e.month == period.Month {
			f.month.add(e.amount)
		}
	}
}

// alive are the reservations of this replica. The caller holds mu.
func (p *purse) alive() map[string]entry {
	all := make(map[string]entry, len(p.live))
	for name, h := range p.live {
		all[name] = h.entry(p.ledger.lease)
	}
	return all
}

func (h *holding) entry(lease time.Duration) entry {
	return entry{
		state: stateLive, expires: lease.Milliseconds(), at: h.at, counted: h.at > 0,
		amount: h.amount, day: h.period.Day, month: h.period.Month,
	}
}

// settleOffline settles in the counters of this replica too.
func (p *purse) settleOffline(m message) {
	m.birth, m.numbered = "", 0
	_, _ = p.runOffline(context.Background(), m.run(p))
}

// rejoin goes back to the store, which hears of everything that was reserved
// without it, and reports whether the counters of this replica are kept meanwhile:
// until the store has answered, it may be away still.
func (p *purse) rejoin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.offline == nil || p.ledger.away.Load() {
		return false
	}
	p.introduceAll()
	return true
}

// answered goes back to counters that are known again.
func (p *purse) answered(period Period, a answer) {
	p.aloneUntil.Store(0)
	switch a.code {
	case codeGranted, codeRefused, codeDone:
		p.saw(period, a.numbers)
		p.together()
	}
}

// together gives up the counters of this replica, as the store has answered;
// unless what it has not taken yet would be in no counters then.
func (p *purse) together() {
	until := p.aloneUntil.Load()
	p.mu.Lock()
	if p.offline == nil && !p.parted || p.alone() || slices.ContainsFunc(p.outbox, message.raises) {
		p.mu.Unlock()
		return
	}
	parted := p.parted
	p.offline, p.parted = nil, false
	p.introduceAll()
	p.mu.Unlock()
	p.aloneUntil.CompareAndSwap(until, 0) // all may ask again, not one
	_ = p.ledger.local.Delete(context.Background(), p.key)
	p.ledger.enqueue(p)
	if parted {
		p.ledger.parted.Add(-1)
		p.ledger.log.Info("the limits of a scope are shared again: the cache answers about it", "kind", string(p.scope.Kind), "id", p.scope.ID)
	}
}

// introduceAll queues the reservations that the store does not know. The caller
// holds mu.
func (p *purse) introduceAll() {
	for _, h := range p.live {
		p.introduce(h)
	}
}

// introduce queues a reservation that the store does not know. The caller holds
// mu.
func (p *purse) introduce(h *holding) {
	if h.stored {
		return
	}
	h.stored, h.introduced, h.birth = true, true, ""
	p.numbered++
	p.outbox = append(p.outbox, message{numbered: p.numbered, name: h.name, period: h.period, live: h.entry(p.ledger.lease)})
}
