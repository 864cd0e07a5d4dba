package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

// controlOf reaches the server's own writer: echo's wrapper has a Flush that
// cannot report an error.
func controlOf(w *echo.Response) *http.ResponseController {
	return http.NewResponseController(w.Writer)
}

const contentJSON = "application/json"

// writeLimit bounds the write of what is small and made by the gateway; answers
// of calls have write_timeout.
const writeLimit = 30 * time.Second

// piece is how much of a body has the time limit to itself: a client that takes
// a long body slowly, but takes it, is served to its end.
const piece = 64 << 10

// sendWhole writes one whole body, each piece of it within a time limit, while ctx
// lasts. Returns why it could not.
func sendWhole(ctx context.Context, w *echo.Response, limit time.Duration, status int, contentType string, body []byte) error {
	control := controlOf(w)
	begin := func() { _ = control.SetWriteDeadline(time.Now().Add(limit)) }
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	begin()
	w.WriteHeader(status)
	for part := range slices.Chunk(body, piece) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		begin()
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return control.Flush()
}

// sendFault writes a fault in the envelope of the dialect.
func sendFault(w *echo.Response, limit time.Duration, f *fault) {
	body := f.body
	if body == nil {
		body = openai.AppendError(nil, openai.Error{Message: f.message, Type: f.kind, Param: f.param, Code: f.code})
	}
	sayRetry(w.Header(), f.status, f.wait)
	if f.final {
		w.Header().Set(headerShouldRetry, "false")
	}
	_ = sendWhole(context.Background(), w, limit, f.status, contentJSON, body) // nobody is left to be told
}

// sendJSON writes a value that the gateway made.
func sendJSON(c echo.Context, status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	_ = sendWhole(context.Background(), c.Response(), writeLimit, status, contentJSON, append(body, '\n')) // nobody is left to be told
	return nil
}
