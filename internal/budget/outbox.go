package budget

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

const (
	// together is how many messages go to the store at once.
	together = 256
	// retryEvery is how long the courier waits for a store that did not answer.
	retryEvery = 50 * time.Millisecond
)

// message is a truth, or a reservation, that the store is told of. Messages of a
// scope are numbered and told in their order, until the store has taken them.
type message struct {
	numbered int64
	of       uuid.UUID // the run, where it is one
	name     string    // empty: a sum of runs of which the store knows nothing
	birth    string
	period   Period
	used     sums
	mark     bool  // the store may yet be asked to reserve for it
	adds     bool  // more than was reserved was used
	live     entry // with a state: a reservation that the store does not know
}

// raises reports whether more is counted once the message has been taken.
func (m message) raises() bool { return m.adds || m.live.state != 0 }

// post puts a message in the outbox.
func (p *purse) post(m message) {
	p.mu.Lock()
	p.numbered++
	m.numbered = p.numbered
	if last := len(p.outbox) - 1; last >= 0 && p.outbox[last].numbered > p.tried && m.name == "" && p.outbox[last].name == "" && p.outbox[last].period == m.period {
		p.outbox[last].used.add(m.used)
		p.outbox[last].numbered = m.numbered
	} else {
		p.outbox = append(p.outbox, m)
	}
	p.mu.Unlock()
	p.hurry()
}

// hurry sends what is in the outbox soon; at once where no network is in between.
func (p *purse) hurry() {
	if p.ledger.inside {
		_ = p.flush(context.Background())
		return
	}
	p.ledger.enqueue(p)
}

// take returns the messages to send next, if nobody sends some already. The
// caller holds mu, and hands the results to delivered. Until then nobody changes
// them: others only add behind them.
func (p *purse) take() []message {
	if len(p.outbox) == 0 {
		return nil
	}
	select {
	case p.turn <- struct{}{}:
	default:
		return nil
	}
	p.sent = min(len(p.outbox), together)
	p.tried = max(p.tried, p.outbox[p.sent-1].numbered)
	return p.outbox[:p.sent]
}

// delivered drops the messages that the store has taken. From the first on of
// which that is not known they are sent again. It returns what was missed.
func (p *purse) delivered(sent []message, results []cache.Result) error {
	taken, missed := 0, error(nil)
	p.mu.Lock()
	for i, r := range results {
		a, err := read(r)
		if err != nil {
			missed = err
			break
		}
		if a.code != codeUnknown && sent[i].live.state == 0 {
			p.unwritten.counted(sent[i].of, a.birth)
		}
		taken++
	}
	p.ledger.report("tell what a scope has spent", missed)
	p.drop(taken)
	p.sent = 0
	more := len(p.outbox) > 0
	p.mu.Unlock()
	<-p.turn
	if more && missed == nil {
		p.hurry()
	}
	return missed
}

// drop forgets the first messages. The caller holds mu, and the turn.
func (p *purse) drop(taken int) {
	if taken < len(p.outbox) || cap(p.outbox) > together {
		p.outbox = append([]message(nil), p.outbox[taken:]...)
		return
	}
	clear(p.outbox)
	p.outbox = p.outbox[:0]
}

// lost reports whether an error says nothing about what the store has done.
func lost(err error) bool {
	return errors.Is(err, cache.ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// flush sends the messages of a scope until there are none or the store is away.
func (p *purse) flush(ctx context.Context) error {
	for {
		p.mu.Lock()
		ahead := p.take()
		p.mu.Unlock()
		if len(ahead) == 0 {
			return nil
		}
		if err := p.tell(ctx, ahead); err != nil {
			return err
		}
	}
}

// tell sends messages. It returns what was missed.
func (p *purse) tell(ctx context.Context, messages []message) error {
	if len(messages) > 1 {
		return p.delivered(messages, p.ledger.store.RunAll(ctx, p.runs(messages)))
	}
	run := messages[0].run(p)
	values, err := p.ledger.store.Run(ctx, run.Script, run.Keys, run.Args...)
	one := [1]cache.Result{{Values: values, Err: err}}
	return p.delivered(messages, one[:])
}

func (p *purse) runs(messages []message) []cache.Run {
	runs := make([]cache.Run, len(messages), len(messages)+1)
	for i, m := range messages {
		runs[i] = m.run(p)
	}
	return runs
}

func (m message) run(p *purse) cache.Run {
	if m.live.state != 0 {
		return p.step(stepTell, "", number(m.numbered), "0", "", m.name, m.live.encode(), "")
	}
	return p.step(stepSettle, "", m.name, m.period.Day, m.period.Month, m.birth,
		pack(m.numbered, m.used.requests, m.used.tokens, m.used.nano), bit(m.mark))
}

// enqueue lets the courier look at a scope soon.
func (l *Ledger) enqueue(p *purse) {
	if l.queueUp(p) {
		signal(l.wake)
	}
}

// queueUp lets the courier look at a scope the next time it looks, and reports
// whether it was not to already.
func (l *Ledger) queueUp(p *purse) bool {
	p.mu.Lock()
	queued := p.queued
	p.queued = true
	p.mu.Unlock()
	if queued {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, p)
	return true
}

func (l *Ledger) queued() []*purse {
	l.mu.Lock()
	all := l.queue
	l.queue = nil
	l.mu.Unlock()
	for _, p := range all {
		p.mu.Lock()
		p.queued = false
		p.mu.Unlock()
	}
	return all
}

// deliver tells the store what there is to tell of all scopes, many at once. It
// returns false when something is left for later.
func (l *Ledger) deliver(ctx context.Context) bool {
	purses := l.queued()
	all := true
	for len(purses) > 0 {
		var runs []cache.Run
		var from []*purse
		var sent [][]message
		for len(purses) > 0 && len(runs) < together {
			p := purses[0]
			purses = purses[1:]
			p.mu.Lock()
			ahead := p.take()
			left := ahead == nil && len(p.outbox) > 0
			p.mu.Unlock()
			if left { // whoever sends now looks again
				continue
			}
			runs, from, sent = append(runs, p.runs(ahead)...), append(from, p), append(sent, ahead)
		}
		if len(runs) == 0 {
			continue
		}
		results := l.store.RunAll(ctx, runs)
		for i, p := range from {
			n := len(sent[i])
			if n > 0 && p.delivered(sent[i], results[:n]) != nil {
				_ = l.queueUp(p)
				all = false
			}
			results = results[n:]
		}
	}
	return all
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
