package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

const isLive = `document.getElementById('live').dataset.live === 'on'`

func TestBrowserShowsACircuitEventAtOnce(t *testing.T) {
	t.Parallel()
	w := incident(time.Now())
	pages := w.pages()
	b := browse(t)
	server := serve(t, pages)
	b.do(chromedp.Navigate(server.URL))
	b.until(isLive)

	// Whoever reads with the keyboard must not lose the place.
	focused := ask[string](b, `(() => { const a = document.querySelector('table.runs tbody tr:nth-child(2) a'); a.focus(); return a.id })()`)
	w.change(func(w *world) {
		w.circuits[0].State, w.circuits[0].Reason, w.circuits[0].RetryAfter = breaker.Open, breaker.ReasonConsecutive, 30*time.Second
		w.addRun(time.Now(), "success", "", "", 5, attempt("a/b/c", "success", "", "", 200, "closed", 5))
	})
	pages.CircuitEvent(breaker.Event{})
	b.until(`document.querySelector('.headline').textContent.startsWith('1 configuration failing, 2 circuits open')`)
	b.until(`document.querySelectorAll('table.runs tbody tr').length === 9`)
	if got := ask[string](b, `document.activeElement.id`); got != focused {
		t.Errorf("after the update %q has the focus, want %q", got, focused)
	}
	if got := ask[string](b, `document.title`); !strings.HasPrefix(got, "1 configuration failing, 2 circuits open") {
		t.Errorf("the title is %q", got)
	}
	if n := ask[int](b, `document.querySelectorAll('[style], style').length`); n > 0 {
		t.Errorf("scripts have put %d styles into the page", n)
	}
	b.mustBeQuiet()
}

func TestBrowserSaysWhenThePageIsNotLiveAndComesBack(t *testing.T) {
	t.Parallel()
	w := incident(time.Now())
	before, after := w.pages(), w.pages()
	b := browse(t)
	server, restart := serveInTurn(t, before, after)
	b.do(chromedp.Navigate(server.URL))
	b.until(isLive)
	if err := before.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until(`document.getElementById('live').dataset.live === 'off'`)
	if got := ask[string](b, `document.getElementById('live').innerText`); !strings.Contains(got, "Not live") || !strings.Contains(got, "Reload") {
		t.Errorf("the header says %q", got)
	}

	w.change(func(w *world) { w.alarms = nil })
	restart()
	b.until(isLive)
	b.until(`document.querySelector('.headline').textContent === '1 configuration failing, 1 circuit open, 1 circuit half-open'`)
}

// serveInTurn serves one set of pages, and another from restart on.
func serveInTurn(t *testing.T, before, after *Pages) (server *httptest.Server, restart func()) {
	t.Helper()
	var turn atomic.Pointer[echo.Echo]
	handler := func(pages *Pages) *echo.Echo {
		e := echo.New()
		pages.Register(e.Group(""))
		return e
	}
	turn.Store(handler(before))
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { turn.Load().ServeHTTP(w, r) }))
	t.Cleanup(func() {
		for _, pages := range []*Pages{before, after} {
			if err := pages.Stop(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}
		server.Close()
	})
	return server, func() { turn.Store(handler(after)) }
}

// ADM-05, in a browser that would run it.
func TestBrowserRunsNothingThatCameFromOutside(t *testing.T) {
	t.Parallel()
	w, id := hostile(time.Now())
	pages := w.pages()
	b := browse(t)
	server := serve(t, pages)
	for _, path := range []string{circuitURL("p/" + evil + "/r"), "/runs/" + id.String(), "/"} {
		b.do(chromedp.Navigate(server.URL + path))
		b.until(`document.querySelector('main').textContent.includes('<svg onload')`)
	}
	b.until(isLive)
	w.change(func(w *world) {
		w.addRun(time.Now(), "failure", evil, evil, 1, attempt("p/"+evil+"/r", "failure", evil, evil, 500, evil, 1))
	})
	pages.CircuitEvent(breaker.Event{})
	b.until(`document.querySelectorAll('table.runs tbody tr').length === 2`)
	if ask[bool](b, `'__x' in window`) {
		t.Error("text from outside was run")
	}
	b.mustBeQuiet()
}

func TestBrowserReachesEverythingWithTheKeyboard(t *testing.T) {
	t.Parallel()
	w := incident(time.Now())
	b := browse(t)
	pages := w.pages()
	server := serve(t, pages)
	b.do(chromedp.EmulateViewport(1280, 900), chromedp.Navigate(server.URL))
	b.until(isLive)
	// What is replaced loses the focus: the page has to have taken in all that its
	// stream sends at the beginning.
	w.change(func(w *world) {
		w.addRun(time.Now(), "success", "", "", 5, attempt("a/b/c", "success", "", "", 200, "closed", 5))
	})
	pages.CircuitEvent(breaker.Event{})
	b.until(`document.querySelectorAll('table.runs tbody tr').length === 9`)

	want := ask[int](b, `document.querySelectorAll('a[href], [tabindex="0"], button, input, select, summary').length
		- [...document.querySelectorAll('.live a')].filter(a => !a.checkVisibility()).length`)
	reached := map[string]bool{}
	for range want {
		b.do(chromedp.KeyEvent(kb.Tab))
		here := ask[string](b, `(() => { const e = document.activeElement; return e.tagName + ' ' + (e.id || e.className || e.getAttribute('href') || e.getAttribute('aria-labelledby')) + ' ' + (e.getAttribute('aria-labelledby') || '') })()`)
		if ask[string](b, `getComputedStyle(document.activeElement).outlineStyle`) == "none" {
			t.Errorf("%s has the focus and does not show it", here)
		}
		reached[here] = true
	}
	if len(reached) != want {
		t.Errorf("the keyboard reaches %d of %d: %v", len(reached), want, reached)
	}

	// The skip link and a run, without a mouse.
	b.do(chromedp.Navigate(server.URL), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	b.until(`document.activeElement.id === 'main'`)
	link := "run-" + runRow(w.runs[0], nil, time.Now()).ID
	// In one step: the page refreshes itself, which makes another node of it.
	b.until(`(document.getElementById('` + link + `')?.focus(), document.activeElement.id === '` + link + `')`)
	b.follow(chromedp.KeyEvent(kb.Enter))
	if got := ask[int](b, `document.querySelectorAll('table.attempts tbody tr').length`); got != 2 {
		t.Errorf("the run shows %d attempts, want 2", got)
	}
	b.mustBeQuiet()
}

func TestBrowserWithoutScriptsShowsEverything(t *testing.T) {
	t.Parallel()
	w := incident(time.Now())
	b := browse(t)
	server := serve(t, w.pages())
	tell(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.do(chromedp.Navigate(server.URL), chromedp.WaitVisible(chromedp.CSS("table.targets")))
	text, err := chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS("body")))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 configuration failing, 1 circuit open, 1 circuit half-open, 1 alarm", "5 failures in a row (server_error)", "as of", "Reload", "no data"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, lie := range []string{"Live", "Not live"} {
		if strings.Contains(text, lie) {
			t.Errorf("the page says %q, which it cannot know", lie)
		}
	}
	b.follow(chromedp.Click(chromedp.CSS("table.runs tbody a")))
	b.do(chromedp.WaitVisible(chromedp.CSS("table.attempts")))
	b.mustBeQuiet()
}

func TestBrowserDrawsBothSchemesWithoutOverflow(t *testing.T) {
	t.Parallel()
	b := browse(t)
	server := serve(t, maintained(time.Now()).pages())
	grounds := map[string]bool{}
	for _, scheme := range []string{"light", "dark"} {
		b.prefer(scheme)
		for _, width := range []int64{360, 1440} {
			b.do(chromedp.EmulateViewport(width, 1000), chromedp.Navigate(server.URL))
			b.until(isLive)
			if over := ask[int](b, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
				t.Errorf("%s, %d wide: the page is %d too wide", scheme, width, over)
			}
		}
		grounds[ask[string](b, `getComputedStyle(document.body).backgroundColor`)] = true
		b.picture("admin-" + scheme + ".png")
	}
	if len(grounds) != 2 {
		t.Errorf("both schemes look the same: %v", grounds)
	}
	b.mustBeQuiet()
}
