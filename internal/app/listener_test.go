package app

import (
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
)

// lingering is a socket whose accept loop learns that it was closed only when
// that happens a second time, as on a busy machine.
type lingering struct {
	net.Listener
	accepting, noted chan struct{}
	closes           atomic.Int32
}

func (l *lingering) Accept() (net.Conn, error) {
	close(l.accepting)
	<-l.noted
	return nil, net.ErrClosed
}

func (l *lingering) Close() error {
	if l.closes.Add(1) == 2 {
		close(l.noted)
	}
	return l.Listener.Close()
}

func TestListenerThatStoppedAcceptingClosesWithoutAFault(t *testing.T) {
	t.Parallel()
	l := newListener("listen", "127.0.0.1:0", http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if err := l.listen(); err != nil {
		t.Fatal(err)
	}
	socket := &lingering{Listener: l.bound, accepting: make(chan struct{}), noted: make(chan struct{})}
	l.bound = socket
	broken := make(chan error, 1)
	l.serve(broken)
	<-socket.accepting

	l.stopAccepting()
	if err := l.close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
	if len(broken) > 0 {
		t.Errorf("the end of accepting was reported: %v", <-broken)
	}
}
