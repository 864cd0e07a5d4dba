package provider

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// timeoutError is the cause with which a clock of ours ends an attempt.
type timeoutError struct {
	reason llm.Reason
	after  time.Duration
}

func (e *timeoutError) Error() string { return fmt.Sprintf("%s after %s", e.reason, e.after) }

// clock is the one timer of an attempt. Which limit it watches changes as the
// attempt goes on; re-arming it allocates nothing.
type clock struct {
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	timer    *time.Timer
	armed    bool
	deadline time.Time
	limit    timeoutError
}

func newClock(cancel context.CancelCauseFunc) *clock {
	return &clock{cancel: cancel}
}

// arm ends the attempt for the limit's reason unless the clock is stopped or
// armed anew within d. No duration at all means no limit.
func (c *clock) arm(d time.Duration, limit timeoutError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = limit.after > 0
	if !c.armed {
		return
	}
	c.limit = limit
	c.deadline = time.Now().Add(d)
	if c.timer == nil {
		c.timer = time.AfterFunc(d, c.fire)
		return
	}
	c.timer.Reset(d)
}

// stop disarms the clock. The timer itself may run on: fire looks again.
func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = false
}

// end disarms the clock for good.
func (c *clock) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = false
	if c.timer != nil {
		c.timer.Stop()
	}
}

func (c *clock) fire() {
	if limit, due := c.due(); due {
		c.cancel(&limit)
	}
}

// due reports whether the limit has really passed: the timer may have gone off
// just as it was stopped or set anew.
func (c *clock) due() (timeoutError, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limit, c.armed && !time.Now().Before(c.deadline)
}
