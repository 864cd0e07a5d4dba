package redistest

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// holdPort keeps a port for a server until the test ends, also while the server
// does not run: nobody else gets it for a listener or a connection of their own.
// The server can listen on it all the same, since both sockets allow that an
// address is used again and ours never listens. Port 0 is any.
func holdPort(t testing.TB, port int) (int, error) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	}
	var name unix.Sockaddr
	if err == nil {
		name, err = unix.Getsockname(fd)
	}
	if err != nil {
		return 0, errors.Join(err, unix.Close(fd))
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return name.(*unix.SockaddrInet4).Port, nil
}
