package admin

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/web/templates"
)

const (
	openKey   = "openai/gpt-4.1-mini/global"
	closedKey = "anthropic/claude-sonnet-4-5/eu"
)

// helm obeys by changing the world, and remembers what it was told.
type helm struct {
	world *world
	told  []breaker.Command
	keys  []string

	unsaved bool
	broken  error
}

func (h *helm) Command(_ context.Context, key string, c breaker.Command) (breaker.Snapshot, bool, error) {
	if h.broken != nil {
		return breaker.Snapshot{}, false, h.broken
	}
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	h.told, h.keys = append(h.told, c), append(h.keys, key)
	at := slices.IndexFunc(h.world.circuits, func(s breaker.Snapshot) bool { return s.Key == key })
	now := breaker.Snapshot{Key: key, Enabled: true, Reason: breaker.ReasonOperator, Since: time.Now()}
	if done, _ := commandOf(string(c.Action)); done.becomes() != breaker.Closed {
		now.State, now.Note, now.Actor = done.becomes(), c.Note, c.Actor
		if c.For > 0 {
			now.Until = time.Now().Add(c.For)
		}
	}
	h.world.circuits[at] = now
	return now, !h.unsaved, nil
}

// steered serves the pages of an incident that can be steered.
func steered(t *testing.T) (*helm, *httptest.Server) {
	t.Helper()
	h := &helm{world: incident(time.Now())}
	return h, serve(t, h.world.pages(h.obeyed))
}

func (h *helm) obeyed(d *Deps) { d.Steering = h }

// post sends a form and returns the answer without following it.
func post(t *testing.T, server *httptest.Server, path string, form url.Values) (*http.Response, *goquery.Document) {
	t.Helper()
	client := *server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.PostForm(server.URL+path, form)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := goquery.NewDocumentFromReader(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, page
}

func TestOnlyCommandsThatMakeSenseAreOffered(t *testing.T) {
	t.Parallel()
	snapshot := func(state breaker.State) breaker.Snapshot {
		return breaker.Snapshot{Key: "k", Enabled: true, State: state}
	}
	p := (&world{}).pages((&helm{}).obeyed)
	for name, test := range map[string]struct {
		circuit breaker.Snapshot
		want    []string
	}{
		"never called": {breaker.Snapshot{}, []string{"Force open…", "Only watch…", "Disable…"}},
		"closed":       {snapshot(breaker.Closed), []string{"Reset", "Force open…", "Only watch…", "Disable…"}},
		"open":         {snapshot(breaker.Open), []string{"Close", "Force open…", "Only watch…", "Disable…"}},
		"half-open":    {snapshot(breaker.HalfOpen), []string{"Close", "Force open…", "Only watch…", "Disable…"}},
		"forced open":  {snapshot(breaker.ForcedOpen), []string{"Close", "Change reason or time…", "Only watch…", "Disable…"}},
		"disabled":     {snapshot(breaker.Disabled), []string{"Close", "Force open…", "Only watch…", "Change reason or time…"}},
		"shadow":       {snapshot(breaker.Shadow), []string{"Close", "Force open…", "Change reason or time…", "Disable…"}},
		"switched off": {breaker.Snapshot{Key: "k"}, []string{"Force open…", "Only watch…"}},
	} {
		var got []string
		for _, action := range p.actions(target{circuit: test.circuit}) {
			got = append(got, action.Label)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNothingIsOfferedWhereNobodyObeys(t *testing.T) {
	t.Parallel()
	server := serve(t, incident(time.Now()).pages())
	page := document(t, server, circuitURL(openKey))
	if n := page.Find(".actions, form, button").Length(); n > 0 {
		t.Errorf("%d controls that do nothing", n)
	}
	if response, _ := post(t, server, circuitURL(openKey)+"/close", nil); response.StatusCode/100 != 4 {
		t.Errorf("a command is answered with %d", response.StatusCode)
	}
}

// The way of a person without scripts: from the circuit to the form, which says
// what would become of callers, and back to the circuit as it then is.
func TestForcingACircuitOpenIsAStepOfItsOwn(t *testing.T) {
	t.Parallel()
	h, server := steered(t)
	circuit := document(t, server, circuitURL(openKey))
	link, _ := circuit.Find("a#open.button").Attr("href")
	form := document(t, server, link).Find("#command")
	if len(h.told) > 0 {
		t.Fatalf("looking has commanded %v", h.told)
	}
	wantCallers := []string{
		"images Errors Callers get errors: its only target is forced open, until an operator closes it.",
		"chat Served by fallback openai/gpt-4.1-mini/global is forced open; anthropic/claude-sonnet-4-5/eu serves.",
	}
	if diff := cmp.Diff(wantCallers, texts(form.Find(".callers li"))); diff != "" {
		t.Errorf("what callers would get (-want +got):\n%s", diff)
	}
	action, _ := form.Find("form[method=post]").Attr("action")
	response, _ := post(t, server, action, url.Values{"reason": {" vendor says so "}, "for": {"30m"}})
	if got := response.Header.Get("Location"); response.StatusCode != http.StatusSeeOther || got != circuitURL(openKey) {
		t.Fatalf("status %d, Location %q", response.StatusCode, got)
	}
	want := []breaker.Command{{Action: breaker.ActionOpen, For: 30 * time.Minute, Note: "vendor says so", Actor: "local"}}
	if diff := cmp.Diff(want, h.told); diff != "" || h.keys[0] != openKey {
		t.Errorf("commands for %v (-want +got):\n%s", h.keys, diff)
	}

	after := document(t, server, circuitURL(openKey))
	if got := text(after.Find(".banner")); got != "Forced openBy local: vendor says so" && got != "Forced open By local: vendor says so" {
		t.Errorf("the banner says %q", got)
	}
	facts := map[string]string{}
	for _, fact := range after.Find(".panel dl > div").EachIter() {
		facts[text(fact.Find("dt"))] = text(fact.Find("dd"))
	}
	if facts["Set by"] != "local" || facts["Reason"] != "vendor says so" || !strings.Contains(facts["Until"], "UTC") {
		t.Errorf("facts: %v", facts)
	}
}

// What would become of callers depends on what stands behind the circuit.
func TestForcingACircuitOpenSaysWhatCallersThenGet(t *testing.T) {
	t.Parallel()
	const route, helper, check = "a/m/r", "context/chat/default", "a/@health/default"
	for name, test := range map[string]struct {
		circuit      string
		need         Need
		want, direct string
	}{
		"a target": {
			route, Need{},
			"Every call is refused, and no probe is sent: callers go on to the next target. Where there is none they get what their configuration has for that, else an error.",
			"Whoever names a/m itself gets an error.",
		},
		"a target with kept answers": {
			route, Need{Kept: true},
			"Every call is refused, and no probe is sent: callers go on to the next target. Where there is none they get what their configuration has for that, else an error.",
			"Whoever names a/m itself gets an error, unless the response cache has the answer.",
		},
		"an assembler":   {helper, Need{}, "The assembler is not asked, and no probe is sent: calls of chat are answered without their context.", ""},
		"a health check": {check, Need{}, "No health check is made. Callers notice nothing.", ""},
	} {
		w := &world{callers: Callers{Direct: true, DirectNeed: test.need}}
		for _, key := range []string{route, helper, check} {
			w.circuits = append(w.circuits, breaker.Snapshot{Key: key, Enabled: true})
		}
		server := serve(t, w.pages((&helm{world: w}).obeyed))
		if got := text(document(t, server, circuitURL(test.circuit)).Find("#open-effect")); got != test.want {
			t.Errorf("%s: the page says %q, want %q", name, got, test.want)
		}
		form := texts(document(t, server, circuitURL(test.circuit)+"/open").Find("#command > p"))[1:]
		want := []string{test.want}
		if test.direct != "" {
			want = append(want, test.direct)
		}
		if diff := cmp.Diff(want, form); diff != "" {
			t.Errorf("%s: the form (-want +got):\n%s", name, diff)
		}
	}
}

func TestCloseAndResetAreObeyedAtOnce(t *testing.T) {
	t.Parallel()
	h, server := steered(t)
	for key, want := range map[string]breaker.Action{openKey: breaker.ActionClose, closedKey: breaker.ActionReset} {
		h.told = nil
		form := document(t, server, circuitURL(key)).Find(".actions form[method=post]")
		if form.Length() != 1 {
			t.Fatalf("%s: %d forms", key, form.Length())
		}
		action, _ := form.Attr("action")
		if response, _ := post(t, server, action, nil); response.StatusCode != http.StatusSeeOther {
			t.Errorf("%s: status %d", key, response.StatusCode)
		}
		if diff := cmp.Diff([]breaker.Command{{Action: want, Actor: "local"}}, h.told); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
}

// What is wrong is said beside its field, and nothing typed is lost.
func TestAFormThatIsRefusedKeepsWhatWasTyped(t *testing.T) {
	t.Parallel()
	h, server := steered(t)
	for name, test := range map[string]struct {
		form    url.Values
		field   string
		problem string
	}{
		"no reason":    {url.Values{"reason": {"  "}, "for": {"1h"}}, "#reason", "Say why, for whoever finds the circuit so."},
		"no form":      {url.Values{}, "#reason", "Say why, for whoever finds the circuit so."},
		"a long one":   {url.Values{"reason": {strings.Repeat("é", 501)}, "for": {"1h"}}, "#reason", "Say it in 500 characters."},
		"two lines":    {url.Values{"reason": {"a\nb"}, "for": {"1h"}}, "#reason", "Say it in one line of plain text."},
		"turned":       {url.Values{"reason": {"a\u202eb"}, "for": {"1h"}}, "#reason", "Say it in one line of plain text."},
		"no UTF-8":     {url.Values{"reason": {"a\xff"}, "for": {"1h"}}, "#reason", "Say it in one line of plain text."},
		"another time": {url.Values{"reason": {"upgrade"}, "for": {"5000h"}}, "#lasts", "Choose one of these times."},
	} {
		for _, action := range []string{"open", "disable", "shadow"} {
			response, page := post(t, server, circuitURL(closedKey)+"/"+action, test.form)
			if response.StatusCode != http.StatusUnprocessableEntity {
				t.Errorf("%s, %s: status %d", name, action, response.StatusCode)
			}
			field := page.Find(test.field + "[aria-invalid=true]")
			described, _ := field.Attr("aria-describedby")
			if got := text(page.Find("#" + described)); described == "" || got != test.problem {
				t.Errorf("%s, %s: the field is described as %q, want %q", name, action, got, test.problem)
			}
			typed := strings.TrimSpace(test.form.Get("reason"))
			if got := page.Find("#reason").AttrOr("value", ""); utf8.ValidString(typed) && got != typed {
				t.Errorf("%s, %s: the reason is now %q", name, action, got)
			}
			if got := page.Find("#lasts option[selected]").AttrOr("value", ""); test.form.Get("for") == "1h" && got != "1h" {
				t.Errorf("%s, %s: the time is now %q", name, action, got)
			}
		}
	}
	if len(h.told) > 0 {
		t.Errorf("refused forms have commanded %v", h.told)
	}
}

func TestACommandThatFailsSaysSoAndKeepsTheForm(t *testing.T) {
	t.Parallel()
	h, server := steered(t)
	h.broken = errors.New("secret details")
	response, page := post(t, server, circuitURL(closedKey)+"/disable", url.Values{"reason": {"upgrade"}, "for": {"4h"}})
	if response.StatusCode != http.StatusInternalServerError {
		t.Errorf("status %d", response.StatusCode)
	}
	said := text(page.Find("[role=alert]"))
	if !strings.HasPrefix(said, "This could not be done; the log says why.") || strings.Contains(page.Text(), "secret") {
		t.Errorf("the page says %q", said)
	}
	if page.Find("#reason").AttrOr("value", "") != "upgrade" || page.Find("#lasts option[selected]").AttrOr("value", "") != "4h" {
		t.Error("what was typed is lost")
	}
}

func TestWhatIsNotSavedYetIsSaid(t *testing.T) {
	t.Parallel()
	h, server := steered(t)
	h.unsaved = true
	response, _ := post(t, server, circuitURL(closedKey)+"/shadow", url.Values{"reason": {"watch"}, "for": {"0"}})
	page := document(t, server, response.Header.Get("Location"))
	if got := text(page.Find("p.trouble[role=status]")); !strings.HasPrefix(got, "This holds, but it is not saved yet") {
		t.Errorf("the page says %q", got)
	}
	if got := document(t, server, circuitURL(closedKey)).Find("p.trouble[role=status]").Length(); got > 0 {
		t.Error("it says so for ever")
	}
}

// The words of a state that is set already can be changed; they come with it.
func TestAStateThatIsSetAlreadyComesWithItsReason(t *testing.T) {
	t.Parallel()
	h, server := steered(t)
	post(t, server, circuitURL(closedKey)+"/disable", url.Values{"reason": {"upgrade"}, "for": {"4h"}})
	form := document(t, server, circuitURL(closedKey)+"/disable").Find("#command")
	if got := form.Find("#reason").AttrOr("value", ""); got != "upgrade" || text(form.Find("h2")) != "Change reason or time" {
		t.Errorf("the form %q begins with %q", text(form.Find("h2")), got)
	}
	if got := document(t, server, circuitURL(closedKey)+"/open").Find("#reason").AttrOr("value", ""); got != "" {
		t.Errorf("another command begins with %q", got)
	}
	if len(h.told) != 1 {
		t.Errorf("commands: %v", h.told)
	}
}

func TestUnknownCircuitsAndCommandsAreNotFound(t *testing.T) {
	t.Parallel()
	h, server := steered(t)
	for _, path := range []string{
		"/circuits/a%2Fb%2Fc", "/circuits/" + url.PathEscape(openKey) + "x", "/circuits/%2F", "/circuits/x", "/circuits/a%2Fb%2Fc/open",
		circuitURL(openKey) + "/explode", circuitURL(openKey) + "/half_open", livePath + "?circuit=a/b/c",
	} {
		response, body := get(t, server, path)
		if response.StatusCode != http.StatusNotFound || !strings.Contains(body, "There is no such") {
			t.Errorf("GET %s: status %d", path, response.StatusCode)
		}
	}
	for _, path := range []string{"/circuits/a%2Fb%2Fc/open", circuitURL(openKey) + "/explode"} {
		if response, _ := post(t, server, path, url.Values{"reason": {"x"}, "for": {"0"}}); response.StatusCode != http.StatusNotFound {
			t.Errorf("POST %s: status %d", path, response.StatusCode)
		}
	}
	if len(h.told) > 0 {
		t.Errorf("commands: %v", h.told)
	}
}

func TestAFormThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	h, server := steered(t)
	response, page := post(t, server, circuitURL(openKey)+"/open", url.Values{"reason": {strings.Repeat("x", maxForm)}})
	if response.StatusCode != http.StatusBadRequest || !strings.Contains(page.Text(), "The form could not be read") || len(h.told) > 0 {
		t.Errorf("status %d, commands %v", response.StatusCode, h.told)
	}
}

func TestEachStateThatIsSetHasAMarkOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, state := range []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen, breaker.ForcedOpen, breaker.Disabled, breaker.Shadow} {
		mark := markOf(state.String())
		seen[mark.Text], seen[string(mark.Shape)+string(mark.Tone)] = true, true
	}
	if len(seen) != 12 {
		t.Errorf("words and signs of six states: %v", seen)
	}
	if got := markOf("molten"); got != (templates.Mark{Tone: templates.Quiet, Text: "molten"}) {
		t.Errorf("a state without words is shown as %v", got)
	}
}
