package apptest

import "testing"

// The ends of a reload.
const (
	ReloadApplied   = "applied"
	ReloadUnchanged = "unchanged"
	ReloadRefused   = "refused"
)

// Reload gives the gateway another configuration, as a changed file does, and
// returns how that ended. Sections that are left out are those of StartWith.
func (g *Gateway) Reload(t testing.TB, text string) string {
	t.Helper()
	before := g.ReloadsEnded(t)
	g.next.Store(&text)
	select {
	case g.reloads <- "test":
	case <-g.done:
		t.Fatal("the gateway has stopped")
	}
	ended := ""
	Eventually(t, func() string {
		for result, n := range g.ReloadsEnded(t) {
			if n != before[result] {
				ended = result
				return ""
			}
		}
		return "the reload has not ended"
	})
	return ended
}

// ReloadsEnded returns how many reloads have ended in which way.
func (g *Gateway) ReloadsEnded(t testing.TB) map[string]string {
	t.Helper()
	ends, all := map[string]string{}, g.Metrics(t, "breakwater_config_reloads_total")
	for _, result := range []string{ReloadApplied, ReloadUnchanged, ReloadRefused} {
		ends[result] = all[`breakwater_config_reloads_total{result="`+result+`"}`]
	}
	return ends
}

// MustReload is Reload for a configuration that is to be taken over.
func (g *Gateway) MustReload(t testing.TB, text string) {
	t.Helper()
	if ended := g.Reload(t, text); ended != ReloadApplied {
		t.Fatalf("the reload ended as %q, want %q; the log:\n%s", ended, ReloadApplied, g.Logs)
	}
}
