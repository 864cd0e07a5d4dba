package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/runs"
	"github.com/breakwater-llm/breakwater/web/templates"
)

// run serves GET /runs/{id}: one call of a client with all its attempts.
func (p *Pages) run(c echo.Context) error {
	id, err := uuid.Parse(c.Param("id"))
	if err != nil {
		return noSuchRun()
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), readTimeout)
	defer cancel()
	run, attempts, err := p.Runs.Find(ctx, id)
	switch {
	case errors.Is(err, runs.ErrNotFound):
		return noSuchRun()
	case err != nil:
		return &fault{
			status: http.StatusServiceUnavailable, cause: err,
			heading: "Runs cannot be read right now",
			text:    "The database does not answer. Calls are served all the same.",
		}
	}
	return send(c, http.StatusOK, templates.RunDetail(p.runPage(run, attempts, p.keyNames(ctx, []runs.Run{run}), time.Now())))
}

func noSuchRun() error {
	return &fault{
		status: http.StatusNotFound, heading: "There is no such run",
		text: "It was never recorded, or it is older than the telemetry that is kept. A run that has just ended is recorded within a moment.",
	}
}

func (p *Pages) runPage(run runs.Run, attempts []runs.Attempt, names map[string]string, now time.Time) templates.RunPage {
	page := templates.RunPage{
		Frame:    p.frame("Run "+run.RunID.String(), templates.SectionOverview),
		Headline: "Run " + run.RunID.String(),
		Outcome:  ending(run),
		Summary:  runInWords(run),
		Facts:    runFacts(run, names, now),
	}
	for _, attempt := range attempts {
		page.Attempts = append(page.Attempts, attemptRow(attempt, now))
	}
	return page
}

// runInWords says how the run ended, and for which reason if it went wrong or had
// to do without something.
func runInWords(run runs.Run) string {
	how := sentence(ending(run).Text)
	if degraded(run) {
		how += "," // its last word names what it is
	}
	text := fmt.Sprintf("%s with status %d after %s", how, run.HTTPStatus, millis(run.LatencyMs))
	if why := whatWentWrong(run); why != "" {
		text += ": " + why
	}
	return text + "."
}

func runFacts(run runs.Run, names map[string]string, now time.Time) []templates.Fact {
	facts := []templates.Fact{
		{Name: "API key", Value: names[word(run.APIKeyID)]},
		{Name: "API key id", Value: word(run.APIKeyID), Code: true},
		{Name: "Asked for", Value: run.RequestedModel},
		{Name: "Configuration", Value: word(run.Configuration)},
		{Name: "Served by", Value: served(run)},
		{Name: "Answered from", Value: answeredFrom(run)},
		{Name: "Started", Moment: clock(run.StartedAt, now)},
		{Name: "Latency", Value: millis(run.LatencyMs)},
		{Name: "First token", Value: optional(run.TTFTMs, millis)},
		{Name: "Gateway's share", Value: optional(run.OverheadUs, micros)},
		{Name: "Operation", Value: run.Operation + ", " + run.Dialect + streamed(run.Streamed)},
		{Name: "Attempts", Value: attemptsInWords(run)},
		{Name: "Tokens", Value: tokens(run.InputTokens, run.OutputTokens) + estimated(run.UsageEstimated)},
		{Name: "Cost", Value: cost(run.CostUSD, run.Unpriced)},
		{Name: "Correlation id", Value: run.CorrelationID, Code: true},
		{Name: "Trace id", Value: word(run.TraceID), Code: true},
	}
	return known(facts)
}

// answeredFrom says where an answer came from that no target has given to this
// call.
func answeredFrom(run runs.Run) string {
	switch {
	case run.IdempotentReplay:
		return "an earlier call with the same idempotency key"
	case run.CacheHit:
		return "the response cache"
	case unanswered(run):
		return "the message of the configuration"
	default:
		return ""
	}
}

// known leaves out the facts that are not known.
func known(facts []templates.Fact) []templates.Fact {
	kept := facts[:0]
	for _, fact := range facts {
		if fact.Value != "" || !fact.Moment.None() {
			kept = append(kept, fact)
		}
	}
	return kept
}

func attemptRow(a runs.Attempt, now time.Time) templates.Attempt {
	return templates.Attempt{
		Seq:     grouped(a.Seq),
		Target:  a.Provider + "/" + a.Model + "/" + a.Region,
		Outcome: outcome(a.Outcome), Why: failure(a.FailureClass, a.FailureReason),
		Status: optional(a.UpstreamStatus, grouped), Circuit: found(a),
		At: clock(a.StartedAt, now), Latency: optional(a.LatencyMs, millis), First: optional(a.TTFTMs, millis),
		Retries: grouped(a.Retries),
		Tokens:  tokens(a.InputTokens, a.OutputTokens), Cost: cost(a.CostUSD, a.Unpriced),
	}
}

// found is the circuit as the attempt found it, and whether it was a probe.
func found(a runs.Attempt) string {
	state := strings.ReplaceAll(word(a.CircuitState), "_", "-")
	if a.Probe == nil {
		return state
	}
	return state + caused(strings.ReplaceAll(*a.Probe, "_", " "))
}
