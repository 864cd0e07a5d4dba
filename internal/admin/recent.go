package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
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
	names := p.keyNames(ctx, page.Runs)
	var table templates.Runs
	for _, run := range page.Runs {
		table.Rows = append(table.Rows, runRow(run, names, now))
	}
	return table
}

// keyNames are the names of the keys that runs were made with. Without the
// database there are none, and ids stand in for them.
func (p *Pages) keyNames(ctx context.Context, of []runs.Run) map[string]string {
	var ids []string
	for _, run := range of {
		if id := word(run.APIKeyID); id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	names, err := p.Runs.KeyNames(ctx, ids)
	if err != nil {
		p.Log.Debug("the names of api keys cannot be read", "error", err)
	}
	return names
}

func runRow(run runs.Run, names map[string]string, now time.Time) templates.Run {
	key := word(run.APIKeyID)
	id := run.RunID.String()
	return templates.Run{
		ID: id[len(id)-12:], URL: runsPath + id,
		At: clock(run.StartedAt, now), Key: cmp.Or(names[key], key), Asked: run.RequestedModel,
		Outcome: ending(run), Why: whatWentWrong(run),
		Served: served(run), Attempts: attemptsInWords(run),
		Latency: millis(run.LatencyMs), Cost: cost(run.CostUSD, run.Unpriced),
	}
}

// ending is the outcome of a run as a mark. An answer that had to do without
// something says so, and one that no target was asked for says so in place of a
// success, so that neither looks like any call.
func ending(run runs.Run) templates.Mark {
	mark, from := outcome(run.Outcome), ""
	switch {
	case run.IdempotentReplay:
		from = "replayed"
	case run.CacheHit:
		from = "from the cache"
	}
	switch {
	case degraded(run):
		mark = templates.Mark{Tone: templates.Caution, Text: "degraded: " + *run.Degraded}
	case mark.Tone == templates.Good && from != "":
		return templates.Mark{Tone: templates.Quiet, Text: from}
	}
	if from != "" {
		mark.Text += ", " + from
	}
	return mark
}

// degraded reports whether the client got an answer that had to do without
// something.
func degraded(run runs.Run) bool { return run.Degraded != nil && run.Outcome == string(llm.RunSuccess) }

// unanswered reports whether the client got an answer although no target had
// given one to this call.
func unanswered(run runs.Run) bool {
	return degraded(run) && !run.IdempotentReplay && *run.Degraded != string(llm.DegradedContext)
}

// degradation says what a degraded answer had to do without.
func degradation(run runs.Run) string {
	switch llm.Degradation(*run.Degraded) {
	case llm.DegradedContext:
		return "the model was not told the context that the configuration asks for"
	case llm.DegradedStale:
		return "no target answered, and the caller got a kept answer that is past its time"
	case llm.DegradedMessage:
		return "no target answered, and the caller got the message of the configuration"
	default:
		return *run.Degraded
	}
}

// whatWentWrong is why a run failed, or what its answer had to do without.
func whatWentWrong(run runs.Run) string {
	if degraded(run) {
		return degradation(run)
	}
	return failure(run.FailureClass, run.FailureReason)
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

// attemptsInWords counts the targets that were asked and those moved past. Where
// none answered the last one was moved past, too.
func attemptsInWords(run runs.Run) string {
	asked := fmt.Sprintf("%d asked", run.Attempts)
	switch {
	case unanswered(run) && run.Fallbacks > 0:
		return fmt.Sprintf("%s, all %d moved past", asked, run.Fallbacks+1)
	case unanswered(run):
		return asked + ", none answered"
	case run.Fallbacks > 0:
		return fmt.Sprintf("%s, %d moved past", asked, run.Fallbacks)
	default:
		return asked
	}
}
