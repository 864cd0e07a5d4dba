package admin

import (
	"context"
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

// overviewParts are the parts of the overview that are known at once.
func overviewParts(seen reading) ([]part, error) {
	return []part{
		{templates.PartSummary, templates.SummaryPart(seen.summary())},
		{templates.PartAttention, templates.AttentionList(seen.attention())},
		{templates.PartCallers, templates.CallerList(seen.fare())},
		{templates.PartTargets, templates.TargetTable(seen.targets())},
	}, nil
}

func (p *Pages) runsPart(ctx context.Context, seen reading) part {
	return part{templates.PartRuns, templates.RunTable(p.recent(ctx, seen.now))}
}
