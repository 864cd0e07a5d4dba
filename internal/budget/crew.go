package budget

import "sync"

// crew is work that may begin while somebody waits for its end.
type crew struct {
	mu   sync.Mutex
	busy int
	idle chan struct{} // closed when nothing is done; nil: nobody waits
}

// Go runs f.
func (c *crew) Go(f func()) {
	c.mu.Lock()
	c.busy++
	c.mu.Unlock()
	go func() {
		defer c.done()
		f()
	}()
}

func (c *crew) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy--; c.busy == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// Wait returns when nothing is done.
func (c *crew) Wait() {
	c.mu.Lock()
	if c.busy == 0 {
		c.mu.Unlock()
		return
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	<-idle
}
