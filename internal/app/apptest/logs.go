package apptest

import (
	"bytes"
	"strings"
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

// warnings returns the lines that ask for attention, and those about telemetry,
// which explain rows that are missing.
func (l *Logs) warnings() string {
	var kept strings.Builder
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, `"level":"WARN"`) || strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, `"msg":"telemetry`) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
