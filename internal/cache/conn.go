package cache

import (
	"net"
	"sync/atomic"
	"time"
)

// conn tells its line what the server says.
type conn struct {
	net.Conn
	line    *line
	address string
	asked   atomic.Int64 // when the oldest question since the last answer was sent; 0 = none
}

func (c *conn) Write(b []byte) (int, error) {
	c.asked.CompareAndSwap(0, int64(clockNow()))
	n, err := c.Conn.Write(b)
	if err != nil {
		c.line.drop(c, err)
	}
	return n, err
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.asked.Store(0)
		c.line.heard()
	}
	if err != nil {
		c.line.drop(c, err)
	}
	return n, err
}

func (c *conn) Close() error {
	c.line.drop(c, errOver)
	return c.Conn.Close()
}

// started is where clockNow counts from; it is never 0.
var started = time.Now().Add(-time.Second)

// clockNow is a monotonic clock that fits an atomic.
func clockNow() time.Duration { return time.Since(started) }
