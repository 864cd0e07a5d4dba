package private

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// serverLog passes the server's lines on and remembers the last that says why
// it could not go on.
type serverLog struct {
	log *slog.Logger

	mu      sync.Mutex
	pending []byte
	fatal   string
	latest  string
}

// Write takes the server's output in pieces of any size.
func (l *serverLog) Write(b []byte) (int, error) {
	for _, line := range l.split(b) {
		l.log.Debug("private database says", "line", line)
	}
	return len(b), nil
}

func (l *serverLog) split(b []byte) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, b...)
	var lines []string
	for {
		line, rest, found := bytes.Cut(l.pending, []byte("\n"))
		if !found {
			return lines
		}
		l.pending = rest
		l.latest = string(line)
		if strings.Contains(l.latest, "FATAL:") || strings.Contains(l.latest, "PANIC:") {
			l.fatal = l.latest
		}
		lines = append(lines, l.latest)
	}
}

// last is the newest fatal line, else the newest line.
func (l *serverLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal != "" {
		return l.fatal
	}
	return l.latest
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
