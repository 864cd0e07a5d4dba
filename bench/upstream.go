package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"
)

// upstreamCmd is an OpenAI-shaped server that has its answers ready.
type upstreamCmd struct {
	FirstToken time.Duration `help:"Wait before the first byte of an answer."`
	Pace       time.Duration `help:"Wait before each further piece of a stream."`
}

// Run serves until standard input ends.
func (u *upstreamCmd) Run(ctx context.Context) error {
	return serve(ctx, u.handler(exchanges()))
}

func (u *upstreamCmd) handler(answers map[mode]exchange) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		pause(r.Context(), u.FirstToken)
		if bytes.Contains(body, []byte(`"stream":true`)) {
			u.stream(w, r, answers[stream], bytes.Contains(body, []byte(`"include_usage":true`)))
			return
		}
		w.Header().Set("Content-Type", answers[whole].mimeType)
		_, _ = w.Write(answers[whole].answer) // the client counts what did not come
	}
}

// stream writes the pieces one by one, each on its way before the next.
func (u *upstreamCmd) stream(w http.ResponseWriter, r *http.Request, answer exchange, usage bool) {
	w.Header().Set("Content-Type", answer.mimeType)
	control := http.NewResponseController(w)
	last := len(answer.pieces) - 1
	for i, piece := range answer.pieces {
		if i == last && usage {
			piece = append(usageChunk(), piece...)
		}
		if i > 0 {
			pause(r.Context(), u.Pace)
		}
		if _, err := w.Write(piece); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
