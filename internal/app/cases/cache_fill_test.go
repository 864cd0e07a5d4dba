package cases

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// cleared clears the answers of the configuration chat.
func cleared(t *testing.T, g *apptest.Gateway, status int, want string) {
	t.Helper()
	answer, err := apptest.Do(t.Context(), http.MethodDelete, g.AdminURL+"/api/v1/response-cache?configuration=chat", "")
	if err != nil || answer.Status != status || !strings.Contains(answer.Body, want) {
		t.Errorf("clearing: %d %s (%v), want %d %s", answer.Status, answer.Body, err, status, want)
	}
}

// An answer that was asked for before the cache was cleared is given to who waits
// for it, and does not bring back what was cleared.
func TestAFillDoesNotBringBackWhatWasCleared(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]string{"in process": "", "shared": onCache(redistest.Start(t))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			a := apptest.NewUpstream(t, apptest.Held(release, apptest.OK()))
			g := apptest.Start(t, apptest.OneTarget(a, caching, settings))
			var first sync.WaitGroup
			first.Go(func() {
				answer, err := g.TryPost(t.Context(), apptest.ChatBody, "X-Breakwater-Cache", "refresh") // which waits for what is kept
				if err != nil || answer.Body != apptest.OKBody {
					t.Errorf("the call under way got %v %s", err, answer.Body)
				}
			})
			awaitCalls(t, a, 1)
			cleared(t, g, http.StatusOK, `{"deleted":0}`)
			close(release)
			first.Wait()
			cached(t, g, apptest.ChatBody, "miss")
			apptest.Eventually(t, func() string { return missed(g.Post(t, apptest.ChatBody)) })
		})
	}
}

// A reload to a shorter time holds for what is kept already.
func TestAReloadToAnotherTimeHoldsAtOnce(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	text := func(ttl string) string { return apptest.OneTarget(a, "response_cache: {ttl: "+ttl+"}") }
	g := apptest.Start(t, text("1h"))
	cached(t, g, apptest.ChatBody, "miss", "X-Breakwater-Cache", "refresh")
	cached(t, g, apptest.ChatBody, "hit")
	g.MustReload(t, text("2h"))
	cached(t, g, apptest.ChatBody, "hit")
	g.MustReload(t, text("0s"))
	cached(t, g, apptest.ChatBody, "")
	g.MustReload(t, text("3h"))
	cached(t, g, apptest.ChatBody, "hit")
	g.MustReload(t, text("1ms"))
	cached(t, g, apptest.ChatBody, "miss")
	equal(t, "calls of A", a.Calls(), 3)
}
