package cache

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

const (
	lineUp    int32 = iota
	lineQuiet       // an answer is overdue: calls fail at once until something is heard
	lineLost        // over; the keeper makes another

	// patience is how long a quiet line is kept before its connections are
	// dropped: a pause of the server shorter than this costs no reconnection.
	patience = 250 * time.Millisecond
	// underWay bounds the calls that wait for answers, those that were given up
	// included; below the ring's size, so that no call waits for room in it.
	underWay = 1000
	// rest is how long a node of a cluster that did not answer is not dialled.
	rest = 250 * time.Millisecond
)

var (
	errSilent  = errors.New("it stopped answering")
	errResting = errors.New("the node is away")
	errOver    = errors.New("the connection was lost")
)

// line is one rueidis client from its first connection to the loss of it. A
// single server's line ends with its connection, and only the keeper makes the
// next, so that no call ever waits for one to be dialled. A cluster's line loses
// single nodes and ends with the last.
type line struct {
	client   rueidis.Client
	cluster  bool
	timeout  time.Duration // longest a call may take
	patience time.Duration

	state atomic.Int32
	slots chan struct{}
	held  atomic.Int32 // slots of calls that were given up and not answered

	known sync.Map // *Script: its text was sent, so its name will do

	ctx   context.Context // ends when the line is lost
	end   context.CancelCauseFunc
	mu    sync.Mutex
	conns map[*conn]struct{}
	rests map[string]time.Duration // by address: when it may be dialled again
}

func newLine(timeout, patience time.Duration) *line {
	l := &line{timeout: timeout, patience: patience, slots: make(chan struct{}, underWay)}
	l.conns, l.rests = map[*conn]struct{}{}, map[string]time.Duration{}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	return l
}

// carry gives the line its client, once that is connected.
func (l *line) carry(client rueidis.Client) {
	l.mu.Lock()
	l.client, l.cluster = client, client.Mode() == rueidis.ClientModeCluster
	empty := len(l.conns) == 0
	l.mu.Unlock()
	if empty {
		l.lose(errOver)
	}
}

// enter takes a place among the calls under way.
func (l *line) enter(ctx context.Context) error {
	select {
	case l.slots <- struct{}{}:
		return nil
	default:
	}
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-l.ctx.Done():
		return errAway
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *line) leave() { <-l.slots }

// abandon keeps the place of a call that ended before its answer, and looks
// whether the server has fallen silent.
func (l *line) abandon() {
	l.held.Add(1)
	silent := l.silent(l.timeout)
	switch {
	case len(silent) == 0:
	case l.cluster:
		for _, c := range silent {
			_ = c.Close()
		}
	case l.state.CompareAndSwap(lineUp, lineQuiet):
		time.AfterFunc(l.patience, l.loseIfQuiet)
	}
}

// silent returns the connections that have owed an answer for so long.
func (l *line) silent(so time.Duration) (all []*conn) {
	now := clockNow()
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if asked := time.Duration(c.asked.Load()); asked != 0 && now-asked >= so {
			all = append(all, c)
		}
	}
	return all
}

func (l *line) loseIfQuiet() {
	switch {
	case l.state.Load() != lineQuiet:
	case len(l.silent(l.patience)) > 0:
		l.lose(errSilent)
	default: // it spoke, and fell silent again
		time.AfterFunc(l.patience, l.loseIfQuiet)
	}
}

// heard is told of every byte that arrives: the line is alive, and the answers
// of calls that were given up are coming in.
func (l *line) heard() {
	if l.state.Load() == lineQuiet {
		l.state.CompareAndSwap(lineQuiet, lineUp)
	}
	if l.held.Load() == 0 {
		return
	}
	for range l.held.Swap(0) {
		<-l.slots
	}
}

// lose ends the line; the first cause is kept.
func (l *line) lose(cause error) {
	l.state.Store(lineLost)
	l.end(cause)
	l.mu.Lock()
	conns := l.conns
	l.conns = nil
	l.mu.Unlock()
	for c := range conns {
		_ = c.Conn.Close()
	}
}

// close ends the line in good order: the calls under way are answered, if the
// server does so within a second, and only then the connections end.
func (l *line) close(cause error) {
	l.state.Store(lineLost)
	if l.cluster {
		for _, node := range l.client.Nodes() {
			node.Close() // the cluster's own Close does not wait for them
		}
	}
	if l.client != nil {
		l.client.Close()
	}
	l.lose(cause)
}

// dial makes every connection of the client, so that the line knows them.
func (l *line) dial(ctx context.Context, address string, dialer *net.Dialer, secure *tls.Config) (net.Conn, error) {
	if err := l.mayDial(address); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	var raw net.Conn
	var err error
	if secure != nil {
		raw, err = (&tls.Dialer{NetDialer: dialer, Config: secure}).DialContext(ctx, "tcp", address)
	} else {
		raw, err = dialer.DialContext(ctx, "tcp", address)
	}
	if err != nil {
		l.avoid(address)
		return nil, err
	}
	return l.adopt(raw, address)
}

func (l *line) mayDial(address string) error {
	if l.ctx.Err() != nil {
		return errOver
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if clockNow() < l.rests[address] {
		return errResting
	}
	return nil
}

func (l *line) avoid(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rests[address] = clockNow() + rest
}

func (l *line) adopt(raw net.Conn, address string) (net.Conn, error) {
	c := &conn{Conn: raw, line: l, address: address}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		_ = raw.Close()
		return nil, errOver
	}
	l.conns[c] = struct{}{}
	return c, nil
}

// drop forgets a connection that ended. It is told before the client is, so
// that no call finds an open line without its connection.
func (l *line) drop(c *conn, cause error) {
	l.mu.Lock()
	_, known := l.conns[c]
	delete(l.conns, c)
	left := len(l.conns)
	if known && c.asked.Load() != 0 {
		l.rests[c.address] = clockNow() + rest
	}
	last := known && l.client != nil && (left == 0 || !l.cluster)
	l.mu.Unlock()
	if last {
		l.lose(cause)
	}
}
