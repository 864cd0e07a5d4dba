// Package porttest gives a test a loopback port that stays its own, also while
// nobody listens there: for servers that go and come back to where they were, and
// for places where nobody is. It knows nothing of who listens.
package porttest

import (
	"fmt"
	"net"
	"syscall"
	"testing"
)

// Hold returns a loopback address, host:port, that no other process and no other
// test is given until this one ends. A call there is refused; the test may listen
// there as often as it likes, with SO_REUSEADDR set, as Go's own listeners have
// it.
func Hold(t testing.TB) string {
	t.Helper()
	port, release, err := hold()
	if err != nil {
		t.Fatalf("hold a port: %v", err)
	}
	t.Cleanup(release)
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
}

// hold binds a socket that never listens: the kernel gives its port to nobody who
// asks for any, and lets a listener share it that names it.
func hold() (port int, release func(), err error) {
	syscall.ForkLock.RLock() // no child inherits it
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(socket)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return 0, nil, err
	}
	release = func() { _ = syscall.Close(socket) }
	defer func() {
		if err != nil {
			release()
		}
	}()
	if err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, nil, err
	}
	if err = syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, nil, err
	}
	at, err := syscall.Getsockname(socket)
	if err != nil {
		return 0, nil, err
	}
	return at.(*syscall.SockaddrInet4).Port, release, nil
}
