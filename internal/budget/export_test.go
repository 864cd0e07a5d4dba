package budget

import (
	"context"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// FleetLife is how long a silent gateway is waited for.
const FleetLife = fleetLife * beatEvery

var sayScript = &cache.Script{Name: "say", Lua: `redis.call('PUBLISH', ARGV[1], ARGV[2]) return {}`,
	Go: func(tx cache.Tx, _, args []string) ([]string, error) {
		tx.Publish(args[0], args[1])
		return nil, nil
	}}

// Listening reports whether the ledger uses the store and hears what is told on
// its channel.
func Listening(l *Ledger) bool {
	scope := llm.Scope{Kind: "test", ID: word()}
	p := l.purse(scope)
	defer l.purses.Delete(scope)
	p.mu.Lock()
	opened := p.opened
	p.mu.Unlock()
	if _, err := l.store.Run(context.Background(), sayScript, []string{fleetKey}, hints, "open "+p.key); err != nil {
		return false
	}
	select {
	case <-opened:
		return true
	case <-time.After(100 * time.Millisecond):
		return false
	}
}

// Beat lets a ledger look at its scopes once.
func Beat(l *Ledger) {
	_, _ = l.meet(context.Background(), l.replica, l.alive())
	l.renewAll(context.Background())
}

// Guessed reports whether the ledger has begun a scope's counters without the
// database.
func Guessed(l *Ledger, scope llm.Scope) bool {
	p := l.purse(scope)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.guessed
}

// AskAgain lets a scope's next call ask the store, however lately it was silent.
func AskAgain(l *Ledger, scope llm.Scope) { l.purse(scope).aloneUntil.Store(0) }

// Fix sets the time for the ledger's scripts; nil is the store's own.
func Fix(l *Ledger, now func() time.Time) {
	l.fixed = nil
	if now != nil {
		l.fixed = func() int64 { return now().UnixMilli() }
	}
}
