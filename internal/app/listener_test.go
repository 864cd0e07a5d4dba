package app

import (
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/config"
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

// A private database takes seconds to make; who asks for a port that is taken
// hears of it before, and leaves nothing behind.
func TestATakenAddressEndsTheStartBeforeTheDatabase(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	const free = "127.0.0.1:0"
	for name, listen := range map[string][2]string{"listen": {taken.Addr().String(), free}, "admin_listen": {free, taken.Addr().String()}} {
		cfg := config.Default()
		cfg.Server.Listen, cfg.Server.AdminListen = listen[0], listen[1]
		cfg.Database.Private, cfg.Database.DataDir = true, filepath.Join(t.TempDir(), "none")

		err := Run(t.Context(), cfg, Options{Log: slog.New(slog.DiscardHandler)})

		if err == nil || !strings.HasPrefix(err.Error(), "listen for server."+name+": ") {
			t.Errorf("%s: got error %v, want one about the address", name, err)
		}
		if _, err := os.Stat(cfg.Database.DataDir); err == nil {
			t.Errorf("%s: a database was begun", name)
		}
	}
}
