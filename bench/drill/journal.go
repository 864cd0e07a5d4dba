package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// The states of a circuit that the drill looks for.
const (
	stateOpen     = "open"
	stateHalfOpen = "half_open"
	stateClosed   = "closed"
)

// reasonCanary is why a circuit is half-open that sends a canary first.
const reasonCanary = "canary"

// event is one transition of the circuit.
type event struct {
	At     time.Time
	From   string `json:"from_state"`
	To     string `json:"to_state"`
	Reason string
}

// journal follows the events of one circuit as they happen.
type journal struct {
	done chan struct{}

	mu     sync.Mutex
	events []event
	err    error
}

// open begins to follow; it ends with ctx. What happens from its return on is
// in the journal.
func (j *journal) open(ctx context.Context, admin, circuit string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+"/api/v1/events?key="+url.QueryEscape(circuit), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("follow the events of %s: %s", circuit, resp.Status), resp.Body.Close())
	}
	j.done = make(chan struct{})
	go func() {
		defer close(j.done)
		defer resp.Body.Close()
		err := j.read(resp.Body)
		if ctx.Err() == nil { // it was not told to end
			j.mu.Lock()
			defer j.mu.Unlock()
			j.err = errors.Join(errors.New("the events ended before the drill"), err)
		}
	}()
	return nil
}

// read takes one server-sent event after the other.
func (j *journal) read(stream io.Reader) error {
	lines := bufio.NewScanner(stream)
	kind := ""
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case field == "event":
			kind = value
		case field == "data" && kind == "circuit":
			if err := j.enter(value); err != nil {
				return err
			}
		case field == "data":
			return fmt.Errorf("%s: %s", kind, value)
		}
	}
	return lines.Err()
}

func (j *journal) enter(data string) error {
	var e event
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return fmt.Errorf("read an event: %w: %.200s", err, data)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, e)
	return nil
}

// opened reports whether the circuit has opened since a moment.
func (j *journal) opened(since time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.events, func(e event) bool { return e.To == stateOpen && !e.At.Before(since) })
}

// closed reports whether the circuit is closed.
func (j *journal) closed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.events) == 0 || j.events[len(j.events)-1].To == stateClosed
}

// close waits for the end of the events and returns them. Returns an error when
// some were missed.
func (j *journal) close() ([]event, error) {
	<-j.done
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.events, j.err
}
