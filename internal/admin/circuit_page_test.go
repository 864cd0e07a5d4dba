package admin

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

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

// Where a canary finds out, no call does, and the pages say so.
func TestACircuitWithACanarySaysWhoFindsOut(t *testing.T) {
	t.Parallel()
	const key = "alpha/m1/r1"
	target, _ := llm.ParseTarget(key)
	tests := []struct {
		name                 string
		circuit              breaker.Snapshot
		next, told, overview string
		banner               []string
	}{
		{
			name:    "open",
			circuit: breaker.Snapshot{State: breaker.Open, Reason: breaker.ReasonConsecutive, ConsecutiveFailures: 5, RetryAfter: 21 * time.Second},
			banner:  []string{"Open", "5 failures in a row"},
			next:    "Refuses every call for 21 s; from ", overview: "A canary in 21 s",
			told: "Callers get errors: its only target is open; the next probe is in 21 s.",
		},
		{
			name:    "its time is over",
			circuit: breaker.Snapshot{State: breaker.Open, Reason: breaker.ReasonCanaryFailure, Cause: "connection"},
			banner:  []string{"Open", "A canary failed (connection)"},
			next:    "The cooldown is over: refuses every call until a canary has found out", overview: "A canary, once a call was refused",
			told: "Callers get errors: its only target is open; a canary is about to find out whether alpha/m1/r1 is well again.",
		},
		{
			name:    "under way",
			circuit: breaker.Snapshot{State: breaker.HalfOpen, Reason: breaker.ReasonCanary},
			banner:  []string{"Half-open", "Cooldown over, a canary finds out"},
			next:    "Refuses every call until a canary", overview: "A canary is under way",
			told: "Callers get errors: its only target is open; a canary is about to find out whether alpha/m1/r1 is well again.",
		},
		{
			name:    "it did well",
			circuit: breaker.Snapshot{State: breaker.HalfOpen, Reason: breaker.ReasonCanarySuccess},
			banner:  []string{"Half-open", "A canary did well"},
			next:    "Probes are under way", overview: "Under way",
			told: "Callers get errors, but for those whose calls are probes.",
		},
		{
			name:    "it cannot be made",
			circuit: breaker.Snapshot{State: breaker.HalfOpen, Reason: breaker.ReasonCanaryUnable},
			banner:  []string{"Half-open", "Canaries could not be made, so calls probe"},
			next:    "Probes are under way", overview: "Under way",
			told: "Callers get errors, but for those whose calls are probes.",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.circuit.Key, tt.circuit.Enabled = key, true
			w := &world{circuits: []breaker.Snapshot{tt.circuit}, callers: Callers{Configurations: []Configuration{{Name: "chat", Targets: []llm.Target{target}}}}}
			server := serve(t, w.pages(func(d *Deps) { d.Policy = func(string) Policy { return Policy{Name: "circuit_breaker", Canary: true} } }))
			page := document(t, server, circuitURL(key))
			if diff := cmp.Diff(tt.banner, texts(page.Find(".banner p"))); diff != "" {
				t.Errorf("banner (-want +got):\n%s", diff)
			}
			if got := text(page.Find(".panel dl > div dd").First()); !strings.HasPrefix(got, tt.next) {
				t.Errorf("next: %q, want %q", got, tt.next)
			}
			if got := text(page.Find(".callers")); !strings.Contains(got, tt.told) {
				t.Errorf("callers: %q, want %q", got, tt.told)
			}
			if got := text(document(t, server, "/").Find("table.targets tbody tr")); !strings.Contains(got, tt.overview) {
				t.Errorf("overview: %q, want %q", got, tt.overview)
			}
		})
	}
}

func TestTheLastCallOfTheGatewaysOwnIsShown(t *testing.T) {
	t.Parallel()
	const key = "alpha/m1/r1"
	own := func(operation llm.Operation, key, outcome string, class, reason *string) runs.Run {
		target, _ := llm.ParseTarget(key)
		return runs.Run{RunID: uuid.Must(uuid.NewV7()), StartedAt: time.Now(), Operation: string(operation), CorrelationID: operation.CorrelationID(target),
			Outcome: outcome, FailureClass: class, FailureReason: reason, LatencyMs: 5003}
	}
	w := &world{
		circuits: []breaker.Snapshot{{Key: key, Enabled: true}, {Key: "alpha/@health/r1", Enabled: true}, {Key: "beta/m1/r1", Enabled: true}},
		runs: []runs.Run{
			own(llm.OperationCanary, key, "failure", new("connection"), new("total_timeout")),
			own(llm.OperationHealthCheck, "alpha/@health/r1", "success", nil, nil),
			own(llm.OperationCanary, "beta/m1/r1", "success", nil, nil),
		},
	}
	server := serve(t, w.pages(func(d *Deps) {
		d.Policy = func(key string) Policy { return Policy{Canary: strings.HasPrefix(key, "alpha/m")} }
	}))
	for key, want := range map[string]string{
		key:                "The last canary: failure by connection (total_timeout), after 5,003 ms, ",
		"alpha/@health/r1": "The last health check: success after 5,003 ms, ",
		"beta/m1/r1":       "", // by a policy that it has no more
	} {
		said := document(t, server, circuitURL(key)).Find(".own")
		if got := text(said); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
		if link, ok := said.Find("a").Attr("href"); ok != (want != "") || ok && !strings.HasPrefix(link, runsPath) {
			t.Errorf("%s: leads to %q", key, link)
		}
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
