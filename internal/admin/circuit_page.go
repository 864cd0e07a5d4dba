package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/runs"
	"github.com/breakwater-llm/breakwater/web/templates"
)

// historyLimit is how many transitions the page of a circuit lists.
const historyLimit = 20

// circuitURL is where the page of a circuit is; its key is one segment.
func circuitURL(key string) string { return circuitsPath + url.PathEscape(key) }

// elementID names what belongs to a circuit within a page. A key may hold what
// scripts that look an element up by its name trip over.
func elementID(key string) string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(key)) // never fails
	return strconv.FormatUint(sum.Sum64(), 16)
}

// circuit serves GET /circuits/{key}: one circuit, and what can be done to it.
func (p *Pages) circuit(c echo.Context) error {
	seen := p.look(time.Now())
	t, err := seen.asked(c)
	if err != nil {
		return err
	}
	here := circuitURL(t.Key())
	frame := p.frame(circuitTitle(t), templates.SectionOverview)
	frame.Stream = livePath + "?" + url.Values{"circuit": {t.Key()}}.Encode()
	return send(c, http.StatusOK, templates.CircuitDetail(templates.CircuitPage{
		Frame: frame, AsOf: clock(seen.now, seen.now), Key: t.Key(), URL: here,
		Unsaved: c.QueryParam("saved") == "false",
		Circuit: seen.circuit(t), Callers: seen.fareOf(t), Actions: p.actions(t),
		History: p.history(c.Request().Context(), t, seen.now),
	}))
}

// circuitParts are the parts of a circuit's page that are known at once.
func (p *Pages) circuitParts(seen reading, key string) ([]part, error) {
	t, err := seen.named(key)
	if err != nil {
		return nil, err
	}
	return []part{
		{templates.PartCircuit, templates.CircuitPart(seen.circuit(t))},
		{templates.PartCallers, templates.CallerList(seen.fareOf(t))},
		{templates.PartActions, templates.ActionList(p.actions(t))},
	}, nil
}

func (p *Pages) historyPart(ctx context.Context, seen reading, t target) part {
	return part{templates.PartHistory, templates.HistoryTable(p.history(ctx, t, seen.now))}
}

// asked finds the target whose key is in the path of a request.
func (r reading) asked(c echo.Context) (target, error) {
	key := c.Param("key")
	if c.Request().URL.RawPath != "" { // then the router splits what is still escaped
		plain, err := url.PathUnescape(key)
		if err != nil {
			return target{}, noSuchCircuit()
		}
		key = plain
	}
	return r.named(key)
}

// named finds the target that has a key.
func (r reading) named(key string) (target, error) {
	at := slices.IndexFunc(r.all, func(t target) bool { return t.Key() == key })
	if at < 0 {
		return target{}, noSuchCircuit()
	}
	return r.all[at], nil
}

func noSuchCircuit() error {
	return &fault{
		status: http.StatusNotFound, heading: "There is no such circuit",
		text: "The running configuration declares no such target. The overview lists those that it does.",
	}
}

func circuitTitle(t target) string { return t.state().Text + ": " + t.Key() }

// circuit is the state of one circuit in words.
func (r reading) circuit(t target) templates.Circuit {
	return templates.Circuit{
		Title: circuitTitle(t), Mark: t.state(), Why: cmp.Or(t.why(), "Nothing is wrong"), Facts: r.circuitFacts(t),
	}
}

func (r reading) circuitFacts(t target) []templates.Fact {
	facts := []templates.Fact{{Name: "Next", Value: t.next(r.now)}}
	if t.held() {
		facts = append(facts, heldFacts(t.circuit, r.now)...)
	}
	if !t.untouched() && !t.circuit.Since.IsZero() {
		facts = append(facts, templates.Fact{Name: "Since", Moment: since(t.circuit.Since, r.now)})
	}
	return append(facts,
		templates.Fact{Name: "Counted", Value: counted(t.circuit)},
		templates.Fact{Name: "Rejected", Value: count(t.circuit.Rejected, "call") + " so far"},
		templates.Fact{Name: "Policy", Value: t.governed()},
	)
}

// heldFacts are who set the state, why, and until when.
func heldFacts(c breaker.Snapshot, now time.Time) []templates.Fact {
	facts := []templates.Fact{
		{Name: "Set by", Value: cmp.Or(c.Actor, "an operator")},
		{Name: "Reason", Value: cmp.Or(c.Note, "none was given")},
	}
	if c.Until.IsZero() {
		return facts
	}
	return append(facts, templates.Fact{Name: "Until", Moment: clock(c.Until, now)})
}

// counted is what the window shows.
func counted(c breaker.Snapshot) string {
	text := count(c.Calls, "call") + ", " + grouped(c.Failures) + " failed"
	if c.FailureRate != nil {
		text += " (" + percent(*c.FailureRate) + ")"
	}
	if c.Slow > 0 {
		text += ", " + grouped(c.Slow) + " slow"
	}
	if c.ConsecutiveFailures > 0 {
		text += ", " + grouped(c.ConsecutiveFailures) + " in a row"
	}
	return text
}

// history lists the latest transitions of a circuit, or says why it cannot.
func (p *Pages) history(ctx context.Context, t target, now time.Time) templates.History {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	page, err := p.History.ListEvents(ctx, runs.EventFilter{Target: t.Target, Limit: historyLimit})
	if err != nil {
		p.Log.Debug("the history of a circuit cannot be listed", "circuit", t.Key(), "error", err)
		return templates.History{Trouble: "The history cannot be read right now: the database does not answer. What stands above is as it is now."}
	}
	history := templates.History{Own: p.latestOwn(ctx, t, now)}
	for _, event := range page.Events {
		history.Rows = append(history.Rows, change(event, now))
	}
	return history
}

// latestOwn is the latest call that the gateway has made to the target on its own
// account; the zero value where there is none, or none can be read.
func (p *Pages) latestOwn(ctx context.Context, t target, now time.Time) templates.OwnCall {
	operation, called := llm.OperationCanary, "canary"
	switch {
	case t.IsHealth():
		operation, called = llm.OperationHealthCheck, "health check"
	case !t.policy.Canary:
		return templates.OwnCall{}
	}
	run, err := p.Runs.LatestOwn(ctx, string(operation), operation.CorrelationID(t.Target))
	if err != nil {
		if !errors.Is(err, runs.ErrNotFound) {
			p.Log.Debug("the latest call of the gateway's own cannot be read", "circuit", t.Key(), "error", err)
		}
		return templates.OwnCall{}
	}
	return templates.OwnCall{
		Called: called, At: clock(run.StartedAt, now), Outcome: outcome(run.Outcome), URL: runsPath + run.RunID.String(),
		Why: failure(run.FailureClass, run.FailureReason), Latency: millis(run.LatencyMs),
	}
}

func change(e runs.Event, now time.Time) templates.Change {
	row := templates.Change{At: clock(e.At, now), From: markOf(e.FromState), To: markOf(e.ToState), Why: eventInWords(e), By: e.Actor}
	if e.Actor == breaker.ActorBreaker {
		row.By = "the breaker"
	}
	return row
}

// eventInWords says why a circuit moved. In shadow it did not: it would have.
func eventInWords(e runs.Event) string {
	var counts breaker.Counts
	_ = json.Unmarshal(e.Counts, &counts) // what cannot be read counts as nothing
	why := reasonInWords(breaker.Snapshot{
		Reason: e.Reason, Calls: counts.Calls, Failures: counts.Failures, Slow: counts.Slow, ConsecutiveFailures: counts.ConsecutiveFailures,
	})
	if e.FromState == e.ToState && e.ToState == breaker.Shadow.String() {
		return "Would have opened: " + why
	}
	if e.Note != nil {
		return why + ": " + *e.Note
	}
	return why
}

// markOf is the mark of a state that was recorded.
func markOf(state string) templates.Mark {
	for s := breaker.Closed; s <= breaker.Shadow; s++ {
		if s.String() == state {
			return target{circuit: breaker.Snapshot{Key: state, Enabled: true, State: s}}.state()
		}
	}
	return templates.Mark{Tone: templates.Quiet, Text: state}
}
