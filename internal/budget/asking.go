package budget

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

const (
	// tries is how often a reservation is sent to a store that is there and does
	// not answer in time.
	tries = 3
	// slowFor is how long it is tried while the store answers others, and slowPause
	// how long between two tries beyond the first.
	slowFor   = 250 * time.Millisecond
	slowPause = 5 * time.Millisecond
)

// asking is how a reservation was asked for.
type asking struct {
	caps      caps
	offline   bool
	overtakes bool   // perhaps what was settled here before
	token     string // by which it may rebuild the counters
	round     *sync.WaitGroup
}

// heeded ends what tellAll waits for: the answer has been taken.
func (a asking) heeded() { a.round.Done() }

// begin begins what tellAll waits for.
func (p *purse) begin(how asking) asking {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.round.Add(1)
	how.round, how.overtakes = p.round, len(p.outbox) > 0
	return how
}

// request is what a scope is asked.
type request struct {
	step    string
	want    sums
	limits  caps
	patient bool // it overtakes nothing that was settled here before
}

// request is what is asked as the store takes it.
func (p *purse) request(s *seat, r request, limits caps, token string) cache.Run {
	if r.step == stepLook {
		return p.step(r.step, token, s.period.Day, s.period.Month)
	}
	return p.step(r.step, token, s.name, s.period.Day, s.period.Month, pack(r.want.tokens, r.want.nano), p.packed(limits))
}

// packed is the limits as the script takes them, which are the same from one call
// to the next.
func (p *purse) packed(limits caps) string {
	if last := p.limits.Load(); last != nil && last.caps == limits {
		return last.text
	}
	fresh := &packedCaps{caps: limits, text: limits.pack()}
	p.limits.Store(fresh)
	return fresh.text
}

// packedCaps are limits with how the script takes them.
type packedCaps struct {
	caps caps
	text string
}

// ask asks the store, behind what there is to tell it of the scope, or, while it
// is away or silent about the scope, the counters of this replica.
func (p *purse) ask(ctx context.Context, s *seat, r request) (answer, asking, error) {
	return p.askSince(ctx, s, r, time.Now())
}

func (p *purse) askSince(ctx context.Context, s *seat, r request, began time.Time) (answer, asking, error) {
	l := p.ledger
	for n := 0; !l.away.Load() && (n > 0 || p.mayAsk()); n++ {
		apart := p.rejoin()
		how := p.begin(asking{caps: r.limits, token: l.token()})
		a, err := p.sendBehind(ctx, p.request(s, r, r.limits, how.token), r.patient)
		if err == nil {
			l.heard.Store(time.Now().UnixNano())
			if apart || p.aloneUntil.Load() != 0 {
				p.answered(s.period, a)
			}
			return a, how, nil
		}
		how.heeded()
		l.work.Go(func() { p.yield(how.token) })
		if !s.granted && r.step == stepReserve {
			s.doubt = true
		}
		if ctx.Err() != nil {
			return answer{}, how, err
		}
		if p.missed(ctx, err, n, began) {
			break
		}
	}
	return p.askOffline(ctx, s, r, began)
}

// step is one run of the script for the scope.
func (p *purse) step(name, token string, args ...string) cache.Run {
	l := p.ledger
	all := make([]string, 0, stepArgs+len(args))
	all = append(all, name, l.clock(), l.leased, l.replica, token)
	return cache.Run{Script: ledgerScript, Keys: p.keys, Args: append(all, args...)}
}

// send runs a step behind what there is to tell.
func (p *purse) send(ctx context.Context, run cache.Run) (answer, error) {
	return p.sendBehind(ctx, run, false)
}

func (p *purse) sendBehind(ctx context.Context, run cache.Run, patient bool) (answer, error) {
	ahead, err := p.allAhead(ctx, patient)
	if err != nil {
		return answer{}, err
	}
	if len(ahead) == 0 {
		values, err := p.ledger.store.Run(ctx, run.Script, run.Keys, run.Args...)
		return read(cache.Result{Values: values, Err: err})
	}
	results := p.ledger.store.RunAll(ctx, append(p.runs(ahead), run))
	_ = p.delivered(ahead, results[:len(ahead)]) // what is missed is told again
	return read(results[len(ahead)])
}

// allAhead returns the messages that a step has to come behind, once those have
// been told that do not go with it.
func (p *purse) allAhead(ctx context.Context, patient bool) ([]message, error) {
	for {
		ahead, all, err := p.nextAhead(ctx, patient)
		if err != nil || all {
			return ahead, err
		}
		if err := p.tell(ctx, ahead); err != nil {
			return nil, err
		}
	}
}

// nextAhead returns the first messages that a step has to come behind, and
// whether these are all. Nobody knows whether those that somebody else is sending
// will come before it, so it waits for them, unless it may overtake them: none
// adds to what is counted, and the step is not patient.
func (p *purse) nextAhead(ctx context.Context, patient bool) (ahead []message, all bool, err error) {
	p.mu.Lock()
	ahead = p.take()
	under := p.outbox[:p.sent]
	all = len(p.outbox) == p.sent
	if ahead != nil || all && (len(under) == 0 || !patient && !slices.ContainsFunc(under, message.raises)) {
		p.mu.Unlock()
		return ahead, all, nil
	}
	p.mu.Unlock()
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.outbox) == 0 {
		<-p.turn
		return nil, true, nil
	}
	p.sent = min(len(p.outbox), together)
	p.tried = max(p.tried, p.outbox[p.sent-1].numbered)
	return p.outbox[:p.sent], len(p.outbox) == p.sent, nil
}
