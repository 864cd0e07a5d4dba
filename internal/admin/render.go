package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/web/templates"
)

// fault is a request that cannot be served, as the person who made it is told.
type fault struct {
	status  int
	heading string
	text    string
	cause   error // for the log; may be nil
}

func (f *fault) Error() string {
	if f.cause == nil {
		return f.heading
	}
	return f.heading + ": " + f.cause.Error()
}

func (f *fault) Unwrap() error { return f.cause }

// draw renders a component whole, so that a fault in it is an error and not
// half a page.
func draw(ctx context.Context, component templ.Component) ([]byte, error) {
	var page bytes.Buffer
	if err := component.Render(ctx, &page); err != nil {
		return nil, fmt.Errorf("draw a page: %w", err)
	}
	return page.Bytes(), nil
}

// send answers with a page.
func send(c echo.Context, status int, component templ.Component) error {
	page, err := draw(c.Request().Context(), component)
	if err != nil {
		return err
	}
	return c.HTMLBlob(status, page)
}

// explained turns an error of a page into a page that says what went wrong,
// and logs what a person cannot be told. Where the person is gone, there is
// nothing to explain, and a departure is no fault to warn of: that is left to
// whoever serves the listener.
func (p *Pages) explained(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := next(c)
		if err == nil || c.Response().Committed || c.Request().Context().Err() != nil {
			return err
		}
		var f *fault
		if !errors.As(err, &f) {
			f = &fault{
				status: http.StatusInternalServerError, cause: err,
				heading: "This page could not be drawn",
				text:    "The gateway goes on serving calls. The log says what went wrong.",
			}
		}
		id := c.Response().Header().Get("X-Request-ID")
		if f.cause != nil {
			p.Log.Warn("a page could not be served", "route", c.Path(), "run_id", id, "error", f.cause)
		}
		return send(c, f.status, templates.Failed(templates.ErrorPage{
			Frame: p.frame(f.heading, ""), Status: f.status, Heading: f.heading, Text: f.text, RequestID: id,
		}))
	}
}

// frame is what surrounds every page.
func (p *Pages) frame(title, section string) templates.Frame {
	return templates.Frame{
		Title: title, Section: section,
		Assets: templates.Assets{
			Style: p.files.URL("admin.css"), Icon: p.files.URL("icon.svg"),
			HTMX: p.files.URL("htmx.min.js"), SSE: p.files.URL("sse.min.js"), Live: p.files.URL("live.js"),
		},
	}
}
