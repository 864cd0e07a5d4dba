package app

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-llm/breakwater/internal/config"
)

// exhausted is a socket of a process that has no file descriptor left for a
// while; after it, the socket is closed.
type exhausted struct{ until time.Time }

func (e exhausted) Accept() (net.Conn, error) {
	if !time.Now().Before(e.until) {
		return nil, net.ErrClosed
	}
	return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
}

func (exhausted) Close() error   { return nil }
func (exhausted) Addr() net.Addr { return &net.TCPAddr{} }

func TestAnAcceptStormIsALineAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log, _ := NewLogger(config.Log{Level: "info", Format: "json"}, &out)
		socket := &accepting{Listener: exhausted{until: time.Now().Add(150 * time.Second)}, name: "listen", log: log}
		server := &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
		if err := server.Serve(socket); err == nil {
			t.Error("the server accepts from a closed socket")
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 3 {
			t.Fatalf("%d lines in two and a half minutes, want 3:\n%s", len(lines), out.String())
		}
		// The server waits a second between two tries, at first less.
		for i, times := range []string{`"times":1,`, `"times":6`, `"times":6`} {
			if !strings.Contains(lines[i], `"level":"WARN"`) || !strings.Contains(lines[i], times) || !strings.Contains(lines[i], "too many open files") {
				t.Errorf("line %d is %s, want a warning with %s", i+1, lines[i], times)
			}
		}
	})
}
