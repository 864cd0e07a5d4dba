package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/health"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/web/templates"
)

// named makes a configuration over targets a/m/r, b/m/r and so on.
func named(name string, providers ...string) Configuration {
	c := Configuration{Name: name}
	for _, p := range providers {
		c.Targets = append(c.Targets, llm.Target{Provider: p, Model: "m", Region: "r"})
	}
	return c
}

func TestWhatCallersGet(t *testing.T) {
	t.Parallel()
	circuits := []breaker.Snapshot{
		{Key: "closed/m/r", Enabled: true},
		{Key: "disabled/m/r", Enabled: true, State: breaker.Disabled},
		{Key: "shadow/m/r", Enabled: true, State: breaker.Shadow},
		{Key: "off/m/r"},
		{Key: "open/m/r", Enabled: true, State: breaker.Open, RetryAfter: 21 * time.Second},
		{Key: "longer/m/r", Enabled: true, State: breaker.Open, RetryAfter: time.Minute},
		{Key: "due/m/r", Enabled: true, State: breaker.Open, Eligible: true},
		{Key: "half/m/r", Enabled: true, State: breaker.HalfOpen},
		{Key: "forced/m/r", Enabled: true, State: breaker.ForcedOpen},
		{Key: "timed/m/r", Enabled: true, State: breaker.ForcedOpen, Until: noon.Add(10 * time.Second)},
		{Key: "later/m/r", Enabled: true, State: breaker.ForcedOpen, Until: noon.Add(time.Hour)},
		{Key: "unwatched/m/r", State: breaker.ForcedOpen, Until: noon.Add(10 * time.Second)},
		{Key: "canary/m/r", Enabled: true, State: breaker.HalfOpen, Reason: breaker.ReasonCanary},
	}
	for name, test := range map[string]struct {
		targets []string
		report  health.Report
		tone    templates.Tone
		mark    string
		text    string
	}{
		"all well":          {[]string{"closed", "disabled", "shadow", "off", "never"}, health.Report{}, templates.Good, "Served", "Its 5 targets take calls."},
		"one well":          {[]string{"closed"}, health.Report{}, templates.Good, "Served", "Its only target takes calls."},
		"a spare is open":   {[]string{"closed", "open", "half"}, health.Report{}, templates.Good, "Served", "1 of its 3 targets would take a call now."},
		"first open":        {[]string{"open", "forced", "closed"}, health.Report{}, templates.Caution, "Served by fallback", "open/m/r is open; closed/m/r serves."},
		"first forced":      {[]string{"forced", "disabled"}, health.Report{}, templates.Caution, "Served by fallback", "forced/m/r is forced open; disabled/m/r serves."},
		"first half-open":   {[]string{"half", "closed"}, health.Report{}, templates.Caution, "Served by fallback", "half/m/r only takes probes; closed/m/r serves."},
		"spares by score":   {[]string{"open", "closed"}, health.Report{ReorderFallback: true}, templates.Caution, "Served by fallback", "open/m/r is open; another target serves."},
		"all by score":      {[]string{"open", "closed"}, health.Report{ReorderFallback: true, ReorderPrimary: true}, templates.Good, "Served", "1 of its 2 targets would take a call now."},
		"all open":          {[]string{"longer", "open"}, health.Report{}, templates.Bad, "Errors", "Callers get errors: every target is open; the next probe is in 21 s."},
		"forced is sooner":  {[]string{"open", "timed"}, health.Report{}, templates.Bad, "Errors", "Callers get errors: every target is open; the next probe is in 10 s."},
		"forced open":       {[]string{"forced"}, health.Report{}, templates.Bad, "Errors", "Callers get errors: its only target is forced open, until an operator closes it."},
		"all forced open":   {[]string{"forced", "forced"}, health.Report{}, templates.Bad, "Errors", "Callers get errors: every target is forced open, until an operator closes one."},
		"one has an end":    {[]string{"forced", "timed"}, health.Report{}, templates.Bad, "Errors", "Callers get errors: every target is forced open; the next probe, of timed/m/r, is in 10 s, and forced/m/r is forced open until an operator closes it."},
		"one of three has":  {[]string{"forced", "forced", "timed"}, health.Report{}, templates.Bad, "Errors", "Callers get errors: every target is forced open; the next probe, of timed/m/r, is in 10 s, and 2 are forced open until an operator closes them."},
		"one is only open":  {[]string{"forced", "open"}, health.Report{}, templates.Bad, "Errors", "Callers get errors: every target is open; the next probe, of open/m/r, is in 21 s, and forced/m/r is forced open until an operator closes it."},
		"both have an end":  {[]string{"later", "timed"}, health.Report{}, templates.Bad, "Errors", "Callers get errors: every target is forced open; the next probe is in 10 s."},
		"off afterwards":    {[]string{"unwatched"}, health.Report{}, templates.Bad, "Errors", "Callers get errors: its only target is forced open; unwatched/m/r takes calls again in 10 s."},
		"a canary is due":   {[]string{"canary", "forced"}, health.Report{}, templates.Bad, "Errors", "Callers get errors: every target is open; a canary is about to find out whether canary/m/r is well again, and forced/m/r is forced open until an operator closes it."},
		"only probes":       {[]string{"forced", "half"}, health.Report{}, templates.Caution, "Probes only", "Callers get errors, but for those whose calls are probes."},
		"the next is one":   {[]string{"due"}, health.Report{}, templates.Caution, "Probes only", "Callers get errors, but for those whose calls are probes."},
		"nothing behind it": {nil, health.Report{}, templates.Quiet, "No target", ""},
	} {
		w := &world{circuits: circuits, report: test.report, callers: Callers{Configurations: []Configuration{named("chat", test.targets...)}}}
		got := w.pages().look(noon).fare()
		want := []templates.Caller{{Name: "chat", Mark: templates.Mark{Tone: test.tone, Text: test.mark}, Text: test.text}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Who has something for callers whom no target answers gives them no error, and
// what the response cache has is given to whoever asks for it.
func TestWhatCallersGetWhenNoTargetAnswers(t *testing.T) {
	t.Parallel()
	circuits := []breaker.Snapshot{
		{Key: "open/m/r", Enabled: true, State: breaker.Open, RetryAfter: 21 * time.Second},
		{Key: "half/m/r", Enabled: true, State: breaker.HalfOpen},
	}
	type caller struct {
		tone       templates.Tone
		mark, text string
	}
	for name, test := range map[string]struct {
		need         Need
		open, probed caller
		headline     string
		tone         templates.Tone
	}{
		"nothing": {
			Need{},
			caller{templates.Bad, "Errors", "Callers get errors"},
			caller{templates.Caution, "Probes only", "Callers get errors, but for those whose calls are probes."},
			"1 configuration failing, ", templates.Bad,
		},
		"kept answers": {
			Need{Kept: true},
			caller{templates.Bad, "Errors", "Callers get errors, but for those whose answer the response cache has"},
			caller{templates.Caution, "Probes only", "Callers get errors, but for those whose calls are probes or whose answer the response cache has."},
			"1 configuration failing, ", templates.Bad,
		},
		"stale answers": {
			Need{Kept: true, Stale: true},
			caller{templates.Bad, "Stale or errors", "Callers get errors, but for those whose answer the response cache has, stale or not"},
			caller{templates.Caution, "Probes only", "Callers get errors, but for those whose calls are probes or whose answer the response cache has, stale or not."},
			"1 configuration degraded, ", templates.Bad,
		},
		"a message": {
			Need{Message: true},
			caller{templates.Caution, "Degraded", "Callers get the configured message"},
			caller{templates.Caution, "Probes only", "Callers get the configured message, but for those whose calls are probes."},
			"1 configuration degraded, ", templates.Caution,
		},
		"stale answers and a message": {
			Need{Kept: true, Stale: true, Message: true},
			caller{templates.Caution, "Degraded", "Callers get the configured message, but for those whose answer the response cache has, stale or not"},
			caller{templates.Caution, "Probes only", "Callers get the configured message, but for those whose calls are probes or whose answer the response cache has, stale or not."},
			"1 configuration degraded, ", templates.Caution,
		},
	} {
		open, probed := named("open", "open"), named("probed", "half")
		open.Need, probed.Need = test.need, test.need
		w := &world{circuits: circuits, callers: Callers{Configurations: []Configuration{open, probed}}}
		test.open.text += ": its only target is open; the next probe is in 21 s."
		want := []templates.Caller{
			{Name: "open", Mark: templates.Mark{Tone: test.open.tone, Text: test.open.mark}, Text: test.open.text},
			{Name: "probed", Mark: templates.Mark{Tone: test.probed.tone, Text: test.probed.mark}, Text: test.probed.text},
		}
		if diff := cmp.Diff(want, w.pages().look(noon).fare()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		w.circuits = []breaker.Snapshot{{Key: "open/m/r", Enabled: true, State: breaker.ForcedOpen}}
		if got := w.pages().look(noon).summary(); !strings.HasPrefix(got.Headline, test.headline) || got.Tone != test.tone {
			t.Errorf("%s: the headline is %q, %s", name, got.Headline, got.Tone)
		}
	}
}

// One line for each configuration, and those first whose callers are hurt.
func TestCallersWhoAreHurtComeFirst(t *testing.T) {
	t.Parallel()
	w := incident(time.Now())
	page := document(t, serve(t, w.pages()), "/")
	want := []string{
		"images Errors Callers get errors: its only target is open; the next probe is in 21 s.",
		"chat Served by fallback openai/gpt-4.1-mini/global is open; anthropic/claude-sonnet-4-5/eu serves.",
		"summaries Served Its 2 targets take calls.",
	}
	if diff := cmp.Diff(want, texts(page.Find(".callers li"))); diff != "" {
		t.Errorf("callers (-want +got):\n%s", diff)
	}
}

// What an operator has set stands apart from what is sick.
func TestWhatAnOperatorHasSetStandsApart(t *testing.T) {
	t.Parallel()
	w := incident(time.Now())
	w.circuits = append(w.circuits, breaker.Snapshot{
		Key: "vllm/qwen3/dc1", Enabled: true, State: breaker.ForcedOpen, Reason: breaker.ReasonOperator,
		Actor: "anna", Note: "new driver", Since: time.Now().Add(-time.Hour),
	})
	page := document(t, serve(t, w.pages()), "/")
	if got := texts(page.Find("section[aria-labelledby=attention] .subject")); len(got) != 3 || got[0] != "openai/gpt-4.1-mini/global" {
		t.Errorf("needs attention: %v", got)
	}
	held := page.Find("section[aria-labelledby=held]")
	if diff := cmp.Diff([]string{"vllm/qwen3/dc1"}, texts(held.Find(".subject"))); diff != "" {
		t.Errorf("set by an operator (-want +got):\n%s", diff)
	}
	facts := texts(held.Find("dd"))
	if facts[0] != "By anna: new driver" || facts[2] != "Refuses every call until an operator closes it." {
		t.Errorf("the notice says %q", facts)
	}
}
