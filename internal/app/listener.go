package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits of a connection that do not depend on the call in it: a client that
// never finishes its headers must not hold a connection for ever.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// listener is one of the two faces of the gateway.
type listener struct {
	name   string
	addr   string // as configured; may end in :0
	log    *slog.Logger
	server *http.Server
	bound  net.Listener
}

func newListener(name, addr string, handler http.Handler, log *slog.Logger) *listener {
	return &listener{name: name, addr: addr, log: log, server: &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}
}

// bind takes the address of a listener.
func bind(name, addr string) (net.Listener, error) {
	bound, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for server.%s: %w; choose another address or stop who has it", name, err)
	}
	return bound, nil
}

// bindable tells of an address that is taken before the database is started, which
// may take seconds. It holds nothing: until the gateway is ready callers are refused
// rather than kept waiting.
func bindable(name, addr string) error {
	bound, err := bind(name, addr)
	if err != nil {
		return err
	}
	return bound.Close()
}

// listen binds the address.
func (l *listener) listen() error {
	bound, err := bind(l.name, l.addr)
	if err != nil {
		return err
	}
	l.bound = &accepting{Listener: bound, name: l.name, log: l.log}
	return nil
}

// serve answers until close; an accept loop that ends by itself is reported.
func (l *listener) serve(broken chan<- error) {
	go func() {
		err := l.server.Serve(l.bound)
		if !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			select {
			case broken <- fmt.Errorf("server.%s: %w", l.name, err):
			default:
			}
		}
	}()
}

// address is where the listener really is.
func (l *listener) address() string { return l.bound.Addr().String() }

// stopAccepting closes the listening socket and idle connections; requests in
// flight go on, each connection closes after its answer.
func (l *listener) stopAccepting() {
	if l.bound == nil {
		return
	}
	l.server.SetKeepAlivesEnabled(false)
	_ = l.bound.Close()
}

// close ends the listener, with up to the life of ctx for what is in flight.
func (l *listener) close(ctx context.Context) error {
	if l.bound == nil {
		return nil
	}
	// stopAccepting may have closed the socket before; what Shutdown then says
	// about it is no fault.
	if err := l.server.Shutdown(ctx); err != nil && !errors.Is(err, net.ErrClosed) {
		return errors.Join(fmt.Errorf("close server.%s: %w", l.name, err), l.server.Close())
	}
	return nil
}
