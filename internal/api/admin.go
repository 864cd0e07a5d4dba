package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// Admin is what the operator API is built on.
type Admin struct {
	// Snapshot returns the running configuration; each request asks once.
	Snapshot func() *Snapshot
	Gate     *Gate
	Degraded func() []string
	Circuits Circuits
	Budgets  Budgets
	// Steering does what operators decide about circuits.
	Steering Steering
	// Tokens knows who calls with an operator token.
	Tokens Tokens
	// Keys are what apps call with.
	Keys   KeyStore
	Events CircuitEvents
	Writer Writer
	Feed   *Feed
	Runs   Runs
	Usage  Usage
	// Zone is the time zone in which the days of usage begin.
	Zone   func() *time.Location
	Health Health
	// DatabaseAway reports whether an error of Events or Runs means that the
	// database cannot be reached.
	DatabaseAway func(error) bool
	// Config returns the effective configuration as JSON, its secrets masked.
	Config     func() ([]byte, error)
	Simulators Simulators
	// Responses are the answers that are kept.
	Responses Responses
	// Pages adds the operators' interface for people; it sets headers of its own.
	Pages func(*echo.Group)
	// Nowhere answers people at a path that nothing is at, or returns an error where
	// they are none; nil: nobody is told but in JSON.
	Nowhere echo.HandlerFunc
	// Metrics serves /metrics.
	Metrics http.Handler
	Log     *slog.Logger
}

// admin serves the operator API.
type admin struct{ Admin }

// NewAdmin returns the handler of the admin listener: the operator API, the
// probes and the metrics. Until sign-in exists it belongs on a loopback address
// only, answers to no other Host, and asks for no operator token; one that is
// given is checked.
func NewAdmin(deps Admin) http.Handler {
	a := &admin{Admin: deps}
	e := newEcho()
	e.HTTPErrorHandler = a.fail
	e.Use(identify, observe(deps.Log), freshDeadline, recoverPanics(deps.Log),
		secureHeaders, onlyLoopbackHost, sameOriginChanges(http.NewCrossOriginProtection()), a.authenticate)
	a.routes(e)
	deps.Pages(e.Group(""))
	return e
}

// readLimit is how long an answer waits for the database. One that hangs must
// not keep the caller waiting, nor the connections from the others.
const readLimit = 5 * time.Second

// patient bounds what a handler waits for.
func patient(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx, cancel := context.WithTimeout(c.Request().Context(), readLimit)
		defer cancel()
		c.SetRequest(c.Request().WithContext(ctx))
		return next(c)
	}
}

// routes is the whole operator API; what asks the database is patient, and what
// changes something needs an operator.
func (a *admin) routes(e *echo.Echo) {
	e.GET("/api/v1/pipeline", a.pipeline)
	e.GET("/api/v1/health/providers", a.providers)
	e.GET("/api/v1/circuits", a.listCircuits)
	e.GET("/api/v1/circuits/:key", a.getCircuit, patient)
	e.GET("/api/v1/circuits/:key/events", a.listCircuitEvents, patient)
	e.GET("/api/v1/events", a.streamEvents)
	e.GET("/api/v1/budgets", a.listBudgets, patient)
	for _, action := range circuitActions() {
		e.POST("/api/v1/circuits/:key/"+string(action), a.steer(action), mayChange)
	}
	e.GET("/api/v1/runs", a.listRuns, patient)
	e.GET("/api/v1/runs/:run_id", a.getRun, patient)
	e.GET("/api/v1/usage", a.getUsage, patient)
	e.GET("/api/v1/keys", a.listKeys, patient)
	e.POST("/api/v1/keys", a.createKey, mayChange, patient)
	e.POST("/api/v1/keys/:id/revoke", a.revokeKey, mayChange, patient)
	e.GET("/api/v1/config", a.config)
	e.GET("/api/v1/simulated/:provider", a.getSimulated)
	e.PUT("/api/v1/simulated/:provider", a.putSimulated, mayChange)
	e.DELETE("/api/v1/response-cache", a.clearResponses, mayChange)
	e.GET("/metrics", a.metrics)
	probes{gate: a.Gate, degraded: a.Degraded}.routes(e)
}

// fail answers a request that could not be served.
func (a *admin) fail(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	f := faultOf(c, err)
	if f.row == rowUnknownURL && a.Nowhere != nil && a.Nowhere(c) == nil {
		return
	}
	if path, ok := oneSegment(c.Request().URL.EscapedPath()); ok && f.row == rowUnknownURL {
		f = slashedKey(c.Request(), path)
	}
	if a.DatabaseAway(err) {
		f = databaseAway()
	}
	logUnexpected(a.Log, c, err, f)
	sendFault(c.Response(), writeLimit, f)
}
