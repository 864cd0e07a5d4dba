package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

const saysForcedOpen = `document.querySelector('.banner .headline').textContent === 'Forced open'`

// calmed waits until a live page has taken in all that its stream sends at the
// beginning: a click on what is just being replaced hits nothing.
func calmed(b *tab, h *helm, pages *Pages) {
	b.t.Helper()
	b.until(isLive)
	h.world.change(func(w *world) {
		for i := range w.circuits {
			w.circuits[i].Rejected = 4711
		}
	})
	pages.CircuitEvent(breaker.Event{})
	b.until(`document.querySelector('main').textContent.includes('4,711 calls so far')`)
}

// With scripts, the form opens within the page, which stays live around it; and
// all of it goes by keyboard.
func TestBrowserForcesACircuitOpenByKeyboard(t *testing.T) {
	t.Parallel()
	h := &helm{world: incident(time.Now())}
	pages := h.world.pages(h.obeyed)
	b := browse(t)
	server := serve(t, pages)
	b.do(chromedp.Navigate(server.URL + circuitURL(openKey)))
	calmed(b, h, pages)

	b.do(chromedp.Focus(chromedp.ID("open")), chromedp.KeyEvent(kb.Enter))
	b.until(`document.activeElement.id === 'command'`)
	if got := ask[string](b, `location.pathname`); got != circuitURL(openKey) {
		t.Errorf("the form took the page away, to %s", got)
	}
	// What happens meanwhile is shown, and what was typed stays.
	b.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent("vendor "))
	h.world.change(func(w *world) { w.circuits[4].State = breaker.HalfOpen })
	pages.CircuitEvent(breaker.Event{})
	b.until(`document.querySelector('.banner .headline').textContent === 'Half-open'`)
	b.do(chromedp.KeyEvent("says so"))
	b.follow(chromedp.KeyEvent(kb.Enter))
	b.until(saysForcedOpen)
	calmed(b, h, pages)
	want := breaker.Command{Action: breaker.ActionOpen, Note: "vendor says so", Actor: "local"}
	if len(h.told) != 1 || h.told[0] != want {
		t.Errorf("commands: %+v, want %+v", h.told, want)
	}
	b.follow(chromedp.Focus(chromedp.ID("close")), chromedp.KeyEvent(" "))
	b.until(`document.querySelector('.banner .headline').textContent === 'Closed'`)
	if n := ask[int](b, `document.querySelectorAll('[style], style').length`); n > 0 {
		t.Errorf("scripts have put %d styles into the page", n)
	}
	b.mustBeQuiet()
}

func TestBrowserForcesACircuitOpenWithoutScripts(t *testing.T) {
	t.Parallel()
	h := &helm{world: incident(time.Now())}
	b := browse(t)
	server := serve(t, h.world.pages(h.obeyed))
	tell(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.do(chromedp.Navigate(server.URL))
	b.follow(chromedp.Click(chromedp.CSS("section[aria-labelledby=attention] a.subject")))
	b.follow(chromedp.Click(chromedp.ID("open")))
	// Without a reason the browser does not even send the form.
	b.do(chromedp.Click(chromedp.CSS("#command button")))
	b.do(chromedp.Focus(chromedp.ID("reason")), chromedp.KeyEvent("vendor says so"))
	b.follow(chromedp.Click(chromedp.CSS("#command button")))
	b.do(chromedp.WaitVisible(chromedp.CSS(".actions")))
	banner, err := chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS(".banner")))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(strings.Fields(banner), " "), "Forced open By local: vendor says so"; got != want {
		t.Errorf("the banner says %q, want %q", got, want)
	}
	if len(h.told) != 1 {
		t.Errorf("commands: %+v", h.told)
	}
	b.mustBeQuiet()
}

// A form that cannot be fetched is gone to, so that its error is seen.
func TestBrowserSaysWhenAFormCannotBeHad(t *testing.T) {
	t.Parallel()
	h := &helm{world: incident(time.Now())}
	b := browse(t)
	pages := h.world.pages(h.obeyed)
	server := serve(t, pages)
	b.do(chromedp.Navigate(server.URL + circuitURL(openKey)))
	calmed(b, h, pages)
	h.world.change(func(w *world) { w.circuits = w.circuits[:4]; w.report.Providers = w.report.Providers[:4] })
	b.follow(chromedp.Click(chromedp.ID("open")))
	b.until(`document.querySelector('h1').textContent === 'There is no such circuit'`)
}

func TestBrowserDrawsACircuitInBothSchemesWithoutOverflow(t *testing.T) {
	t.Parallel()
	h := &helm{world: maintained(time.Now())}
	b := browse(t)
	pages := h.world.pages(h.obeyed)
	server := serve(t, pages)
	for _, scheme := range []string{"light", "dark"} {
		b.prefer(scheme)
		for _, width := range []int64{360, 1440} {
			b.do(chromedp.EmulateViewport(width, 1000), chromedp.Navigate(server.URL+circuitURL("vllm/qwen3-32b/dc1")))
			h.world.change(func(w *world) { w.circuits[5].Rejected = 208 })
			calmed(b, h, pages)
			b.do(chromedp.Click(chromedp.ID("disable")))
			b.until(`document.activeElement.id === 'command'`)
			if over := ask[int](b, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
				t.Errorf("%s, %d wide: the page is %d too wide", scheme, width, over)
			}
		}
		b.picture("circuit-" + scheme + ".png")
	}
	b.mustBeQuiet()
}
