package idempotency

import (
	"context"
	"sync"
	"time"
)

// hub hands on what other replicas tell of keys. Its words are hints: who waits
// looks by itself, too.
type hub struct {
	mu      sync.Mutex
	waiting map[string]map[chan struct{}]struct{} // by name
	watch   context.CancelFunc                    // nil while nobody listens
	over    chan struct{}
}

func newHub() hub { return hub{waiting: map[string]map[chan struct{}]struct{}{}} }

// rewatch is the pause after a watch that has ended by itself.
const rewatch = 100 * time.Millisecond

// Start begins to listen to the other replicas, and to let go of what LetGo is told.
func (s *Store) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	s.hub.mu.Lock()
	s.hub.watch, s.hub.over = cancel, over
	s.hub.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { s.listen(ctx) })
	both.Go(func() { s.letGo(ctx) })
	go func() {
		defer close(over)
		both.Wait()
	}()
}

func (s *Store) listen(ctx context.Context) {
	for ctx.Err() == nil {
		_ = s.cache.Watch(ctx, hints, s.hub.tell)
		select {
		case <-time.After(rewatch):
		case <-ctx.Done():
		}
	}
}

// Stop ends what Start began. It may be called twice.
func (s *Store) Stop(ctx context.Context) error {
	s.hub.mu.Lock()
	cancel, over := s.hub.watch, s.hub.over
	s.hub.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Heard returns a channel that holds a token each time that something was told of
// a key. Whoever has heard enough leaves.
func (s *Store) Heard(name string) (heard <-chan struct{}, leave func()) {
	h := &s.hub
	c := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting[name] == nil {
		h.waiting[name] = map[chan struct{}]struct{}{}
	}
	h.waiting[name][c] = struct{}{}
	return c, func() { h.forget(name, c) }
}

func (h *hub) forget(name string, c chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiting[name], c)
	if len(h.waiting[name]) == 0 {
		delete(h.waiting, name)
	}
}

func (h *hub) tell(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.waiting[name] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
