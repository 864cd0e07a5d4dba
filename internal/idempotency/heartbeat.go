package idempotency

import (
	"context"
	"sync"
	"time"
)

// Heartbeat renews the lease of an owner until it is stopped.
type Heartbeat struct {
	store *Store
	asker Asker

	mu      sync.Mutex // held while the store is asked, so that nothing is renewed after Stop
	timer   *time.Timer
	stopped bool
}

// Hold renews the owner's lease, three times as often as it must. It costs nothing
// for a call that is over before. What it finds is not told: an owner that was
// replaced learns it when it stores.
func (s *Store) Hold(a Asker) *Heartbeat {
	h := &Heartbeat{store: s, asker: a}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(s.lease/3, h.beat)
	return h
}

func (h *Heartbeat) beat() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return
	}
	mine, err := h.store.renew(context.Background(), h.asker)
	if mine || err != nil { // a store that is away may come back in time
		h.timer.Reset(h.store.lease / 3)
	}
}

// Stop ends the renewing. It may be called twice.
func (h *Heartbeat) Stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	h.timer.Stop()
}
