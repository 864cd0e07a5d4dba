package admin

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/web/templates"
)

// overview serves GET /: how the gateway is doing now, all of it at once.
func (p *Pages) overview(c echo.Context) error {
	seen := p.look(time.Now())
	summary := seen.summary()
	frame := p.frame(summary.Title, templates.SectionOverview)
	frame.Stream = livePath
	return send(c, http.StatusOK, templates.OverviewPage(templates.Overview{
		Frame: frame, AsOf: clock(seen.now, seen.now),
		Summary: summary, Attention: seen.attention(), Callers: seen.fare(), Targets: seen.targets(),
		Runs: p.recent(c.Request().Context(), seen.now),
	}))
}
