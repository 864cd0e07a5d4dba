package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Budgets tells how limits stand.
type Budgets interface {
	TimeZone() string
	// Degraded reports whether limits are kept by this gateway alone although they
	// are to be shared.
	Degraded() bool
	// Configurations and Keys list those that have limits.
	Configurations() []Limited
	Keys(ctx context.Context) ([]Limited, error)
	// Standing returns how the limits stand, or an *llm.Failure where nobody can tell.
	Standing(ctx context.Context, of Limited) ([]budget.State, error)
}

// Limited is somebody for whom limits hold.
type Limited struct {
	Scope  llm.Scope
	Name   string // for people
	Limits llm.Limits
}

// budgetList is the body of GET /api/v1/budgets.
type budgetList struct {
	TimeZone string       `json:"time_zone"`
	Degraded bool         `json:"degraded"` // limits are kept by this gateway alone, though they are to be shared
	Budgets  []budgetView `json:"budgets"`
}

// budgetView is how the limits of one stand.
type budgetView struct {
	Scope  llm.ScopeKind `json:"scope"`
	ID     string        `json:"id"`
	Name   string        `json:"name"`
	Limits []limitView   `json:"limits"`
}

// limitView is one limit, in requests, tokens or USD. Null = not known.
type limitView struct {
	Limit    llm.LimitName `json:"limit"`
	Allowed  json.Number   `json:"allowed"`
	Spent    *json.Number  `json:"spent"`
	Reserved *json.Number  `json:"reserved"` // by calls under way
	Left     *json.Number  `json:"left"`
	ResetsAt *time.Time    `json:"resets_at"` // null also for calls at once, which other calls' ends decide about
}

// listBudgets serves GET /api/v1/budgets: every configuration with limits, then
// every live key with limits; or the one that `configuration` or `key` names.
func (a *admin) listBudgets(c echo.Context) error {
	q := queryOf(c, "configuration", "key")
	configuration, key := q.text("configuration"), q.text("key")
	if configuration != "" && key != "" {
		q.fail("key", "Ask for a configuration or for a key, not for both.")
	}
	if q.err != nil {
		return q.err
	}
	ctx := c.Request().Context()
	limited, err := a.limited(ctx, configuration, key)
	if err != nil {
		return err
	}
	list := budgetList{TimeZone: a.Budgets.TimeZone(), Budgets: make([]budgetView, 0, len(limited))}
	for _, of := range limited {
		view, err := a.viewBudget(ctx, of)
		if err != nil {
			return err
		}
		list.Budgets = append(list.Budgets, view)
	}
	list.Degraded = a.Budgets.Degraded() // as it was while they were asked
	return sendJSON(c, http.StatusOK, list)
}

// limited lists whose limits are asked for: all, or one. A configuration is found
// without the database.
func (a *admin) limited(ctx context.Context, configuration, key string) ([]Limited, error) {
	var all []Limited
	if key == "" {
		all = a.Budgets.Configurations()
	}
	if configuration == "" {
		keys, err := a.Budgets.Keys(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, keys...)
	}
	if configuration == "" && key == "" {
		return all, nil
	}
	all = slices.DeleteFunc(all, func(of Limited) bool { return of.Scope.ID != configuration && of.Scope.ID != key && of.Name != key })
	if len(all) == 0 {
		whom := "a key of this id or name" // which may be the whole text of a key
		if configuration != "" {
			whom = strconv.Quote(configuration)
		}
		return nil, notFound("No limits hold for %s; GET /api/v1/budgets lists all.", whom)
	}
	return all, nil
}

func (a *admin) viewBudget(ctx context.Context, of Limited) (budgetView, error) {
	view := budgetView{Scope: of.Scope.Kind, ID: of.Scope.ID, Name: of.Name}
	states, err := a.Budgets.Standing(ctx, of)
	var unknown *llm.Failure
	switch {
	case err == nil:
	case errors.As(err, &unknown):
		view.Limits = unknownLimits(of.Limits)
		return view, nil
	default:
		return view, fmt.Errorf("ask how limits stand: %w", err)
	}
	for _, s := range states {
		limit := limitView{
			Limit: s.Limit, Allowed: json.Number(s.Allowed.String()),
			Spent: numberOf(s.Spent), Reserved: numberOf(s.Reserved), Left: numberOf(s.Left()),
		}
		if !s.Resets.IsZero() {
			limit.ResetsAt = new(s.Resets.UTC())
		}
		view.Limits = append(view.Limits, limit)
	}
	return view, nil
}

// unknownLimits are limits of which nobody can tell how much is used.
func unknownLimits(limits llm.Limits) []limitView {
	var all []limitView
	for _, name := range llm.LimitNames() {
		if allowed, limited := limits.Of(name); limited {
			all = append(all, limitView{Limit: name, Allowed: json.Number(allowed.String())})
		}
	}
	return all
}

func numberOf(d decimal.Decimal) *json.Number { return new(json.Number(d.String())) }
