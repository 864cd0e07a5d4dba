package api

import (
	"encoding/json"
	"fmt"
	"net/http"
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

// sendWhole writes one whole body within a time limit. A client that does not
// take it is gone: there is nobody left to be told.
func sendWhole(w *echo.Response, limit time.Duration, status int, contentType string, body []byte) {
	_ = controlOf(w).SetWriteDeadline(time.Now().Add(limit))
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// sendFault writes a fault in the envelope of the dialect.
func sendFault(w *echo.Response, limit time.Duration, f *fault) {
	body := f.body
	if body == nil {
		body = openai.AppendError(nil, openai.Error{Message: f.message, Type: f.kind, Param: f.param, Code: f.code})
	}
	sayRetry(w.Header(), f.status, f.wait)
	sendWhole(w, limit, f.status, contentJSON, body)
}

// sendJSON writes a value that the gateway made.
func sendJSON(c echo.Context, status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	sendWhole(c.Response(), writeLimit, status, contentJSON, append(body, '\n'))
	return nil
}
