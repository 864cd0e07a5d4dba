package api

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"
)

// Data is what the data plane is built on.
type Data struct {
	// Snapshot returns the running configuration; each request asks once.
	Snapshot func() *Snapshot
	Gate     *Gate
	// Degraded names the helpers that are away while calls are served, such as
	// "database".
	Degraded func() []string
	Refusals Refusals
	// Keys knows who calls; nil lets every caller in.
	Keys Keys
	Log  *slog.Logger
}

// Refusals counts the requests that were refused before they became a call.
type Refusals interface {
	// Refused counts one under its code, one of RefusalCodes.
	Refused(code string)
}

// data serves the data plane.
type data struct {
	Data
	bodies bodies
}

// NewData returns the handler of the data plane. Without Keys it belongs on a
// loopback address, and what a web page could make a browser on this machine send
// is refused: it would spend money, or read the answers. No web page has a key.
func NewData(deps Data) http.Handler {
	d := &data{Data: deps}
	e := newEcho()
	e.HTTPErrorHandler = d.refuse
	e.Use(identify, noAttempts, observe(deps.Log), freshDeadline, recoverPanics(deps.Log))
	if deps.Keys == nil {
		e.Use(onlyLoopbackHost, sameOriginChanges(http.NewCrossOriginProtection()))
	}

	e.POST("/v1/chat/completions", d.chat, d.authenticate)
	e.GET("/v1/models", d.listModels, d.authenticate)
	e.GET("/v1/models/*", d.getModel, d.authenticate)
	probes{gate: deps.Gate, degraded: deps.Degraded}.routes(e)
	return e
}

// newEcho returns a router that prints and recovers nothing by itself.
func newEcho() *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	return e
}

// refuse answers and counts a request that did not become a call.
func (d *data) refuse(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	f := faultOf(c, err)
	d.Refusals.Refused(f.code)
	logUnexpected(d.Log, c, err, f)
	sendFault(c.Response(), writeLimit, f)
}

// logUnexpected writes the details that a client is not told.
func logUnexpected(log *slog.Logger, c echo.Context, err error, f *fault) {
	if f.status != http.StatusInternalServerError {
		return
	}
	var p *panicked
	if errors.As(err, &p) {
		return // logged where it was caught, with its stack
	}
	log.Error("request failed by a fault of the gateway", "run_id", identityOf(c).run, "error", err, "cause", errors.Unwrap(err))
}
