package apptest

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
)

// Link is the network between a gateway and its database, which a test can cut
// and freeze.
type Link struct {
	URL string // of the database, over the link

	listener net.Listener
	socket   string // of the database itself

	mu     sync.Mutex
	cut    bool
	frozen chan struct{} // closed when bytes pass
	conns  map[net.Conn]struct{}
	done   sync.WaitGroup
}

// NewLink leads to a database of the test server, until the test ends.
func NewLink(t testing.TB, databaseURL string) *Link {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	passing := make(chan struct{})
	close(passing)
	l := &Link{
		URL:      fmt.Sprintf("postgres://%s@%s%s?sslmode=disable", u.User, listener.Addr(), u.Path),
		listener: listener, socket: filepath.Join(query.Get("host"), ".s.PGSQL."+query.Get("port")),
		frozen: passing, conns: map[net.Conn]struct{}{},
	}
	l.done.Go(l.accept)
	t.Cleanup(func() {
		l.Cut()
		_ = listener.Close()
		l.done.Wait()
	})
	return l
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", l.socket)
		if err != nil || !l.admit(client, server) {
			_ = client.Close()
			if server != nil {
				_ = server.Close()
			}
			continue
		}
		l.done.Go(func() { l.pass(server, client) })
		l.done.Go(func() { l.pass(client, server) })
	}
}

func (l *Link) admit(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return false
	}
	for _, c := range conns {
		l.conns[c] = struct{}{}
	}
	return true
}

// pass carries bytes one way until either end closes.
func (l *Link) pass(to, from net.Conn) {
	defer l.drop(to, from)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		<-l.passing()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *Link) passing() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.frozen
}

func (l *Link) drop(conns ...io.Closer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(l.conns, c.(net.Conn))
	}
}

// Cut breaks every connection, and each new one at once.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for c := range l.conns {
		_ = c.Close()
	}
	l.thaw()
}

// Freeze keeps all bytes back; connections stay and new ones are taken.
func (l *Link) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = make(chan struct{})
}

// Mend lets bytes pass again.
func (l *Link) Mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
	l.thaw()
}

func (l *Link) thaw() {
	select {
	case <-l.frozen:
	default:
		close(l.frozen)
	}
}
