package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/web/templates"
)

func TestAConfigurationThatIsRefusedIsShown(t *testing.T) {
	t.Parallel()
	const means = "Means: A changed configuration has faults: the one of before stays in force, whole"
	const next = "Next: Nothing by itself: put the file right, or take the change back; it is read again when it changes. Until then a gateway that restarts would not start."
	for name, test := range map[string]struct {
		faults []string
		want   []string
	}{
		"one fault":      {[]string{"b.yaml:3:5: health.window: is too small; give it more than 0s"}, []string{"Why: b.yaml:3:5: health.window: is too small; give it more than 0s"}},
		"seven":          {[]string{"1", "2", "3", "4", "5", "6", "7"}, []string{"Why: 1", "Why: 2", "Why: 3", "Why: 4", "Why: 5", "Why: And 2 more faults: the log has all, and breakwater config check finds them"}},
		"a long one":     {[]string{strings.Repeat("é", 301)}, []string{"Why: " + strings.Repeat("é", 300) + "…"}},
		"an error of it": {nil, []string{"Why: The log has the error"}},
		"hostile":        {[]string{evil}, []string{"Why: " + evil}},
	} {
		w := incident(time.Now())
		w.alarms, w.circuits = nil, w.circuits[:1]
		refused := &Refusal{Since: time.Now().Add(-2 * time.Hour), Latest: time.Now().Add(-time.Minute), Faults: test.faults}
		server := serve(t, w.pages(func(d *Deps) { d.Refused = func() *Refusal { return refused } }))
		page := document(t, server, "/")
		want := append(append([]string{"Refused", means}, test.want...), next)
		if diff := cmp.Diff(want, noticeOf(page, "configuration")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got := texts(page.Find(".notice dl time")); len(got) != 2 || !strings.HasSuffix(got[0], "2 h ago") || !strings.HasSuffix(got[1], "1 min ago") {
			t.Errorf("%s: since when and last tried: %q", name, got)
		}
		if got := text(page.Find("title")); got != "configuration refused · Breakwater" || !page.Find(".banner").HasClass(string(templates.Caution)) {
			t.Errorf("%s: the title is %q", name, got)
		}
		if page.Find("svg[onload], img[onerror]").Length() > 0 {
			t.Errorf("%s: text became an element", name)
		}
	}
}
