package admin

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/runs"
	"github.com/breakwater-llm/breakwater/web/templates"
)

func TestEveryRunLeadsToItsAttempts(t *testing.T) {
	t.Parallel()
	server := serve(t, incident(time.Now()).pages())
	link, ok := document(t, server, "/").Find("table.runs tbody a").First().Attr("href")
	if !ok {
		t.Fatal("the first run has no link")
	}
	page := document(t, server, link)

	var got [][]string
	for _, row := range page.Find("table.attempts tbody tr").EachIter() {
		cells := texts(row.Children())
		got = append(got, append(cells[:6], cells[7])) // without the time of day
	}
	want := [][]string{
		{"1", "openai/gpt-4.1-mini/global", "refused", "circuit_open", "–", "open", "–"},
		{"2", "anthropic/claude-sonnet-4-5/eu", "success", "", "200", "closed", "1,180 ms"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	if got, want := text(page.Find(".banner p")), "Success with status 200 after 1,240 ms."; got != want {
		t.Errorf("summary %q, want %q", got, want)
	}
}

func TestWhatCannotBeShownIsExplained(t *testing.T) {
	t.Parallel()
	known := incident(time.Now())
	away := incident(time.Now())
	away.broken = errors.New("dial tcp 10.1.2.3:5432: connection refused")
	for name, test := range map[string]struct {
		world  *world
		path   string
		status int
		want   string
	}{
		"no such run": {known, "/runs/" + uuid.Nil.String(), http.StatusNotFound, "There is no such run"},
		"no run id":   {known, "/runs/latest", http.StatusNotFound, "There is no such run"},
		"no database": {away, "/runs/" + away.runs[0].RunID.String(), http.StatusServiceUnavailable, "Runs cannot be read right now"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			response, body := get(t, serve(t, test.world.pages()), test.path)
			if response.StatusCode != test.status {
				t.Errorf("status %d, want %d", response.StatusCode, test.status)
			}
			if !strings.Contains(body, "<h1>"+test.want+"</h1>") || !strings.Contains(body, "</html>") {
				t.Errorf("the page does not say %q as a whole page:\n%s", test.want, body)
			}
			if strings.Contains(body, "10.1.2.3") {
				t.Error("the page tells an address of the inside")
			}
		})
	}
}

func TestARunSaysWhereItsAnswerCameFrom(t *testing.T) {
	t.Parallel()
	for want, run := range map[string]runs.Run{
		"the response cache":                            {CacheHit: true},
		"an earlier call with the same idempotency key": {IdempotentReplay: true, Outcome: "success", Degraded: new("message")},
		"the message of the configuration":              {Outcome: "success", Degraded: new("message")},
		"":                                              {Outcome: "success", Degraded: new("context")},
	} {
		if got := answeredFrom(run); got != want {
			t.Errorf("%+v: answered from %q, want %q", run, got, want)
		}
	}
}

func TestAnAnswerThatNoTargetWasAskedForDoesNotLookLikeACall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		run  runs.Run
		want templates.Mark
	}{
		"a call":              {runs.Run{Outcome: "success"}, templates.Mark{Tone: templates.Good, Text: "success"}},
		"without its context": {runs.Run{Outcome: "success", Degraded: new("context")}, templates.Mark{Tone: templates.Caution, Text: "degraded: context"}},
		"a message":           {runs.Run{Outcome: "success", Degraded: new("message")}, templates.Mark{Tone: templates.Caution, Text: "degraded: message"}},
		"a message replayed":  {runs.Run{Outcome: "success", Degraded: new("message"), IdempotentReplay: true}, templates.Mark{Tone: templates.Caution, Text: "degraded: message, replayed"}},
		"a failure without":   {runs.Run{Outcome: "failure", Degraded: new("context")}, templates.Mark{Tone: templates.Bad, Text: "failure"}},
		"a replay":            {runs.Run{Outcome: "success", IdempotentReplay: true}, templates.Mark{Tone: templates.Quiet, Text: "replayed"}},
		"a replay of a hit":   {runs.Run{Outcome: "success", IdempotentReplay: true, CacheHit: true}, templates.Mark{Tone: templates.Quiet, Text: "replayed"}},
		"a replayed failure":  {runs.Run{Outcome: "failure", IdempotentReplay: true}, templates.Mark{Tone: templates.Bad, Text: "failure, replayed"}},
		"a hit":               {runs.Run{Outcome: "success", CacheHit: true}, templates.Mark{Tone: templates.Quiet, Text: "from the cache"}},
		"a stale hit":         {runs.Run{Outcome: "success", CacheHit: true, Degraded: new("stale")}, templates.Mark{Tone: templates.Caution, Text: "degraded: stale, from the cache"}},
		"a hit that was left": {runs.Run{Outcome: "cancelled", CacheHit: true}, templates.Mark{Tone: templates.Quiet, Text: "cancelled, from the cache"}},
	} {
		if got := ending(tc.run); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

// An answer that had to do without something is no plain success, in the list and
// on its own page, and both say what it had to do without.
func TestADegradedAnswerIsSeen(t *testing.T) {
	t.Parallel()
	const noContext = "the model was not told the context that the configuration asks for"
	const stale = "no target answered, and the caller got a kept answer that is past its time"
	const message = "no target answered, and the caller got the message of the configuration"
	for name, test := range map[string]struct {
		change                           func(*runs.Run)
		outcome, why, attempts, headline string
	}{
		"without its context": {
			func(r *runs.Run) { r.Degraded, r.Attempts, r.Fallbacks = new("context"), 1, 1 },
			"degraded: context", noContext, "1 asked, 1 moved past", "Degraded: context, with status 200 after 5 ms: " + noContext + ".",
		},
		"stale": {
			func(r *runs.Run) { r.Degraded, r.CacheHit, r.Attempts, r.Fallbacks = new("stale"), true, 1, 1 },
			"degraded: stale, from the cache", stale, "1 asked, all 2 moved past", "Degraded: stale, from the cache, with status 200 after 5 ms: " + stale + ".",
		},
		"a message": {
			func(r *runs.Run) { r.Degraded, r.ServedProvider, r.Attempts, r.Fallbacks = new("message"), nil, 0, 1 },
			"degraded: message", message, "0 asked, all 2 moved past", "Degraded: message, with status 200 after 5 ms: " + message + ".",
		},
		"a message of one target": {
			func(r *runs.Run) { r.Degraded, r.ServedProvider, r.Attempts, r.Fallbacks = new("message"), nil, 0, 0 },
			"degraded: message", message, "0 asked, none answered", "Degraded: message, with status 200 after 5 ms: " + message + ".",
		},
		"a message replayed": {
			func(r *runs.Run) {
				r.Degraded, r.ServedProvider, r.IdempotentReplay, r.Attempts, r.Fallbacks = new("message"), nil, true, 0, 0
			},
			"degraded: message, replayed", message, "0 asked", "Degraded: message, replayed, with status 200 after 5 ms: " + message + ".",
		},
	} {
		w := &world{attempts: map[uuid.UUID][]runs.Attempt{}}
		id := w.addRun(time.Now(), "success", "", "", 5, attempt("a/m/r", "refused", "circuit_open", "circuit_open", 0, "open", 0))
		test.change(&w.runs[0])
		server := serve(t, w.pages())
		row := document(t, server, "/").Find("table.runs tbody tr").First()
		cells := texts(row.Children())
		if diff := cmp.Diff([]string{test.outcome, test.why, test.attempts}, []string{cells[4], cells[5], cells[7]}); diff != "" {
			t.Errorf("%s: the list (-want +got):\n%s", name, diff)
		}
		if row.Find(".mark.good").Length() > 0 {
			t.Errorf("%s: the list shows a plain success", name)
		}
		banner := document(t, server, runsPath+id.String()).Find(".banner")
		if got := text(banner.Find("p")); got != test.headline || banner.HasClass("good") {
			t.Errorf("%s: the page says %q, want %q; class %q", name, got, test.headline, banner.AttrOr("class", ""))
		}
	}
}

// A key has a name, or is only known by its id: because it is no key's any more,
// or because the database does not tell.
func TestARunSaysWhoseKeyItWas(t *testing.T) {
	t.Parallel()
	const known, unknown = "0192f0c1-7e7e-7000-8000-00000000000a", "0192f0c1-7e7e-7000-8000-00000000000b"
	w := incident(time.Now())
	w.keys = map[string]string{known: "shop"}
	w.runs[0].APIKeyID, w.runs[1].APIKeyID = new(known), new(unknown)
	w.runs[0].IdempotentReplay, w.runs[1].CacheHit = true, true
	server := serve(t, w.pages())

	rows := func() (whose, outcomes []string) {
		for _, row := range document(t, server, "/").Find("table.runs tbody tr").EachIter() {
			cells := texts(row.Children())
			whose, outcomes = append(whose, cells[2]), append(outcomes, cells[4])
		}
		return whose[:3], outcomes[:3]
	}
	whose, outcomes := rows()
	if diff := cmp.Diff([]string{"shop", unknown, "–"}, whose); diff != "" {
		t.Errorf("keys of the list (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"replayed", "failure, from the cache", "cancelled"}, outcomes); diff != "" {
		t.Errorf("outcomes of the list (-want +got):\n%s", diff)
	}

	facts := func(i int) (names []string) {
		for _, fact := range document(t, server, runsPath+w.runs[i].RunID.String()).Find("section.panel dt").EachIter() {
			if name := text(fact); strings.HasPrefix(name, "API key") {
				names = append(names, name+": "+text(fact.Next()))
			}
		}
		return names
	}
	for i, want := range [][]string{{"API key: shop", "API key id: " + known}, {"API key id: " + unknown}, nil} {
		if diff := cmp.Diff(want, facts(i)); diff != "" {
			t.Errorf("facts of run %d (-want +got):\n%s", i, diff)
		}
	}

	w.change(func(w *world) { w.keysBroken = errors.New("connection refused") })
	if whose, _ := rows(); !cmp.Equal(whose, []string{known, unknown, "–"}) {
		t.Errorf("keys of the list while their names cannot be read: %q", whose)
	}
}
