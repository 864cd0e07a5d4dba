package api_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// The cost of the data plane itself: everything between the server and the
// pipeline, with a pipeline that answers at once.
func BenchmarkChat(b *testing.B) {
	event := llm.Event{Raw: []byte(hel), Kind: llm.EventContent}
	benchmarks := map[string]api.Handler{
		"whole": answering(`{"id":"x","object":"chat.completion","choices":[]}`),
		"stream of 100 events": func(_ context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
			reach(call, targetA)
			for range 100 {
				if err := emit(event); err != nil {
					return nil, err
				}
			}
			return &llm.Result{Target: targetA, Streamed: true}, nil
		},
	}
	for name, handle := range benchmarks {
		b.Run(name, func(b *testing.B) {
			handler := api.NewData(api.Data{
				Snapshot: snapshotOf(handle), Gate: api.NewGate(), Refusals: &counter{},
				Degraded: func() []string { return nil }, Log: slog.New(slog.DiscardHandler),
			})
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r, _ := http.NewRequest(http.MethodPost, "http://127.0.0.1/v1/chat/completions", strings.NewReader(chatBody))
					w := &discard{header: http.Header{}}
					handler.ServeHTTP(w, r)
					if w.status != http.StatusOK {
						b.Fatalf("status %d, want 200", w.status)
					}
				}
			})
		})
	}
}

func snapshotOf(handle api.Handler) func() *api.Snapshot {
	s := snapshot(handle)
	return func() *api.Snapshot { return s }
}

// discard is a writer to nobody, with all that a real one can do.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header              { return d.header }
func (d *discard) Write(p []byte) (int, error)      { return len(p), nil }
func (d *discard) WriteHeader(status int)           { d.status = status }
func (d *discard) FlushError() error                { return nil }
func (d *discard) SetReadDeadline(time.Time) error  { return nil }
func (d *discard) SetWriteDeadline(time.Time) error { return nil }
