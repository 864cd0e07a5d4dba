// Package responses keeps whole answers on the cache, so that the same question
// is not paid for twice. It knows keys and times; it must not know which answers
// are worth keeping, who may see them, or what a request is: its users decide
// that. While the cache is away nothing is found and nothing is kept, and nobody
// has to know.
package responses

import (
	"context"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// atOnce is how many answers may be on their way to the cache at once. More than
// that are not kept: a cache that is slow must not fill the memory.
const atOnce = 64

// onTheWay is how long it may take the cache to hear of an answer: one that was asked
// for so shortly after Clear is not kept either.
const onTheWay = time.Second

// keepTimeout bounds the writing of one answer, pieces and all.
const keepTimeout = 5 * time.Second

// Store keeps answers on a cache. It is safe for use by many goroutines.
type Store struct {
	cache   cache.Cache
	places  chan struct{}
	timeout time.Duration // of the writing of one answer

	mu      sync.Mutex
	stopped bool
	writing sync.WaitGroup
}

// New returns a store on a cache, which is not closed with it.
func New(c cache.Cache) *Store {
	return &Store{cache: c, places: make(chan struct{}, atOnce), timeout: keepTimeout}
}

// Find returns the answer that is kept under a key, however old it is; false when
// there is none, or it cannot be had.
func (s *Store) Find(ctx context.Context, key llm.KeptKey) (llm.Kept, bool) {
	text, err := s.cache.Get(ctx, entryKey(key))
	if err != nil {
		return llm.Kept{}, false
	}
	e, ok := readEntry(text)
	if !ok {
		return llm.Kept{}, false
	}
	body := e.first
	for i := range e.Pieces {
		piece, err := s.cache.Get(ctx, pieceKey(key, e.Write, i))
		if err != nil {
			return llm.Kept{}, false
		}
		body = append(body, piece...)
	}
	if len(body) != e.Size { // a piece of another text
		return llm.Kept{}, false
	}
	return e.kept(body), true
}

// Keep keeps an answer for ttl, in place of what was kept under the key, unless it
// was asked for before Clear. It does not wait: kept is called, from another goroutine or from this one, once the
// answer can be found or is given up.
func (s *Store) Keep(key llm.KeptKey, answer llm.Kept, ttl time.Duration, kept func()) {
	if !s.begin() {
		kept()
		return
	}
	go func() {
		defer s.end()
		defer kept()
		ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
		defer cancel()
		s.keep(ctx, key, answer, ttl)
	}()
}

// begin takes a place, unless all are taken or the store has stopped.
func (s *Store) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	select {
	case s.places <- struct{}{}:
		s.writing.Add(1)
		return true
	default:
		return false
	}
}

func (s *Store) end() {
	<-s.places
	s.writing.Done()
}

// keep writes the pieces first, so that whoever finds the entry finds them all.
// One that cannot be written is no loss but that of time.
func (s *Store) keep(ctx context.Context, key llm.KeptKey, answer llm.Kept, ttl time.Duration) {
	e, pieces := newEntry(answer)
	for i, piece := range pieces {
		if s.cache.Set(ctx, pieceKey(key, e.Write, i), piece, ttl) != nil {
			return
		}
	}
	shelf := shelfOf(time.Now().Add(ttl))
	said, err := s.cache.Run(ctx, put, []string{entryKey(key), shelfKey(key.Configuration, shelf), markKey(key.Configuration)},
		string(e.text()), milliseconds(ttl), field(key), e.pieces(), milliseconds(shelfLife(ttl)), milliseconds(time.Since(answer.Asked)+onTheWay))
	if err == nil && said[0] == "1" {
		return
	}
	for i := range pieces { // of what is asked for again, which is all there is to do
		_ = s.cache.Delete(ctx, pieceKey(key, e.Write, i))
	}
}

// Stop waits for the answers that are being written. It may be called twice.
func (s *Store) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.writing.Wait()
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
