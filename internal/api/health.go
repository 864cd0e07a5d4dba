package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/health"
)

// Health tells how well the providers have been doing.
type Health interface {
	// Report reads a snapshot; it does not ask the database.
	Report() health.Report
}

// providers serves GET /api/v1/health/providers.
func (a *admin) providers(c echo.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	return sendJSON(c, http.StatusOK, a.Health.Report())
}
