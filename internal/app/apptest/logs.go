package apptest

import (
	"bytes"
	"sync"
)

// Logs keeps what the gateway logged.
type Logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write takes a line.
func (l *Logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns everything logged so far.
func (l *Logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
