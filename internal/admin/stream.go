package admin

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

var (
	// errCrowded says that as many pages are live as may be.
	errCrowded = errors.New("too many pages are live")
	// errStopped says that the gateway is shutting down.
	errStopped = errors.New("the gateway is shutting down")
)

// stream knows the live pages: it wakes them when something happened, bounds
// how many there are, and ends them. Nothing is queued for a page: when it is
// woken it looks at what is true then, so a slow one costs no memory.
type stream struct {
	limit  int
	ending chan struct{} // closed when the pages shall go
	empty  chan struct{} // closed when they have gone

	mu      sync.Mutex
	stopped bool
	pages   map[*listener]struct{}
}

// listener is one live page.
type listener struct {
	woken chan struct{} // has room for one
}

func newStream(limit int) *stream {
	return &stream{
		limit: limit, ending: make(chan struct{}), empty: make(chan struct{}),
		pages: map[*listener]struct{}{},
	}
}

// join adds a page. Returns errCrowded or errStopped.
func (s *stream) join() (*listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		return nil, errStopped
	case len(s.pages) >= s.limit:
		return nil, errCrowded
	}
	l := &listener{woken: make(chan struct{}, 1)}
	s.pages[l] = struct{}{}
	return l, nil
}

// leave takes a page away that has joined.
func (s *stream) leave(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pages, l)
	if s.stopped && len(s.pages) == 0 {
		close(s.empty)
	}
}

// wake tells every page to look again.
func (s *stream) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.pages {
		select {
		case l.woken <- struct{}{}:
		default: // it has not looked since it was last woken
		}
	}
}

// stop ends every page and waits for it.
func (s *stream) stop(ctx context.Context) error {
	s.end()
	select {
	case <-s.empty:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("end the live pages: %w", context.Cause(ctx))
	}
}

func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.stopped = true
	close(s.ending)
	if len(s.pages) == 0 {
		close(s.empty)
	}
}
