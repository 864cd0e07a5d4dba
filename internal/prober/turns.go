package prober

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Leases are kept where replicas share what is transient.
type Leases interface {
	// Add writes the value when the key is absent, and says whether it did.
	Add(ctx context.Context, key string, value []byte, ttl time.Duration) (bool, error)
	Delete(ctx context.Context, key string) error
}

// again is how often one looks whether another replica's turn is over.
const again = 100 * time.Millisecond

// errNoTurn says that others of the provider took all the time there was.
var errNoTurn = errors.New("canaries of other models of the provider took too long")

// Turns lets one canary per provider go at a time, over all replicas that share
// leases. Where those cannot be had, each replica keeps to itself: a canary too
// many is better than none.
type Turns struct {
	shared Leases // nil: there are none

	mu    sync.Mutex
	doors map[string]chan struct{} // by provider; full while one is under way
}

// NewTurns returns turns that nobody has taken. shared may be nil.
func NewTurns(shared Leases) *Turns {
	return &Turns{shared: shared, doors: map[string]chan struct{}{}}
}

// take waits for a turn, which lasts for as long as hold at most, and returns
// what ends it.
func (t *Turns) take(ctx context.Context, provider string, patience, hold time.Duration) (leave func(), err error) {
	waiting, cancel := context.WithTimeoutCause(ctx, patience, errNoTurn)
	defer cancel()
	door := t.door(provider)
	select {
	case door <- struct{}{}:
	case <-waiting.Done():
		return nil, context.Cause(waiting)
	}
	giveBack, err := t.lease(waiting, "canary:"+provider, hold)
	if err != nil {
		<-door
		return nil, err
	}
	return func() { giveBack(); <-door }, nil
}

func (t *Turns) door(provider string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	door, ok := t.doors[provider]
	if !ok {
		door = make(chan struct{}, 1)
		t.doors[provider] = door
	}
	return door
}

// lease waits until no other replica has it.
func (t *Turns) lease(ctx context.Context, key string, hold time.Duration) (giveBack func(), err error) {
	if t.shared == nil {
		return func() {}, nil
	}
	for {
		got, err := t.shared.Add(ctx, key, nil, hold)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return func() {}, nil
		case got:
			return func() { t.release(ctx, key) }, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(again):
		}
	}
}

// release gives a lease back at once; one that cannot be given back runs out.
func (t *Turns) release(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	_ = t.shared.Delete(ctx, key)
}

// only reports whether this replica is the one that does something for all of
// them this time. Where leases cannot be had each does it.
func (t *Turns) only(ctx context.Context, key string, hold time.Duration) bool {
	if t.shared == nil {
		return true
	}
	got, err := t.shared.Add(ctx, key, nil, hold)
	return got || err != nil
}
