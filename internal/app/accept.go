package app

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// acceptWarnEvery is how often a socket that does not accept is spoken of.
const acceptWarnEvery = time.Minute

// accepting is a listening socket that says when connections cannot be accepted,
// for want of file descriptors for the most part. The server tries again by
// itself, many times a second: a storm is one line a minute and a number.
type accepting struct {
	net.Listener
	name string
	log  *slog.Logger

	mu     sync.Mutex
	warned time.Time
	failed int // since then
}

// Accept returns the next connection.
func (a *accepting) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		a.note(err, time.Now())
	}
	return conn, err
}

func (a *accepting) note(err error, now time.Time) {
	a.mu.Lock()
	a.failed++
	if !a.warned.IsZero() && now.Sub(a.warned) < acceptWarnEvery {
		a.mu.Unlock()
		return
	}
	failed := a.failed
	a.warned, a.failed = now, 0
	a.mu.Unlock()
	a.log.Warn("connections are not accepted, clients wait; raise the limit of open files or lower the load",
		"listener", "server."+a.name, "times", failed, "error", err)
}
