package replicatest

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

// Upstream is what replicas call over loopback.
type Upstream struct {
	listener net.Listener
	answer   func(Call) bool
	work     sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

// Call is one call that arrived.
type Call struct {
	Probe      bool
	Generation uint64 // in which it was admitted
}

// Serve starts an upstream. It asks, for every call at once, whether it succeeds.
func Serve(answer func(Call) bool) (*Upstream, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u := &Upstream{listener: listener, answer: answer}
	u.work.Go(u.accept)
	return u, nil
}

// Addr is host:port.
func (u *Upstream) Addr() string { return u.listener.Addr().String() }

// Close ends it and waits for the calls that are being answered.
func (u *Upstream) Close() {
	_ = u.listener.Close()
	u.mu.Lock()
	for _, conn := range u.conns {
		_ = conn.Close()
	}
	u.mu.Unlock()
	u.work.Wait()
}

func (u *Upstream) accept() {
	for {
		conn, err := u.listener.Accept()
		if err != nil {
			return
		}
		u.mu.Lock()
		u.conns = append(u.conns, conn)
		u.mu.Unlock()
		u.work.Go(func() { u.attend(conn) })
	}
}

// frame is a call on the wire: whether it is a probe, and its generation.
const frame = 9

func (u *Upstream) attend(conn net.Conn) {
	defer conn.Close()
	var in [frame]byte
	for {
		if _, err := io.ReadFull(conn, in[:]); err != nil {
			return
		}
		answer := byte(0)
		if u.answer(Call{Probe: in[0] == 1, Generation: binary.LittleEndian.Uint64(in[1:])}) {
			answer = 1
		}
		if _, err := conn.Write([]byte{answer}); err != nil {
			return
		}
	}
}

// line is a caller's connection to an upstream.
type line struct{ conn net.Conn }

// callLimit is how long an upstream may take.
const callLimit = time.Minute

func dial(address string) (*line, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &line{conn}, nil
}

func (l *line) close() { _ = l.conn.Close() }

// call reports whether the call failed.
func (l *line) call(c Call) (failed bool, err error) {
	var out [frame]byte
	if c.Probe {
		out[0] = 1
	}
	binary.LittleEndian.PutUint64(out[1:], c.Generation)
	if err := l.conn.SetDeadline(time.Now().Add(callLimit)); err != nil {
		return false, err
	}
	if _, err := l.conn.Write(out[:]); err != nil {
		return false, err
	}
	var in [1]byte
	_, err = io.ReadFull(l.conn, in[:])
	return in[0] == 0, err
}
