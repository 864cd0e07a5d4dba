package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"sync"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/runs"
	"github.com/breakwater-llm/breakwater/internal/sse"
)

var (
	// errCrowded says that as many readers follow the events as may.
	errCrowded = errors.New("too many readers follow the events")
	// errFeedStopped says that the gateway is shutting down.
	errFeedStopped = errors.New("the gateway is shutting down")
)

// FeedConfig is what a feed is made of.
type FeedConfig struct {
	Writer  Writer
	Kept    int // how many events it keeps; 0 = 1024
	Readers int // how many may follow it at once; 0 = 64
}

// Feed tells the circuit events of this process to whoever follows them. It
// keeps the latest, and all readers read from what is kept: one that is slow, or
// was cut off for a while, goes on where it was, and costs neither memory nor
// the circuits their time. Whatever it has missed by then, it is told that.
type Feed struct {
	cfg    FeedConfig
	ending chan struct{} // closed when the readers shall go
	empty  chan struct{} // closed when they have gone

	mu      sync.Mutex
	kept    []told // a ring
	first   int    // where its oldest is
	last    uint64 // the number of the latest event
	readers map[*reader]struct{}
	stopped bool
}

// told is one event as it is sent.
type told struct {
	seq           uint64
	provider, key string
	frame         []byte // empty for the circuit of something that is no target
}

// NewFeed returns a feed that nobody follows yet.
func NewFeed(cfg FeedConfig) *Feed {
	if cfg.Kept == 0 {
		cfg.Kept = 1024
	}
	if cfg.Readers == 0 {
		cfg.Readers = 64
	}
	return &Feed{
		cfg: cfg, ending: make(chan struct{}), empty: make(chan struct{}),
		readers: map[*reader]struct{}{},
	}
}

// CircuitEvent tells an event. It never blocks. Events come in the order of
// their numbers.
func (f *Feed) CircuitEvent(e breaker.Event) {
	next := f.told(e)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.kept) < f.cfg.Kept {
		f.kept = append(f.kept, next)
	} else {
		f.kept[f.first] = next
		f.first = (f.first + 1) % len(f.kept)
	}
	f.last = next.seq
	for r := range f.readers {
		select {
		case r.woken <- struct{}{}:
		default: // it has not looked since it was last woken
		}
	}
}

// told draws an event once for all readers.
func (f *Feed) told(e breaker.Event) told {
	t := told{seq: e.Seq, key: e.Key}
	event, ok := runs.EventOf(f.cfg.Writer.Node, f.cfg.Writer.Boot, e)
	if !ok {
		return t
	}
	view := viewEvent(event)
	data, err := json.Marshal(view)
	if err != nil {
		return t // texts and numbers always can be
	}
	t.provider = event.Provider
	t.frame = sse.AppendData(fmt.Appendf(nil, "id: %s\nevent: circuit\n", view.Cursor), data)
	return t
}

// at returns a kept event, counted from the oldest.
func (f *Feed) at(i int) *told { return &f.kept[(f.first+i)%len(f.kept)] }

// behind counts the kept events that a reader has passed.
func (f *Feed) behind(seq uint64) int {
	return sort.Search(len(f.kept), func(i int) bool { return f.at(i).seq > seq })
}

// leave takes a reader away that has joined.
func (f *Feed) leave(r *reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.readers, r)
	if f.stopped && len(f.readers) == 0 {
		close(f.empty)
	}
}

// Stop sends every reader what is left, ends its stream and waits for that.
// Returns an error when ctx ends first; may be called again. Whoever comes
// afterwards is refused.
func (f *Feed) Stop(ctx context.Context) error {
	f.end()
	select {
	case <-f.empty:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("end the event streams: %w", context.Cause(ctx))
	}
}

func (f *Feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return
	}
	f.stopped = true
	close(f.ending)
	if len(f.readers) == 0 {
		close(f.empty)
	}
}
