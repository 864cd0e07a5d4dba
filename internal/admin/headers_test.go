package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// everyPage is one of each kind.
func (h *helm) everyPage() []string {
	return []string{"/", "/runs/" + h.world.runs[0].RunID.String(), circuitURL(openKey), circuitURL(openKey) + "/open", circuitURL(openKey) + "/close"}
}

func TestEveryPageForbidsWhatItDoesNotNeed(t *testing.T) {
	t.Parallel()
	h, server := steered(t)
	for _, path := range append(h.everyPage(), "/runs/"+uuid.Nil.String(), "/circuits/x") {
		response, _ := get(t, server, path)
		for header, want := range map[string]string{
			"X-Content-Type-Options": "nosniff",
			"Referrer-Policy":        "no-referrer",
			"Cache-Control":          "no-store",
			"Content-Type":           "text/html; charset=UTF-8",
		} {
			if got := response.Header.Get(header); got != want {
				t.Errorf("%s: %s is %q, want %q", path, header, got, want)
			}
		}
		csp := response.Header.Get("Content-Security-Policy")
		for _, directive := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(csp, directive) {
				t.Errorf("%s: the policy %q lacks %s", path, csp, directive)
			}
		}
		if strings.Contains(csp, "unsafe") {
			t.Errorf("%s: the policy %q allows something unsafe", path, csp)
		}
	}
}

func TestNoScriptOrStyleStandsInAPage(t *testing.T) {
	t.Parallel()
	h, server := steered(t)
	for _, path := range h.everyPage() {
		page := document(t, server, path)
		if n := page.Find("style, [style], script:not([src])").Length(); n > 0 {
			t.Errorf("%s: %d inline scripts or styles", path, n)
		}
		for _, element := range page.Find("*").EachIter() {
			for _, attribute := range element.Nodes[0].Attr {
				if strings.HasPrefix(attribute.Key, "on") || strings.HasPrefix(attribute.Key, "hx-on") {
					t.Errorf("%s: a handler stands in the page: %s", path, attribute.Key)
				}
			}
		}
	}
}

func TestWhatAPageLoadsIsThereAndKept(t *testing.T) {
	t.Parallel()
	server := serve(t, incident(time.Now()).pages())
	page := document(t, server, "/")
	var urls []string
	for _, element := range page.Find("script[src], link[href], img[src]").EachIter() {
		urls = append(urls, element.AttrOr("src", element.AttrOr("href", "")))
	}
	if len(urls) != 6 {
		t.Fatalf("the page loads %v, want its style, three scripts and the icon twice", urls)
	}
	for _, url := range urls {
		response, body := get(t, server, url)
		if response.StatusCode != 200 || body == "" {
			t.Errorf("%s: status %d, %d bytes", url, response.StatusCode, len(body))
		}
		if got := response.Header.Get("Cache-Control"); !strings.Contains(got, "immutable") {
			t.Errorf("%s: Cache-Control %q, want it kept", url, got)
		}
		if got := response.Header.Get("X-Content-Type-Options"); got != "nosniff" {
			t.Errorf("%s: X-Content-Type-Options %q", url, got)
		}
	}
}

func TestAPageIsBuiltForEveryone(t *testing.T) {
	t.Parallel()
	h, server := steered(t)
	for _, path := range h.everyPage() {
		page := document(t, server, path)
		for _, selector := range []string{"html[lang]", "header", "main#main", "a.skip[href='#main']", "nav[aria-label] a[aria-current=page]", "h1", "title"} {
			if page.Find(selector).Length() != 1 {
				t.Errorf("%s: %d of %s, want 1", path, page.Find(selector).Length(), selector)
			}
		}
		if n := page.Find("th:not([scope]), table:not(:has(caption)), img:not([alt]), .scroll:not([tabindex='0'])").Length(); n > 0 {
			t.Errorf("%s: %d tables, headers, images or scroll boxes that not everyone can use", path, n)
		}
		for _, mark := range page.Find(".mark").EachIter() {
			if text(mark) == "" || mark.Find("svg[aria-hidden=true]").Length() != 1 {
				t.Errorf("%s: a state is told by colour alone", path)
			}
		}
	}
}

func TestEveryFieldHasItsLabel(t *testing.T) {
	t.Parallel()
	_, server := steered(t)
	for _, action := range []string{"open", "shadow", "disable", "close", "reset"} {
		page := document(t, server, circuitURL(closedKey)+"/"+action)
		fields := page.Find("input, select, textarea")
		if fields.Length() == 0 {
			t.Fatalf("%s: no field", action)
		}
		for _, field := range fields.EachIter() {
			id := field.AttrOr("id", "")
			if text(page.Find("label[for='"+id+"']")) == "" {
				t.Errorf("%s: the field %q has no label", action, id)
			}
			if described := field.AttrOr("aria-describedby", ""); page.Find("#"+described).Length() != 1 {
				t.Errorf("%s: what describes %q is missing", action, id)
			}
		}
		for _, button := range page.Find("button").EachIter() {
			if text(button) == "" {
				t.Errorf("%s: a button says nothing", action)
			}
		}
	}
}
