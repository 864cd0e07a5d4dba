package main

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
)

// relay stands between the gateway and its database and can take that away: a
// server that was stopped itself would stay so if the soak were killed.
type relay struct {
	url      string // where the gateway finds its database
	server   string // socket of the real one
	listener net.Listener
	all      sync.WaitGroup

	mu      sync.Mutex
	state   line
	changed chan struct{} // closed when the state changes
	open    map[net.Conn]struct{}
}

// line is what the relay does with bytes.
type line uint8

const (
	flows  line = iota
	stalls      // connections stand, nothing moves
	down        // connections break, new ones too
)

// startRelay listens in a directory on behalf of the server of a URL.
func startRelay(dir, serverURL string) (*relay, error) {
	u, err := url.Parse(serverURL)
	if err != nil {
		return nil, err
	}
	query := u.Query()
	name := ".s.PGSQL." + query.Get("port")
	if query.Get("host") == "" || query.Get("port") == "" {
		return nil, fmt.Errorf("%s names no socket", u.Redacted())
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	r := &relay{
		server: filepath.Join(query.Get("host"), name), listener: listener,
		changed: make(chan struct{}), open: map[net.Conn]struct{}{},
	}
	query.Set("host", dir)
	u.RawQuery = query.Encode()
	r.url = u.String()
	r.all.Go(r.accept)
	return r, nil
}

func (r *relay) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		r.all.Go(func() { r.serve(conn) })
	}
}

// serve joins a connection with one to the server until either ends.
func (r *relay) serve(client net.Conn) {
	defer client.Close()
	if !r.keep(client) {
		return
	}
	defer r.forget(client)
	server, err := net.Dial("unix", r.server)
	if err != nil {
		return
	}
	defer server.Close()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			r.pump(way[0], way[1])
			client.Close()
			server.Close()
		})
	}
	both.Wait()
}

func (r *relay) pump(from io.Reader, to io.Writer) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			r.await()
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// await returns when bytes may move, or when the connection that they are from
// is broken anyway.
func (r *relay) await() {
	for {
		r.mu.Lock()
		state, changed := r.state, r.changed
		r.mu.Unlock()
		if state != stalls {
			return
		}
		<-changed
	}
}

// keep remembers a connection, unless there may be none now.
func (r *relay) keep(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == down {
		return false
	}
	r.open[conn] = struct{}{}
	return true
}

func (r *relay) forget(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, conn)
}

// set changes what the relay does.
func (r *relay) set(state line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = state
	close(r.changed)
	r.changed = make(chan struct{})
	if state != down {
		return
	}
	for conn := range r.open {
		conn.Close()
	}
}

// stop breaks everything and waits for it.
func (r *relay) stop() error {
	err := r.listener.Close()
	r.set(down)
	r.all.Wait()
	return err
}
