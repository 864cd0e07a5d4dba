package cache

import "sync"

// backlog is how many messages may wait for a watcher before more are missed.
const backlog = 256

// hub passes messages to the watchers of this process.
type hub struct {
	closed chan struct{}

	mu       sync.RWMutex
	watchers map[string]map[chan string]struct{} // by channel
}

func newHub() hub {
	return hub{closed: make(chan struct{}), watchers: map[string]map[chan string]struct{}{}}
}

// join registers a watcher; leave takes it out again.
func (h *hub) join(channel string) (messages <-chan string, leave func()) {
	inbox := make(chan string, backlog)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers[channel] == nil {
		h.watchers[channel] = map[chan string]struct{}{}
	}
	h.watchers[channel][inbox] = struct{}{}
	return inbox, func() { h.leave(channel, inbox) }
}

func (h *hub) leave(channel string, inbox chan string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers[channel], inbox)
	if len(h.watchers[channel]) == 0 {
		delete(h.watchers, channel)
	}
}

// publish never waits: a watcher whose inbox is full misses the message.
func (h *hub) publish(channel, message string) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for inbox := range h.watchers[channel] {
		offer(inbox, message)
	}
}

func offer(inbox chan<- string, message string) {
	select {
	case inbox <- message:
	default:
	}
}
