package cache_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// journal keeps what was logged.
type journal struct {
	mu       sync.Mutex
	messages []string
	text     strings.Builder // everything, attributes included
}

func (j *journal) logger() *slog.Logger { return slog.New(j) }

func (j *journal) Enabled(context.Context, slog.Level) bool { return true }
func (j *journal) WithAttrs([]slog.Attr) slog.Handler       { return j }
func (j *journal) WithGroup(string) slog.Handler            { return j }

func (j *journal) Handle(_ context.Context, r slog.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.messages = append(j.messages, r.Message)
	j.text.WriteString(r.Message + "\n")
	r.Attrs(func(a slog.Attr) bool {
		j.text.WriteString(a.String() + "\n")
		return true
	})
	return nil
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// last is the message that was logged last.
func (j *journal) last() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.messages) == 0 {
		return ""
	}
	return j.messages[len(j.messages)-1]
}

// wantTurns wants one line for each loss of the server and one for its return,
// and one of both at least.
func (j *journal) wantTurns(t *testing.T) {
	t.Helper()
	j.mu.Lock()
	lines := max(2, len(j.messages))
	j.mu.Unlock()
	j.want(t, slices.Repeat([]string{away, back}, lines)[:lines]...)
}

func (j *journal) want(t *testing.T, messages ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if diff := cmp.Diff(messages, j.messages); diff != "" {
		t.Errorf("log (-want +got):\n%s\nin full:\n%s", diff, j.text.String())
	}
}
