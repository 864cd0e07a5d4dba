package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/web/templates"
)

// Limits reads how every limit stands.
type Limits interface {
	// Holders returns everyone whom limits hold for, configurations first. An error
	// means that not all of them are known.
	Holders(ctx context.Context) ([]LimitHolder, error)
	// Degraded reports whether this gateway counts by itself what it should count
	// together with others: the figures are then those of its share.
	Degraded() bool
}

// LimitHolder is whom limits hold for, and how they stand.
type LimitHolder struct {
	Scope  llm.Scope
	Name   string
	States []budget.State
	Err    error // why nobody can tell
}

// limitsPage serves GET /limits: what configurations and keys may still use.
func (p *Pages) limitsPage(c echo.Context) error {
	now := time.Now()
	ctx, cancel := context.WithTimeout(c.Request().Context(), readTimeout)
	defer cancel()
	view := templates.LimitsPage{Frame: p.frame("Limits", templates.SectionLimits)}
	holders, err := p.Limits.Holders(ctx)
	if err != nil {
		p.Log.Debug("the holders of limits cannot be listed", "error", err)
		view.Trouble = "The API keys cannot be read right now: the database does not answer. Their limits hold all the same."
	}
	view.Alone = p.Limits.Degraded()
	for _, h := range holders {
		view.Holders = append(view.Holders, p.limitHolder(h, now))
	}
	return send(c, http.StatusOK, templates.LimitsTable(view))
}

func (p *Pages) limitHolder(h LimitHolder, now time.Time) templates.LimitHolder {
	view := templates.LimitHolder{ID: "limits-" + elementID(string(h.Scope.Kind)+h.Scope.ID), Kind: "Configuration", Name: h.Name}
	if h.Scope.Kind == llm.ScopeKey {
		view.Kind = "API key"
	}
	if h.Err != nil {
		p.Log.Debug("limits cannot be told", "scope", h.Scope.Kind, "error", h.Err)
		view.Trouble = "What was used of them is not known right now: neither the cache nor the database tells."
		return view
	}
	for _, s := range h.States {
		view.Limits = append(view.Limits, limitRow(s, now))
	}
	return view
}

func limitRow(s budget.State, now time.Time) templates.LimitRow {
	row := templates.LimitRow{
		Name: string(s.Limit), State: limitState(s), Used: used(s),
		Allowed: amountOf(s.Limit, s.Allowed), Spent: amountOf(s.Limit, s.Spent),
		Reserved: amountOf(s.Limit, s.Reserved), Left: amountOf(s.Limit, s.Left()),
	}
	if !s.Resets.IsZero() {
		row.Resets = clock(s.Resets, now)
	}
	return row
}

// nearly is the percentage from which a limit deserves a look.
const nearly = 80

func limitState(s budget.State) templates.Mark {
	switch {
	case !s.Spent.LessThan(s.Allowed):
		return templates.Mark{Tone: templates.Bad, Text: "used up"}
	case s.Left().IsZero():
		return templates.Mark{Tone: templates.Caution, Text: "all reserved"}
	case used(s) >= nearly:
		return templates.Mark{Tone: templates.Caution, Text: "nearly used up"}
	default:
		return templates.Mark{Tone: templates.Good, Text: "room left"}
	}
}

// used is how much of what is allowed is spent or reserved, in whole percent. It
// says 100 only when nothing is left.
func used(s budget.State) int {
	if !s.Allowed.IsPositive() || s.Left().IsZero() {
		return 100
	}
	share := s.Spent.Add(s.Reserved).Mul(decimal.NewFromInt(100)).Div(s.Allowed)
	return int(min(share.IntPart(), 99))
}

// amountOf writes an amount in the unit of its limit.
func amountOf(limit llm.LimitName, amount decimal.Decimal) string {
	if limit == llm.LimitCostPerDay || limit == llm.LimitCostPerMonth {
		return dollars(amount)
	}
	return grouped(amount.IntPart())
}
