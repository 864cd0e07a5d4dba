package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// client speaks just enough of the protocol to look at a server without the
// client that is under test.
type client struct {
	conn net.Conn
	in   *bufio.Reader
}

func dial(address string, timeout time.Duration) (*client, error) {
	conn, err := net.DialTimeout("tcp", address, timeout)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &client{conn: conn, in: bufio.NewReader(conn)}, nil
}

func (c *client) close() { _ = c.conn.Close() }

func (c *client) do(args ...string) (any, error) {
	var command strings.Builder
	fmt.Fprintf(&command, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&command, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(c.conn, command.String()); err != nil {
		return nil, err
	}
	return c.read()
}

// read reads one answer of RESP2.
func (c *client) read() (any, error) {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return nil, errors.New("an empty answer")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, errors.New(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("an answer that is none: %q", line)
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		return c.text(int(n))
	}
	return c.list(int(n))
}

func (c *client) text(n int) (any, error) {
	text := make([]byte, n+2)
	if _, err := io.ReadFull(c.in, text); err != nil {
		return nil, err
	}
	return string(text[:n]), nil
}

func (c *client) list(n int) (any, error) {
	items := make([]any, n)
	for i := range items {
		var err error
		if items[i], err = c.read(); err != nil {
			return nil, err
		}
	}
	return items, nil
}
