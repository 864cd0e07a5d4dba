package app_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

const alphaPage = "/circuits/alpha%2Fm1%2Fr1"

// page reads a page of the operators' interface.
func page(t *testing.T, g *apptest.Gateway, path string) *goquery.Document {
	t.Helper()
	answer := apptest.Get(t, g.AdminURL+path)
	if answer.Status != http.StatusOK {
		t.Fatalf("GET %s: status %d", path, answer.Status)
	}
	document, err := goquery.NewDocumentFromReader(strings.NewReader(answer.Body))
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// words is what a person reads of a selection.
func words(s *goquery.Selection) string { return strings.Join(strings.Fields(s.Text()), " ") }

// submit sends a form as a browser does for a page of an origin, and returns
// the status and where it leads.
func submit(t *testing.T, g *apptest.Gateway, path, origin string, form url.Values) (status int, location string) {
	t.Helper()
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, g.AdminURL+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Origin", origin)
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode, response.Header.Get("Location")
}

// An operator forces a circuit open on the page: the next call is served by the
// next target, every page says so, the history keeps who and why, and closing
// it brings the target back.
func TestAnOperatorSteersACircuitOnThePage(t *testing.T) {
	t.Parallel()
	alpha, beta := apptest.NewUpstream(t, apptest.OK()), apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.TwoTargets(alpha, beta))
	if got := words(page(t, g, "/").Find(".callers li")); got != "chat Served Its 2 targets take calls." {
		t.Errorf("before, callers get %q", got)
	}

	status, location := submit(t, g, alphaPage+"/open", g.AdminURL, url.Values{"reason": {"announced maintenance"}, "for": {"1h"}})
	if status != http.StatusSeeOther || location != alphaPage {
		t.Fatalf("status %d, Location %q", status, location)
	}
	if answer := g.Post(t, apptest.ChatBody); answer.Status != http.StatusOK || alpha.Calls() != 0 || beta.Calls() != 1 {
		t.Errorf("status %d, %d calls of alpha and %d of beta, want beta to serve", answer.Status, alpha.Calls(), beta.Calls())
	}
	overview := page(t, g, "/")
	if got, want := words(overview.Find(".callers li")), "chat Served by fallback alpha/m1/r1 is forced open; beta/m1/r2 serves."; got != want {
		t.Errorf("callers get %q, want %q", got, want)
	}
	if got := words(overview.Find("section[aria-labelledby=held] .subject")); got != "alpha/m1/r1" {
		t.Errorf("set by an operator: %q", got)
	}
	apptest.Eventually(t, func() string {
		cells := page(t, g, alphaPage).Find("table.history tbody tr").First().Find("td")
		got := cells.Map(func(_ int, cell *goquery.Selection) string { return words(cell) })
		return cmp.Diff([]string{"Closed", "Forced open", "An operator said so: announced maintenance", "local"}, got)
	})

	if status, _ := submit(t, g, alphaPage+"/close", g.AdminURL, nil); status != http.StatusSeeOther {
		t.Errorf("close: status %d", status)
	}
	if g.Post(t, apptest.ChatBody); alpha.Calls() != 1 {
		t.Errorf("%d calls of alpha after it was closed, want 1", alpha.Calls())
	}
}

// What the page says of a configuration whose targets are all closed off is what
// its callers get.
func TestThePageSaysWhatCallersGetWhenNoTargetAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		keys   string // of the configuration
		said   string
		status int
		header string
	}{
		"an error":    {"", "chat Errors Callers get errors: its only target", http.StatusServiceUnavailable, ""},
		"a message":   {"degrade: {message: away}", "chat Degraded Callers get the configured message: its only target", http.StatusOK, "message"},
		"stale or no": {"response_cache: {ttl: 1ms}, degrade: {stale: 1h}", "chat Stale or errors Callers get errors, but for those whose answer the response cache has, stale or not: its only target", http.StatusOK, "stale"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := apptest.Start(t, apptest.OneTarget(apptest.NewUpstream(t, apptest.OK()),
				"configurations: {chat: {targets: [{provider: alpha, model: m1}], "+test.keys+"}}"))
			if answer := g.Post(t, apptest.ChatBody); answer.Status != http.StatusOK {
				t.Fatalf("before: status %d", answer.Status)
			}
			submit(t, g, alphaPage+"/open", g.AdminURL, url.Values{"reason": {"maintenance"}, "for": {"1h"}})
			apptest.Eventually(t, func() string { // an answer is kept, and past its time, within a moment
				answer := g.Post(t, apptest.ChatBody)
				got := answer.Header.Get("X-Breakwater-Degraded")
				if answer.Status != test.status || got != test.header {
					return fmt.Sprintf("status %d, degraded %q, want %d and %q", answer.Status, got, test.status, test.header)
				}
				return ""
			})
			for _, path := range []string{"/", alphaPage} {
				if got := words(page(t, g, path).Find(".callers li")); !strings.HasPrefix(got, test.said) {
					t.Errorf("%s says %q, want %q", path, got, test.said)
				}
			}
		})
	}
}

// The page for people changes nothing of what programs are told.
func TestAMistypedPathIsAPageForPeopleAndJSONForPrograms(t *testing.T) {
	t.Parallel()
	g := apptest.Start(t, apptest.OneTarget(apptest.NewUpstream(t, apptest.OK())))
	for _, test := range []struct {
		method, path, accept string
		status               int
		kind                 string
	}{
		{http.MethodGet, "/limitz", "text/html", http.StatusNotFound, "text/html"},
		{http.MethodGet, "/limitz", "*/*", http.StatusNotFound, "application/json"},
		{http.MethodGet, "/api/v1/circuitz", "text/html", http.StatusNotFound, "application/json"},
		{http.MethodDelete, "/api/v1/pipeline", "text/html", http.StatusMethodNotAllowed, "application/json"},
		{http.MethodPost, "/limits", "text/html", http.StatusMethodNotAllowed, "application/json"},
	} {
		answer, err := apptest.Do(t.Context(), test.method, g.AdminURL+test.path, "", "Accept", test.accept)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Status != test.status || !strings.HasPrefix(answer.Header.Get("Content-Type"), test.kind) {
			t.Errorf("%s %s for %s: %d %s", test.method, test.path, test.accept, answer.Status, answer.Header.Get("Content-Type"))
		}
	}
}

// ADM-06, on the page: a form of another origin changes nothing.
func TestAFormOfAnotherOriginSteersNothing(t *testing.T) {
	t.Parallel()
	g := apptest.Start(t, apptest.OneTarget(apptest.NewUpstream(t, apptest.OK())))
	for _, action := range []string{"open", "disable", "shadow", "close", "reset"} {
		status, _ := submit(t, g, alphaPage+"/"+action, "https://evil.test", url.Values{"reason": {"x"}, "for": {"0"}})
		if status != http.StatusForbidden {
			t.Errorf("%s: status %d, want 403", action, status)
		}
	}
	if got := g.Circuit(t, "alpha/m1/r1").State; got != "closed" {
		t.Errorf("the circuit is %s", got)
	}
}
