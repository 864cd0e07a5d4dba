package admin

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/runs"
	"github.com/breakwater-llm/breakwater/web/templates"
)

func TestACircuitSaysWhatItDoesAndWhomItHurts(t *testing.T) {
	t.Parallel()
	server := serve(t, incident(time.Now()).pages())
	link, _ := document(t, server, "/").Find("table.targets tbody tr").Last().Find("th a").Attr("href")
	page := document(t, server, link)
	if got := text(page.Find("h1")); got != openKey {
		t.Errorf("the page is about %q", got)
	}
	if got := texts(page.Find(".banner p")); !cmp.Equal(got, []string{"Open", "5 failures in a row (server_error)"}) {
		t.Errorf("the banner says %q", got)
	}
	got := map[string]string{}
	for _, fact := range page.Find(".panel dl > div").EachIter() {
		got[text(fact.Find("dt"))] = text(fact.Find("dd"))
	}
	if got["Counted"] != "12 calls, 9 failed, 5 in a row" || got["Rejected"] != "1,304 calls so far" || !strings.HasPrefix(got["Next"], "Refuses every call for 21 s;") {
		t.Errorf("facts: %v", got)
	}
	if got := texts(page.Find(".callers .subject")); !cmp.Equal(got, []string{"images", "chat"}) {
		t.Errorf("configurations: %v, want those that lead to the target", got)
	}
}

func TestACircuitThatNobodyCalledIsShown(t *testing.T) {
	t.Parallel()
	w := &world{report: report(time.Minute, figures("alpha", "vendor/m1", "r1", 0, 0, 0, 0, 0, 0))}
	page := document(t, serve(t, w.pages()), "/circuits/alpha%2Fvendor%2Fm1%2Fr1")
	if got := texts(page.Find(".banner p")); !cmp.Equal(got, []string{"Closed", "No call yet"}) {
		t.Errorf("the banner says %q", got)
	}
}

func TestTheHistoryOfACircuit(t *testing.T) {
	t.Parallel()
	w := incident(time.Now())
	target, _ := llm.ParseTarget(openKey)
	add := func(from, to breaker.State, reason, actor, counts string) {
		w.events = append(w.events, runs.Event{
			At: time.Now(), Provider: target.Provider, Model: target.Model, Region: target.Region,
			FromState: from.String(), ToState: to.String(), Reason: reason, Actor: actor, Counts: []byte(counts),
		})
	}
	add(breaker.Closed, breaker.Open, breaker.ReasonFailureRate, breaker.ActorBreaker, `{"calls":12,"failures":9}`)
	add(breaker.Shadow, breaker.Closed, breaker.ReasonOverrideOver, breaker.ActorBreaker, `{}`)
	add(breaker.Shadow, breaker.Shadow, breaker.ReasonConsecutive, breaker.ActorBreaker, `{"consecutive_failures":5}`)
	add(breaker.ForcedOpen, breaker.Shadow, breaker.ReasonOperator, "anna", `nonsense`)
	w.events[len(w.events)-1].Note = new("<b>new</b> driver")
	page := document(t, serve(t, w.pages()), circuitURL(openKey))
	var got [][]string
	for _, row := range page.Find("table.history tbody tr").EachIter() {
		got = append(got, texts(row.Find("td")))
	}
	want := [][]string{
		{"Closed", "Open", "9 of the last 12 calls failed", "the breaker"},
		{"Shadow", "Closed", "The time of what an operator had set is over", "the breaker"},
		{"Shadow", "Shadow", "Would have opened: 5 failures in a row", "the breaker"},
		{"Forced open", "Shadow", "An operator said so: <b>new</b> driver", "anna"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func TestACircuitIsShownWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	h := &helm{world: incident(time.Now())}
	h.world.broken = errors.New("connection refused")
	page := document(t, serve(t, h.world.pages(h.obeyed)), circuitURL(openKey))
	if got := text(page.Find(".trouble")); !strings.HasPrefix(got, "The history cannot be read right now") {
		t.Errorf("the page says %q", got)
	}
	if page.Find(".banner .headline").Length() != 1 || page.Find(".actions .button").Length() == 0 {
		t.Error("what is known without the database is missing")
	}
}

func TestACircuitEventReachesTheCircuitsPage(t *testing.T) {
	t.Parallel()
	h := &helm{world: incident(time.Now())}
	pages := h.world.pages(h.obeyed)
	p := openAt(t, serve(t, pages), livePath+"?circuit="+openKey)
	var got []string
	for range 5 {
		m, ok := p.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		got = append(got, m.name)
	}
	want := []string{templates.PartCircuit, templates.PartCallers, templates.PartActions, templates.PartClock, templates.PartHistory}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}

	h.world.change(func(w *world) { w.circuits[4].State = breaker.ForcedOpen })
	pages.CircuitEvent(breaker.Event{})
	if got := p.await(templates.PartCircuit); !strings.Contains(got, "<title>Forced open: "+openKey) {
		t.Errorf("the circuit after the event: %s", got)
	}
	if got := p.await(templates.PartActions); !strings.Contains(got, "Change reason or time") {
		t.Errorf("the actions after the event: %s", got)
	}
}

// A target that a reload has removed ends its page's stream; asked again, the
// page says so.
func TestTheStreamOfACircuitThatIsGoneEnds(t *testing.T) {
	t.Parallel()
	w := &world{circuits: []breaker.Snapshot{{Key: "gone/m/r", Enabled: true}}}
	pages := w.pages()
	p := openAt(t, serve(t, pages), livePath+"?circuit=gone/m/r")
	p.await(templates.PartHistory)
	w.change(func(w *world) { w.circuits = nil })
	pages.CircuitEvent(breaker.Event{})
	for {
		if _, ok := p.next(); !ok {
			break
		}
	}
	if err := p.lines.Err(); err != nil {
		t.Errorf("the page was cut off instead of ended: %v", err)
	}
}
