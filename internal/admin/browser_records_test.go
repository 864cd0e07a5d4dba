package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// What is said of the gateway's own helpers fits any screen, however long a line
// of a configuration's faults is.
func TestBrowserShowsTroubleOfTheGatewayWithoutOverflow(t *testing.T) {
	t.Parallel()
	w := incident(time.Now())
	w.callers.Configurations[1].Need = Need{Kept: true, Stale: true, Message: true}
	w.runs[0].Degraded = new("message")
	w.database = Database{Away: true, Waiting: 3, Room: 65536, Spool: Spool{Trouble: SpoolFull, Since: time.Now(), Bytes: 1 << 30, Max: 1 << 30}}
	refused := &Refusal{Since: time.Now(), Latest: time.Now(), Faults: []string{"/etc/breakwater.yaml:3:5: " + strings.Repeat("x", longestFault)}}
	b := browse(t)
	server := serve(t, w.pages(func(d *Deps) { d.Refused = func() *Refusal { return refused } }))
	for _, width := range []int64{360, 1440} {
		b.do(chromedp.EmulateViewport(width, 1000), chromedp.Navigate(server.URL))
		b.until(isLive)
		if over := ask[int](b, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
			t.Errorf("%d wide: the page is %d too wide", width, over)
		}
	}
	for _, want := range []string{"1 configuration degraded", "1 GiB of 1 GiB in the spool", "degraded: message", "stays in force"} {
		if !ask[bool](b, `document.body.innerText.includes('`+want+`')`) {
			t.Errorf("the page does not show %q", want)
		}
	}
	b.picture("trouble.png")
	b.mustBeQuiet()
}
