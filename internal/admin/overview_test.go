package admin

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/health"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/runs"
	"github.com/breakwater-llm/breakwater/internal/telemetry"
	"github.com/breakwater-llm/breakwater/web/templates"
)

var update = flag.Bool("update", false, "write the golden files anew")

// text is what a person reads of a selection, white space folded.
func text(s *goquery.Selection) string { return strings.Join(strings.Fields(s.Text()), " ") }

// texts are those of each element of a selection.
func texts(s *goquery.Selection) []string {
	return s.Map(func(_ int, one *goquery.Selection) string { return text(one) })
}

func TestOverviewSaysWhatIsOpenWhySinceWhenAndWhatHappensNext(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 21, 45, 0, 0, time.UTC)
	seen := incident(now).pages().look(now)

	if got, want := seen.summary(), (templates.Summary{
		Title: "1 configuration failing, 1 circuit open, 1 circuit half-open, 1 alarm", Tone: templates.Bad,
		Headline: "1 configuration failing, 1 circuit open, 1 circuit half-open, 1 alarm", Detail: "3 of 5 circuits closed.",
	}); got != want {
		t.Errorf("summary:\n got %+v\nwant %+v", got, want)
	}
	got := seen.attention().Sick[0]
	want := templates.Notice{
		Mark: templates.Mark{Tone: templates.Bad, Text: "Open"}, Subject: "openai/gpt-4.1-mini/global",
		ID: elementID("openai/gpt-4.1-mini/global"), URL: "/circuits/openai%2Fgpt-4.1-mini%2Fglobal",
		Facts: []templates.Fact{
			{Name: "Why", Value: "5 failures in a row (server_error)"},
			{Name: "Since", Moment: templates.Moment{At: now.Add(-124 * time.Second), Text: "21:42:56 UTC, 2 min ago"}},
			{Name: "Next", Value: "Refuses every call for 21 s; the first one from 21:45:21 UTC on is a probe."},
			{Name: "Rejected", Value: "1,304 calls so far"},
			{Name: "Policy", Value: "circuit_breaker"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("first notice (-want +got):\n%s", diff)
	}
}

// What governs a circuit is named where it is not what governs most.
func TestThePolicyOfACircuitIsNamed(t *testing.T) {
	t.Parallel()
	governed := func(d *Deps) {
		d.Policy = func(circuit string) Policy {
			if circuit == "openai/gpt-4.1-mini/global" {
				return Policy{Name: "llm", Override: "openai/*/*"}
			}
			return Policy{Name: "circuit_breaker"}
		}
	}
	page := document(t, serve(t, incident(time.Now()).pages(governed)), "/")
	if notice := text(page.Find(".notices .notice").First()); !strings.Contains(notice, "llm for openai/*/*") {
		t.Errorf("the notice of the open circuit says %q", notice)
	}
	named := texts(page.Find("table.targets tbody tr").FilterFunction(func(_ int, row *goquery.Selection) bool {
		return strings.Contains(text(row), "by llm for openai/*/*")
	}).Find("th .model"))
	if diff := cmp.Diff([]string{"gpt-4.1-mini"}, named); diff != "" {
		t.Errorf("rows that name a policy (-want +got):\n%s", diff)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	closed := breaker.Snapshot{Key: "a/m/r", Enabled: true}
	off := breaker.Snapshot{Key: "b/m/r"}
	probing := breaker.Snapshot{Key: "c/m/r", Enabled: true, State: breaker.HalfOpen}
	due := breaker.Snapshot{Key: "d/m/r", Enabled: true, State: breaker.Open, Eligible: true}
	for name, test := range map[string]struct {
		world            *world
		tone             templates.Tone
		headline, detail string
	}{
		"nothing yet": {&world{}, templates.Quiet, "No target is configured", "Calls can be served once a configuration names a target."},
		"all well":    {&world{circuits: []breaker.Snapshot{closed}}, templates.Good, "No circuit is open", "1 of 1 circuit closed; nothing needs attention."},
		"off":         {&world{circuits: []breaker.Snapshot{closed, off}}, templates.Good, "No circuit is open", "1 of 2 circuits closed, 1 switched off; nothing needs attention."},
		"due":         {&world{circuits: []breaker.Snapshot{closed, due}}, templates.Caution, "1 circuit due for a probe", "1 of 2 circuits closed."},
		"probing":     {&world{circuits: []breaker.Snapshot{closed, probing}}, templates.Caution, "1 circuit half-open", "1 of 2 circuits closed."},
		"no database": {&world{circuits: []breaker.Snapshot{closed}, database: Database{Away: true, Waiting: 3, Room: 65536}}, templates.Bad, "database away", "1 of 1 circuit closed."},
		"no cache":    {&world{circuits: []breaker.Snapshot{closed}, cacheAway: true}, templates.Caution, "cache away", "1 of 1 circuit closed."},
		"neither":     {&world{database: Database{Away: true}, cacheAway: true}, templates.Bad, "database away, cache away", "0 of 0 circuits closed."},
		"held": {
			&world{circuits: []breaker.Snapshot{closed, {Key: "e/m/r", Enabled: true, State: breaker.Shadow}, {Key: "f/m/r", State: breaker.Disabled}}},
			templates.Caution, "2 circuits set by an operator", "1 of 3 circuits closed.",
		},
		"failing": {
			&world{
				circuits: []breaker.Snapshot{{Key: "e/m/r", Enabled: true, State: breaker.ForcedOpen}},
				callers:  Callers{Configurations: []Configuration{{Name: "chat", Targets: []llm.Target{{Provider: "e", Model: "m", Region: "r"}}}}},
			},
			templates.Bad, "1 configuration failing, 1 circuit set by an operator", "0 of 1 circuit closed.",
		},
		"alarm only": {&world{alarms: []telemetry.Alarm{{Provider: "a"}}}, templates.Bad, "1 alarm", "0 of 0 circuits closed."},
	} {
		got := test.world.pages().look(noon).summary()
		if got.Tone != test.tone || got.Headline != test.headline || got.Detail != test.detail {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestOverviewIsWholeWithoutScripts(t *testing.T) {
	t.Parallel()
	server := serve(t, incident(time.Now()).pages())
	page := document(t, server, "/")

	wantHeads := []string{"Target", "Circuit", "Why", "Next probe", "Rejected", "Score", "Success", "Mean", "p50", "p99"}
	if diff := cmp.Diff(wantHeads, texts(page.Find("table.targets thead th[scope=col]"))); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	row := page.Find("table.targets tbody tr").Last().Children()
	got := texts(row)
	got[1], _, _ = strings.Cut(got[1], "since")
	want := []string{
		"gpt-4.1-mini openai · global", "Open", "5 failures in a row (server_error)", "In 21 s", "1,304",
		"0.33 214 samples", "25.7 %", "1,104 ms", "980 ms", "9,870 ms",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("row of the open target (-want +got):\n%s", diff)
	}
	caption := text(page.Find("table.targets caption"))
	if want := "Reordering is off: targets are tried as configured. Scores are over the last 15 min; latencies are those of successes."; caption != want {
		t.Errorf("caption:\n got %s\nwant %s", caption, want)
	}
	if got, want := page.Find("table.runs tbody tr").Length(), 8; got != want {
		t.Errorf("%d runs are listed, want %d", got, want)
	}
	if got, want := texts(page.Find(".notice .subject")), []string{"openai/gpt-4.1-mini/global", "mistral", "azure/gpt-4.1-mini/swedencentral"}; !cmp.Equal(got, want) {
		t.Errorf("attention: got %v, want %v", got, want)
	}
}

func TestReorderingIsShown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		report health.Report
		want   string
	}{
		"off":     {health.Report{ReorderPrimary: true}, "Reordering is off: targets are tried as configured."},
		"on":      {health.Report{ReorderFallback: true}, "Reordering is on: the first target keeps its place, the others are tried by their score."},
		"primary": {health.Report{ReorderFallback: true, ReorderPrimary: true}, "Reordering is on: targets are tried by their score."},
	} {
		if got := orderInWords(test.report); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func TestNoDataIsNotZero(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 21, 45, 0, 0, time.UTC)
	w := &world{report: report(15*time.Minute, figures("alpha", "m1", "r1", 0, 0, 0, 0, 0, 0))}
	var drawn bytes.Buffer
	if err := templates.TargetTable(w.pages().look(now).targets()).Render(t.Context(), &drawn); err != nil {
		t.Fatal(err)
	}
	golden(t, "no_data.html", drawn.Bytes())
}

// golden compares with a file under testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestACircuitOutsideTheReportIsShown(t *testing.T) {
	t.Parallel()
	w := &world{circuits: []breaker.Snapshot{{Key: "gone/m/r", Enabled: true, State: breaker.Open, Reason: breaker.ReasonConsecutive}}}
	page := document(t, serve(t, w.pages()), "/")
	if got := text(page.Find("table.targets tbody th")); got != "m gone · r" {
		t.Errorf("got target %q, want the one that a reload removed", got)
	}
}

func TestHealthThatIsStaleSaysSo(t *testing.T) {
	t.Parallel()
	w := incident(time.Now())
	w.report.Stale = true
	w.broken = errors.New("connection refused")
	page := document(t, serve(t, w.pages()), "/")
	want := []string{
		"Health cannot be read right now: the database does not answer.",
		"Runs cannot be read right now: the database does not answer. Calls are served all the same.",
	}
	if diff := cmp.Diff(want, texts(page.Find(".trouble"))); diff != "" {
		t.Errorf("troubles (-want +got):\n%s", diff)
	}
	if got := page.Find(".notice").Length(); got != 3 {
		t.Errorf("%d notices without the database, want all 3", got)
	}
}

func TestACacheThatIsAwayIsShown(t *testing.T) {
	t.Parallel()
	w := incident(time.Now())
	page := document(t, serve(t, w.pages()), "/")
	if got := texts(page.Find(".notice .subject")); slices.Contains(got, "cache") {
		t.Errorf("attention with the cache there: %v", got)
	}
	w.change(func(w *world) { w.cacheAway = true })
	page = document(t, serve(t, w.pages()), "/")
	if got := texts(page.Find(".notice .subject")); !slices.Contains(got, "cache") {
		t.Errorf("attention with the cache away: %v", got)
	}
	if got := text(page.Find("title")); !strings.Contains(got, "cache away") {
		t.Errorf("the title is %q", got)
	}
}

func TestASlowDatabaseHoldsUpAPageForAWhileOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		got := (&world{}).pages(func(d *Deps) { d.Runs = stuck{} }).recent(t.Context(), begun)
		if waited := time.Since(begun); waited != readTimeout {
			t.Errorf("the page waited %v, want %v", waited, readTimeout)
		}
		if got.Trouble == "" {
			t.Error("the page does not say that runs could not be read")
		}
	})
}

// stuck is a database that does not answer.
type stuck struct{ Runs }

func (stuck) List(ctx context.Context, _ runs.Filter) (runs.Page, error) {
	<-ctx.Done()
	return runs.Page{}, ctx.Err()
}

// ADM-05: what clients and upstreams wrote is shown, never run.
func TestUntrustedTextIsShownAsText(t *testing.T) {
	t.Parallel()
	w, id := hostile(time.Now())
	server := serve(t, w.pages((&helm{}).obeyed))
	circuit := circuitURL("p/" + evil + "/r")
	for path, least := range map[string]int{"/": 8, "/runs/" + id.String(): 5, circuit: 8, circuit + "/shadow": 2} {
		page := document(t, server, path)
		if page.Find("svg[onload], img[onerror], script:not([src])").Length() > 0 {
			t.Errorf("%s: untrusted text became an element", path)
		}
		if got := strings.Count(page.Find("main").Text(), evil); got < least {
			t.Errorf("%s: untrusted text is shown %d times, want at least %d", path, got, least)
		}
	}
}

// evil is what a client or an upstream may write into any text it controls.
const evil = `<svg onload=window.__x=1>"'&<script>window.__x=1</script><img src=x onerror=window.__x=1>`

// hostile is a world in which evil stands wherever text comes from outside.
func hostile(now time.Time) (*world, uuid.UUID) {
	w := &world{
		circuits: []breaker.Snapshot{{Key: "p/" + evil + "/r", Enabled: true, State: breaker.Open, Reason: evil, Cause: evil}},
		alarms:   []telemetry.Alarm{{Provider: evil, Kind: llm.FailureClass(evil), Since: now}},
		callers:  Callers{Configurations: []Configuration{{Name: evil, Targets: []llm.Target{{Provider: "p", Model: evil, Region: "r"}}}}},
		events:   []runs.Event{{At: now, Provider: "p", Model: evil, Region: "r", FromState: evil, ToState: evil, Reason: evil, Actor: evil, Note: new(evil)}},
		attempts: map[uuid.UUID][]runs.Attempt{},
	}
	id := w.addRun(now, "failure", evil, evil, 1, attempt("p/"+evil+"/r", "failure", evil, evil, 500, evil, 1))
	w.runs[0].RequestedModel, w.runs[0].CorrelationID, w.runs[0].Configuration = evil, evil, new(evil)
	return w, id
}
