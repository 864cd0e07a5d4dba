package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"
)

// callLimit is how long one call may take.
const callLimit = 20 * time.Second

// client is one connection that makes one call after the other. It is no
// http.Client, so that the load takes little of the CPU that is measured.
type client struct {
	address string
	call    exchange
	head    string        // of the request, but for its last headers
	headers func() string // the last headers of each call, a line each; nil = none

	conn   net.Conn
	reader *bufio.Reader
	buf    []byte
}

func newClient(address string, call exchange, headers func() string) *client {
	return &client{
		address: address, call: call, headers: headers,
		head: fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+
			"User-Agent: bench\r\nContent-Length: %d\r\n", chatPath, address, len(call.request)),
		reader: bufio.NewReaderSize(nil, 32<<10), buf: make([]byte, 32<<10),
	}
}

// timing is when a call's first text and its end came, from its start.
type timing struct{ first, total time.Duration }

// do makes one call and compares the answer. After an error the next call has
// a connection of its own.
func (c *client) do() (timing, error) {
	t, err := c.attempt()
	if err != nil {
		c.close()
	}
	return t, err
}

func (c *client) attempt() (timing, error) {
	if err := c.connect(); err != nil {
		return timing{}, err
	}
	began := time.Now()
	if err := c.conn.SetDeadline(began.Add(callLimit)); err != nil {
		return timing{}, err
	}
	if _, err := c.conn.Write(c.message()); err != nil {
		return timing{}, err
	}
	resp, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return timing{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		return timing{}, fmt.Errorf("status %d: %s", resp.StatusCode, text)
	}
	t, err := c.compare(resp.Body, began)
	if err == nil && resp.Close {
		err = errors.New("the server closes the connection")
	}
	return t, err
}

// message is the whole request of the next call.
func (c *client) message() []byte {
	headers := ""
	if c.headers != nil {
		headers = c.headers()
	}
	return slices.Concat([]byte(c.head), []byte(headers), []byte("\r\n"), c.call.request)
}

func (c *client) connect() error {
	if c.conn != nil {
		return nil
	}
	conn, err := net.DialTimeout("tcp", c.address, callLimit)
	if err != nil {
		return err
	}
	c.conn = conn
	c.reader.Reset(conn)
	return nil
}

// compare reads an answer to its end and holds every byte against the one that
// is due.
func (c *client) compare(body io.Reader, began time.Time) (timing, error) {
	var t timing
	due := c.call.answer
	for at := 0; ; {
		n, err := body.Read(c.buf)
		if at+n > len(due) || !bytes.Equal(c.buf[:n], due[at:at+n]) {
			return t, fmt.Errorf("wrong answer from byte %d on: %.80q", at, c.buf[:n])
		}
		at += n
		if t.first == 0 && at >= c.call.content {
			t.first = time.Since(began)
		}
		switch {
		case err == io.EOF && at < len(due):
			return t, fmt.Errorf("the answer ends after %d of %d bytes", at, len(due))
		case err == io.EOF:
			t.total = time.Since(began)
			return t, nil
		case err != nil:
			return t, fmt.Errorf("read the answer: %w", err)
		}
	}
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}
