package api

import (
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"
)

// pipelineView is the body of GET /api/v1/pipeline.
type pipelineView struct {
	Middlewares []Middleware `json:"middlewares"`
}

// pipeline serves GET /api/v1/pipeline: the stack from the outside in.
func (a *admin) pipeline(c echo.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	return sendJSON(c, http.StatusOK, pipelineView{Middlewares: a.Snapshot().Middlewares})
}

// config serves GET /api/v1/config: what is in effect, secrets masked.
func (a *admin) config(c echo.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	body, err := a.Config()
	if err != nil {
		return fmt.Errorf("show the configuration: %w", err)
	}
	_ = sendWhole(c.Request().Context(), c.Response(), writeLimit, http.StatusOK, contentJSON, body)
	return nil
}

// metrics serves GET /metrics, to whoever has metrics_token when one is set.
func (a *admin) metrics(c echo.Context) error {
	token := a.Snapshot().MetricsToken
	if token != "" && !bearer(c.Request(), token) {
		c.Response().Header().Set("WWW-Authenticate", `Bearer realm="metrics"`)
		return metricsUnauthorized()
	}
	a.Metrics.ServeHTTP(c.Response(), c.Request())
	return nil
}
