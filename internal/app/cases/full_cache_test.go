package cases

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// A server without room protects the key that is at work; what came of it is told
// when there is room.
func TestAKeyAtWorkOnAFullServer(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	a := apptest.NewUpstream(t, apptest.Held(release, apptest.OK()))
	server := redistest.Start(t)
	fleet := fleet(t, 2, apptest.OneTarget(a, onCache(server), "idempotency: {wait: 5m}"))
	owner := asks(t, fleet[0], apptest.ChatBody, "k1")
	awaitCalls(t, a, 1)
	server.Fill()
	here, there := asks(t, fleet[0], apptest.ChatBody, "k1"), asks(t, fleet[1], apptest.ChatBody, "k1")
	refused(t, fleet[1].Post(t, otherBody, key, "k1"), 422, "invalid_request_error", "idempotency_key_reused")
	close(release)
	first := <-owner
	fresh(t, first)
	replayed(t, <-here, first)
	replayed(t, fleet[0].Post(t, apptest.ChatBody, key, "k1"), first) // by memory
	server.Relieve()
	replayed(t, <-there, first)
	equal(t, "calls of A", a.Calls(), 1)
}

// A key that is new to a server without room is treated as while it is away.
func TestANewKeyOnAFullServer(t *testing.T) {
	t.Parallel()
	for _, open := range []bool{true, false} {
		t.Run(fmt.Sprint("fail_open ", open), func(t *testing.T) {
			t.Parallel()
			a := apptest.NewUpstream(t, apptest.OK())
			server := redistest.Start(t)
			g := apptest.Start(t, apptest.OneTarget(a, onCache(server), fmt.Sprintf("idempotency: {fail_open: %v}", open)))
			known := g.Post(t, apptest.ChatBody, key, "known")
			fresh(t, known)
			server.Fill()
			replayed(t, g.Post(t, apptest.ChatBody, key, "known"), known)
			answer := g.Post(t, apptest.ChatBody, key, "new")
			if open {
				fresh(t, answer)
			} else {
				refused(t, answer, 503, "service_unavailable_error", "idempotency_unavailable")
			}
			fresh(t, g.Post(t, apptest.ChatBody))
			server.Relieve()
			if !open {
				fresh(t, g.Post(t, apptest.ChatBody, key, "new"))
			}
		})
	}
}

// On a server without room answers that are there are given, none is added, and
// all can be cleared away.
func TestTheResponseCacheOnAFullServer(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	server := redistest.Start(t)
	g := apptest.Start(t, apptest.OneTarget(a, caching, onCache(server)))
	refresh := []string{"X-Breakwater-Cache", "refresh"} // which waits for what is kept
	cached(t, g, apptest.ChatBody, "miss", refresh...)
	server.Fill()
	cached(t, g, apptest.ChatBody, "hit")
	cached(t, g, with(""), "miss", refresh...)
	cached(t, g, with(""), "miss", refresh...)
	cached(t, g, apptest.ChatBody, "miss", refresh...) // the older answer stays
	cached(t, g, apptest.ChatBody, "hit")
	cleared(t, g, http.StatusOK, `{"deleted":1}`)
	cached(t, g, apptest.ChatBody, "miss", refresh...)
	server.Relieve()
	cached(t, g, apptest.ChatBody, "miss", refresh...)
	cached(t, g, apptest.ChatBody, "hit")
}
