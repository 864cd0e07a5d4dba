package admin

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// writeTimeout is how long a page may take to read what it is sent.
const writeTimeout = 10 * time.Second

// events writes an event stream to a page.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	pending bytes.Buffer
}

// openEvents begins an event stream whose reader comes back after two seconds
// when it is cut.
func openEvents(w http.ResponseWriter) *events {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	e := &events{w: w, control: http.NewResponseController(w)}
	e.pending.WriteString("retry: 2000\n\n")
	return e
}

// add puts an event behind those that wait to be flushed. Every line of the
// data gets its own field, whatever ends it: text that came from elsewhere may
// hold any line end, and none may end the event.
func (e *events) add(name string, data []byte) {
	lines := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data))
	fmt.Fprintf(&e.pending, "event: %s\n", name)
	for line := range strings.SplitSeq(lines, "\n") {
		fmt.Fprintf(&e.pending, "data: %s\n", line)
	}
	e.pending.WriteByte('\n')
}

// flush sends what was added. An error means that the page is gone, or reads
// too slowly to stay.
func (e *events) flush() error {
	if e.pending.Len() == 0 {
		return nil
	}
	if err := e.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return fmt.Errorf("bound a write to a live page: %w", err)
	}
	if _, err := e.w.Write(e.pending.Bytes()); err != nil {
		return fmt.Errorf("write to a live page: %w", err)
	}
	e.pending.Reset()
	if err := e.control.Flush(); err != nil {
		return fmt.Errorf("flush to a live page: %w", err)
	}
	return nil
}
