package api

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// probes serve liveness and readiness, on both listeners.
type probes struct {
	gate     *Gate
	degraded func() []string
}

func (p probes) routes(e *echo.Echo) {
	e.GET("/healthz", p.alive)
	e.GET("/readyz", p.ready)
}

// alive serves GET /healthz: 200 while the process serves.
func (p probes) alive(c echo.Context) error {
	return sendJSON(c, http.StatusOK, map[string]string{"status": "ok"})
}

// readiness is the body of GET /readyz.
type readiness struct {
	Status   string   `json:"status"`   // starting, ready or draining
	Degraded []string `json:"degraded"` // helpers that are away while calls are served
}

// ready serves GET /readyz: 200 when requests can be served, with or without the
// helpers; 503 while starting and from the first sign of the end on.
func (p probes) ready(c echo.Context) error {
	phase := p.gate.phase.Load()
	body := readiness{Status: phaseNames[phase], Degraded: p.degraded()}
	if body.Degraded == nil {
		body.Degraded = []string{}
	}
	if phase == phaseReady {
		return sendJSON(c, http.StatusOK, body)
	}
	return sendJSON(c, http.StatusServiceUnavailable, body)
}
