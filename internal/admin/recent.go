package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwater-llm/breakwater/internal/runs"
	"github.com/breakwater-llm/breakwater/web/templates"
)

const (
	// recentLimit is how many runs the overview lists.
	recentLimit = 20
	// readTimeout bounds what a page waits for the database: what is known
	// without it should not wait for long.
	readTimeout = 2 * time.Second
)

// recent lists the latest runs, or says why it cannot.
func (p *Pages) recent(ctx context.Context, now time.Time) templates.Runs {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	page, err := p.Runs.List(ctx, runs.Filter{Limit: recentLimit})
	if err != nil {
		p.Log.Debug("recent runs cannot be listed", "error", err)
		return templates.Runs{Trouble: "Runs cannot be read right now: the database does not answer. Calls are served all the same."}
	}
	var table templates.Runs
	for _, run := range page.Runs {
		table.Rows = append(table.Rows, runRow(run, now))
	}
	return table
}

func runRow(run runs.Run, now time.Time) templates.Run {
	id := run.RunID.String()
	return templates.Run{
		ID: id[len(id)-12:], URL: runsPath + id,
		At: clock(run.StartedAt, now), Asked: run.RequestedModel,
		Outcome: outcome(run.Outcome), Why: failure(run.FailureClass, run.FailureReason),
		Served: served(run), Attempts: attemptsInWords(run),
		Latency: millis(run.LatencyMs), Cost: cost(run.CostUSD, run.Unpriced),
	}
}

// outcome is the end of a run or of an attempt as a mark.
func outcome(name string) templates.Mark {
	switch name {
	case "success":
		return templates.Mark{Tone: templates.Good, Text: name}
	case "failure":
		return templates.Mark{Tone: templates.Bad, Text: name}
	case "denied", "refused":
		return templates.Mark{Tone: templates.Caution, Text: name}
	default:
		return templates.Mark{Tone: templates.Quiet, Text: name}
	}
}

// failure is a class with its reason, where that says more.
func failure(class, reason *string) string {
	switch {
	case class == nil:
		return word(reason)
	case reason == nil || *reason == *class:
		return *class
	default:
		return *class + caused(*reason)
	}
}

// served is the key of the target that answered; empty when none did.
func served(run runs.Run) string {
	if run.ServedProvider == nil {
		return ""
	}
	return *run.ServedProvider + "/" + word(run.ServedModel) + "/" + word(run.ServedRegion)
}

// attemptsInWords counts the targets that were asked and those moved past.
func attemptsInWords(run runs.Run) string {
	asked := fmt.Sprintf("%d asked", run.Attempts)
	if run.Fallbacks == 0 {
		return asked
	}
	return fmt.Sprintf("%s, %d moved past", asked, run.Fallbacks)
}
