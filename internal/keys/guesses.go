package keys

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// How many keys that there are not a client may have looked up.
const (
	guessBurst = 20
	guessEvery = time.Second
	// maxClients bounds how many clients are told apart; the others share.
	maxClients = 4096
)

// guesses holds clients that try keys to a rate. Only a key that is looked up and
// is none counts: a client with good keys is never refused.
type guesses struct {
	mu      sync.Mutex
	clients map[netip.Addr]*client
	others  *client
	swept   time.Time
}

func newGuesses() *guesses {
	return &guesses{clients: map[netip.Addr]*client{}, others: newClient(time.Now())}
}

// client is what one client may still try.
type client struct {
	left    float64 // tries
	at      time.Time
	flying  int           // look-ups under way, which left does not hold
	settled chan struct{} // closed when one has ended
}

func newClient(now time.Time) *client {
	return &client{left: guessBurst, at: now, settled: make(chan struct{})}
}

func (c *client) refill(now time.Time) {
	c.left = min(guessBurst, c.left+now.Sub(c.at).Seconds()/guessEvery.Seconds())
	c.at = now
}

// guess is one look-up of a key that is not known. A nil one is none.
type guess struct {
	of     *guesses
	client *client
}

// admit lets a client look up a key. While it has no try left but look-ups are
// under way, it waits for what they find: they may have been of good keys.
// Returns a *ThrottledError, or why ctx ended.
func (g *guesses) admit(ctx context.Context, from netip.Addr) (*guess, error) {
	for {
		c, settled, err := g.try(from)
		if c != nil || err != nil {
			return c, err
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// try admits, refuses, or says what to wait for.
func (g *guesses) try(from netip.Addr) (*guess, <-chan struct{}, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	c := g.client(from, now)
	c.refill(now)
	switch {
	case c.left >= 1:
		c.left--
		c.flying++
		return &guess{of: g, client: c}, nil, nil
	case c.flying > 0:
		return nil, c.settled, nil
	default:
		return nil, nil, &ThrottledError{RetryAfter: time.Duration((1 - c.left) * float64(guessEvery))}
	}
}

// client returns the one behind an address. Of the version 6 it is a network,
// within which one machine has as many addresses as it likes.
func (g *guesses) client(from netip.Addr, now time.Time) *client {
	from = from.Unmap().WithZone("")
	if from.Is6() {
		network, _ := from.Prefix(64) // 64 bits are there
		from = network.Addr()
	}
	if c, ok := g.clients[from]; ok {
		return c
	}
	if len(g.clients) >= maxClients && now.Sub(g.swept) >= guessEvery {
		g.sweep(now)
	}
	if len(g.clients) >= maxClients {
		return g.others
	}
	c := newClient(now)
	g.clients[from] = c
	return c
}

// sweep forgets the clients that may try as much as those never seen.
func (g *guesses) sweep(now time.Time) {
	g.swept = now
	for from, c := range g.clients {
		if c.refill(now); c.left >= guessBurst && c.flying == 0 {
			delete(g.clients, from)
		}
	}
}

// count says that the key was none.
func (g *guess) count() { g.settle(0) }

// takeBack says that it was a good one, or that nobody knows.
func (g *guess) takeBack() { g.settle(1) }

func (g *guess) settle(back float64) {
	if g == nil {
		return
	}
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	c := g.client
	c.left = min(guessBurst, c.left+back)
	c.flying--
	close(c.settled)
	c.settled = make(chan struct{})
}
