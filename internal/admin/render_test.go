package admin

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
)

// Operators close tabs and reload pages all day: that is nothing to warn of.
func TestWhoLeavesBeforeThePageIsDrawnIsNotAFault(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/", runsPath + uuid.NewString()} {
		var log bytes.Buffer
		pages := (&world{broken: context.Canceled}).pages(func(d *Deps) { d.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		e := echo.New()
		var passed error
		e.HTTPErrorHandler = func(err error, _ echo.Context) { passed = err }
		pages.Register(e.Group(""))

		gone, leave := context.WithCancel(t.Context())
		leave()
		answer := httptest.NewRecorder()
		e.ServeHTTP(answer, httptest.NewRequestWithContext(gone, http.MethodGet, path, nil))
		if !errors.Is(passed, context.Canceled) {
			t.Errorf("%s: passed on is %v, want the departure", path, passed)
		}
		if log.Len() > 0 || answer.Body.Len() > 0 {
			t.Errorf("%s: logged %q, answered %q", path, log.String(), answer.Body.String())
		}
	}
}
