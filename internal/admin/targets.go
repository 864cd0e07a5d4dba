package admin

import (
	"time"

	"github.com/breakwater-llm/breakwater/internal/health"
	"github.com/breakwater-llm/breakwater/web/templates"
)

// targets is the table of all targets.
func (r reading) targets() templates.Targets {
	table := templates.Targets{Order: orderInWords(r.report), Window: windowInWords(r.report), Trouble: r.staleness()}
	for _, t := range r.all {
		table.Rows = append(table.Rows, r.targetRow(t))
	}
	return table
}

// orderInWords says whether scores are acted on.
func orderInWords(report health.Report) string {
	switch {
	case !report.ReorderFallback:
		return "Reordering is off: targets are tried as configured."
	case report.ReorderPrimary:
		return "Reordering is on: targets are tried by their score."
	default:
		return "Reordering is on: the first target keeps its place, the others are tried by their score."
	}
}

func windowInWords(report health.Report) string {
	window := time.Duration(report.WindowMs) * time.Millisecond
	return "Scores are over the last " + span(window) + "; latencies are those of successes."
}

// staleness says when the figures are not those of now.
func (r reading) staleness() string {
	switch {
	case !r.report.Stale:
		return ""
	case r.report.RefreshedAt == nil:
		return "Health cannot be read right now: the database does not answer."
	default:
		return "Health cannot be read right now: scores and latencies are those of " +
			since(*r.report.RefreshedAt, r.now).Text + "."
	}
}

func (r reading) targetRow(t target) templates.Target {
	row := templates.Target{
		ID: elementID(t.Key()), URL: circuitURL(t.Key()),
		Provider: t.Provider, Model: t.Model, Region: t.Region,
		State: t.state(), Reason: t.why(), Next: t.nextProbe(r.now), Rejected: grouped(t.circuit.Rejected),
		Score:   score(t.health.Figures),
		Success: optional(t.health.SuccessRate, percent),
		Latency: templates.Latency{
			Mean: optional(t.health.LatencyMeanMs, millis),
			P50:  optional(t.health.LatencyP50Ms, millis),
			P99:  optional(t.health.LatencyP99Ms, millis),
		},
	}
	if t.policy.Override != "" {
		row.Policy = "by " + t.governed()
	}
	if !t.untouched() && t.circuit.Reason != "" {
		row.Since = clock(t.circuit.Since, r.now)
	}
	return row
}

// Scores from wellScore on are good, those under sickScore are bad.
const (
	wellScore = 0.8
	sickScore = 0.5
)

func score(f health.Figures) templates.Score {
	if f.Score == nil {
		return templates.Score{}
	}
	view := templates.Score{
		Text: fraction(*f.Score), Percent: int(*f.Score*100 + 0.5), Samples: count(f.Samples, "sample"),
	}
	switch {
	case *f.Score >= wellScore:
		view.Tone = templates.Good
	case *f.Score >= sickScore:
		view.Tone = templates.Caution
	default:
		view.Tone = templates.Bad
	}
	return view
}
