//go:build !linux

package redistest

import (
	"fmt"
	"net"
	"testing"
)

// holdPort finds a port that is free now; port 0 is any. There is no means here to
// keep it.
func holdPort(_ testing.TB, port int) (int, error) {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
