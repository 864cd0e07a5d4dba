package porttest

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// A listener may come and go, and nobody is there while it is gone.
func TestAHeldPortIsTheTestsOwn(t *testing.T) {
	t.Parallel()
	address := Hold(t)
	for range 3 {
		if conn, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("while nobody listens: %v, %v; want refused", conn, err)
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(conn.Close(), listener.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
