package budget

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

const (
	// probeEvery is how often a store that is away is looked for.
	probeEvery = 100 * time.Millisecond
	// gatherFor is how long a replica that has found the store again keeps to its
	// share while others are missing that it knew before: a store that is empty is
	// then rebuilt with what all of them have spent meanwhile.
	gatherFor = 3 * time.Second
	// touchedFor is how long a scope is looked at that nobody calls for.
	touchedFor = 10 * time.Minute
	// forgetAfter is how long it is remembered at all.
	forgetAfter = time.Hour
	// drainFor bounds Stop where its context does not.
	drainFor = 5 * time.Second
)

// Start begins to keep reservations alive, to deliver settlements, and to answer
// other replicas. It returns at once.
func (l *Ledger) Start() {
	ctx, stop := context.WithCancel(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		stop()
		return
	}
	l.stop, l.over = stop, make(chan struct{})
	over := l.over
	var tasks sync.WaitGroup
	tasks.Go(func() { l.listen(ctx) })
	tasks.Go(func() { l.beats(ctx) })
	tasks.Go(func() { l.courier(ctx) })
	go func() {
		tasks.Wait()
		l.work.Wait()
		close(over)
	}()
}

// Stop tells the store what there is to tell, while ctx lasts, and ends what Start
// began. It may be called twice.
func (l *Ledger) Stop(ctx context.Context) {
	l.mu.Lock()
	stop, over := l.stop, l.over
	l.mu.Unlock()
	if stop == nil {
		l.work.Wait()
		l.close()
		return
	}
	stop()
	<-over
	ctx, cancel := context.WithTimeout(ctx, drainFor)
	defer cancel()
	for !l.away.Load() && !l.deliver(ctx) && ctx.Err() == nil {
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
		}
	}
	_, _ = l.meet(ctx, l.replica, 0)
	l.close()
}

func (l *Ledger) close() {
	_ = l.local.Close()
	if l.private != nil {
		_ = l.private.Close()
	}
}

// listen answers what is told on the channel of hints.
func (l *Ledger) listen(ctx context.Context) {
	_ = l.store.Watch(ctx, hints, func(message string) {
		word, about, _ := strings.Cut(message, " ")
		switch word {
		case "hi":
			l.fleet.seen(about, time.Now())
		case "bye":
			l.fleet.left(about)
		case "ask":
			l.work.Go(func() { l.answer(ctx, about) })
		case "told":
			l.notify(about, func(p *purse) *chan struct{} { return &p.told })
		case "open":
			l.notify(about, func(p *purse) *chan struct{} { return &p.opened })
		}
	})
}

// answer tells what this replica knows of a scope; also that it knows nothing.
func (l *Ledger) answer(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(ctx, hearFor)
	defer cancel()
	if l.away.Load() { // whoever asks is back, and so is the store
		l.rejoin()
	}
	if p, ok := l.keys.Load(key); ok {
		l.report(tellCounters, p.(*purse).tellAll(ctx))
		return
	}
	_, err := l.store.Run(ctx, ledgerScript, []string{key}, stepTell, l.clock(), l.leased, l.replica, "", "0", "1", "")
	l.report(tellCounters, err)
}

// notify wakes whoever waits for word of a scope.
func (l *Ledger) notify(key string, of func(*purse) *chan struct{}) {
	v, ok := l.keys.Load(key)
	if !ok {
		return
	}
	p := v.(*purse)
	p.mu.Lock()
	defer p.mu.Unlock()
	c := of(p)
	close(*c)
	*c = make(chan struct{})
}

// courier delivers settlements, and looks for a store that is away.
func (l *Ledger) courier(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-l.probe:
		case <-timer.C:
		}
		switch {
		case l.away.Load():
			l.seek(ctx, timer)
		case !l.deliver(ctx):
			timer.Reset(retryEvery)
		}
	}
}

// seek looks for the store, and goes back to it.
func (l *Ledger) seek(ctx context.Context, timer *time.Timer) {
	names, err := l.meet(ctx, l.replica, l.alive())
	switch {
	case err != nil:
		l.found = time.Time{}
	case l.found.IsZero():
		l.found = time.Now()
	}
	if err != nil || !l.fleet.complete(names) && time.Since(l.found) < gatherFor {
		timer.Reset(probeEvery*4/5 + rand.N(probeEvery*2/5))
		return
	}
	l.found = time.Time{}
	l.rejoin()
	if !l.deliver(ctx) {
		timer.Reset(retryEvery)
	}
}

// rejoin goes back to the store.
func (l *Ledger) rejoin() {
	if !l.away.Swap(false) {
		return
	}
	l.log.Info("limits are shared again: the cache is back")
	for _, v := range l.purses.Range {
		if p := v.(*purse); p.rejoin() {
			l.enqueue(p)
		}
	}
}

// beat is how often a replica shows that it lives.
func (l *Ledger) beat() time.Duration { return min(beatEvery, l.lease/6) }

// alive is for how long it is alive then.
func (l *Ledger) alive() time.Duration { return fleetLife * l.beat() }

// beats keeps this replica, and what it has reserved, alive.
func (l *Ledger) beats(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(l.beat()*4/5 + rand.N(l.beat()*2/5))
		if l.away.Load() {
			continue
		}
		if _, err := l.meet(ctx, l.replica, l.alive()); err == nil {
			l.renewAll(ctx)
		}
		l.settleGuesses(ctx)
		l.forget(time.Now())
	}
}

// renewAll keeps the reservations of all scopes, many at once.
func (l *Ledger) renewAll(ctx context.Context) {
	period := l.period(time.Now())
	var purses []*purse
	var runs []cache.Run
	send := func() {
		for i, r := range l.store.RunAll(ctx, runs) {
			a, err := read(r)
			l.report("keep the reservations of calls under way", err)
			if err == nil && a.code == codeDone {
				purses[i].renewed(a, period)
			}
		}
		purses, runs = purses[:0], runs[:0]
	}
	for _, v := range l.purses.Range {
		p := v.(*purse)
		names := p.toRenew(time.Now())
		for names != nil {
			part := names[:min(len(names), chunk)]
			if names = names[len(part):]; len(names) == 0 {
				names = nil
			}
			purses = append(purses, p)
			runs = append(runs, p.step(stepRenew, "", append([]string{period.Day, period.Month}, part...)...))
			if len(runs) >= together {
				send()
			}
		}
	}
	if len(runs) > 0 {
		send()
	}
}

// toRenew are the runs whose reservations the store has; nil where the scope is
// not to be asked for at all.
func (p *purse) toRenew(now time.Time) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetRecent(now)
	if len(p.live) == 0 && p.offline == nil && !p.parted && now.Sub(p.touched) > touchedFor {
		return nil
	}
	names := make([]string, 0, len(p.live))
	for name, h := range p.live {
		if h.stored {
			names = append(names, name)
		}
	}
	return names
}

// renewed takes how the scope stands, and tells reservations again that the store
// has lost.
func (p *purse) renewed(a answer, period Period) {
	p.saw(period, a.numbers)
	p.together()
	p.mu.Lock()
	for _, name := range a.more {
		if h := p.live[name]; h != nil {
			h.stored = false
			p.introduce(h)
		}
	}
	p.mu.Unlock()
	if len(a.more) > 0 {
		p.hurry()
	}
}

// settleGuesses gives up counters that were begun without the database, when it
// is there again, so that they are rebuilt.
func (l *Ledger) settleGuesses(ctx context.Context) {
	for _, v := range l.purses.Range {
		p := v.(*purse)
		p.mu.Lock()
		guessed := p.guessed
		p.mu.Unlock()
		if !guessed || l.books == nil {
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, booksFor)
		_, _, _, err := l.books.Spent(bounded, p.scope, l.period(time.Now()).Days(), nil)
		cancel()
		if err != nil {
			return
		}
		if _, err := p.send(ctx, p.step(stepLose, "")); err == nil {
			p.mu.Lock()
			p.guessed = false
			p.mu.Unlock()
		}
	}
}

// forget drops scopes that nobody has called for in long.
func (l *Ledger) forget(now time.Time) {
	for scope, v := range l.purses.Range {
		p := v.(*purse)
		p.mu.Lock()
		idle := now.Sub(p.touched) > forgetAfter && len(p.live) == 0 && len(p.outbox) == 0 && len(p.unwritten.index) == 0 && !p.guessed && p.offline == nil && !p.parted
		p.mu.Unlock()
		if idle {
			l.purses.Delete(scope)
			l.keys.Delete(p.key)
		}
	}
}
