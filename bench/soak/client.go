package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
)

// callLimit is how long a client waits before it calls a call lost. No call of
// the soak takes that long.
const callLimit = 30 * time.Second

// client makes calls.
type client struct {
	url   string
	quick *http.Client // shares connections, as most clients do
	slow  *http.Client // has little room for what it does not read
}

func newClient(address string) *client {
	dialer := &net.Dialer{}
	small := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, addr)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		}
		return conn, err
	}
	return &client{
		url:   "http://" + address + "/v1/chat/completions",
		quick: &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 64, DisableCompression: true}},
		slow:  &http.Client{Transport: &http.Transport{DialContext: small, DisableKeepAlives: true, DisableCompression: true}},
	}
}

func (c *client) close() { c.quick.CloseIdleConnections() }

// sight is what a client saw of a call.
type sight struct {
	run    uuid.UUID // zero when no header has come
	status int
	end    end
}

// call makes one call, judges its answer, and says what it saw. An error tells
// what was wrong with the answer.
func (c *client) call(ctx context.Context, r *request) (sight, promise, error) {
	ctx, leave := context.WithTimeout(ctx, callLimit)
	defer leave()
	if r.client.leaveBefore > 0 {
		defer time.AfterFunc(rand.N(r.client.leaveBefore), leave).Stop()
	}
	resp, err := c.send(ctx, r)
	if err != nil {
		if r.client.leaveBefore > 0 && errors.Is(ctx.Err(), context.Canceled) {
			return sight{end: left}, "", nil
		}
		return sight{end: lost}, answered, fmt.Errorf("%s (%s): %w", r.id, r.name, err)
	}
	defer resp.Body.Close()
	s := sight{status: resp.StatusCode}
	if s.run, err = uuid.Parse(resp.Header.Get("X-Request-ID")); err != nil {
		return s, honest, fmt.Errorf("%s (%s): an answer without its id: %w", r.id, r.name, err)
	}
	var broken promise
	s.end, broken, err = c.read(r, resp, leave)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) { // it left by its own will
		s.end, err = left, nil
	}
	if err != nil {
		err = fmt.Errorf("%s (%s), run %s, status %d: %w", r.id, r.name, s.run, s.status, err)
	}
	return s, broken, err
}

func (c *client) send(ctx context.Context, r *request) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if r.limit != "" {
		req.Header.Set("X-Breakwater-Timeout", r.limit)
	}
	if r.client.pause > 0 || r.client.stuck > 0 {
		return c.slow.Do(req)
	}
	return c.quick.Do(req)
}

// read reads and judges an answer.
func (c *client) read(r *request, resp *http.Response, leave func()) (end, promise, error) {
	if resp.StatusCode == http.StatusOK && r.stream {
		return c.follow(r, resp.Body, leave)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return lost, answered, fmt.Errorf("the answer breaks off: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return served, honest, judgeWhole(r.id, body)
	}
	return endOf(resp.StatusCode), honest, errors.Join(judgeError(body), judgeWait(resp))
}

func endOf(status int) end {
	switch {
	case status == http.StatusTooManyRequests:
		return limited
	case status >= 500:
		return failed
	default:
		return refused
	}
}

// judgeWait checks that who is told to come back is told when.
func judgeWait(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if resp.Header.Get("Retry-After") == "" {
			return fmt.Errorf("a %d without Retry-After", resp.StatusCode)
		}
	}
	return nil
}

// follow reads a stream in the client's manner.
func (c *client) follow(r *request, body io.Reader, leave func()) (end, promise, error) {
	stay := -1
	switch {
	case r.client.stuck > 0:
		stay = 1
	case r.client.leaveAfter > 0:
		stay = rand.IntN(r.client.leaveAfter)
	}
	at := reading{id: r.id}
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF && line == "" {
			end, err := at.close()
			return end, honest, err
		}
		if err != nil {
			return lost, answered, fmt.Errorf("the stream breaks off after %d pieces: %w", at.pieces, err)
		}
		line = strings.TrimSuffix(line, "\n")
		if err := at.line(line); err != nil {
			return lost, honest, err
		}
		if line != "" {
			continue
		}
		if stay == 0 { // between two events
			time.Sleep(r.client.stuck)
			leave()
			return left, "", nil
		}
		stay--
		time.Sleep(r.client.pause)
	}
}
