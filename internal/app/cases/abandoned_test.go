package cases

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// A thousand calls under keys whose clients leave in mid-call go to their end:
// their answers are stored, and nothing of them stays behind in the gateway. It
// runs beside no other test, whose goroutines would be taken for its own.
func TestAThousandAbandonedCallsLeaveNothingBehind(t *testing.T) {
	for name, settings := range map[string]string{"in process": "", "shared": onCache(redistest.Start(t))} {
		t.Run(name, func(t *testing.T) {
			const waves, wave = 10, 100
			a := apptest.NewUpstream(t, apptest.OK())
			g := apptest.Start(t, apptest.OneTarget(a, settings))
			fresh(t, g.Post(t, apptest.ChatBody, key, "warm"))
			before := goleak.IgnoreCurrent()
			// A connection of the database's pool may be reading ahead.
			pool := goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgconn/internal/bgreader.(*BGReader).bgRead")
			request := func(w, i int) (body, under string) {
				if i%2 == 1 {
					return apptest.StreamBody, fmt.Sprint(w, "-", i)
				}
				return apptest.ChatBody, fmt.Sprint(w, "-", i)
			}
			var givenUp atomic.Int64
			for w := range waves {
				release := make(chan struct{})
				a.SetScript(lastOfItsConnection(released(release, &givenUp, apptest.When(`"stream"`, interrupted(release), apptest.Held(release, apptest.OK())))))
				ctx, leave := context.WithCancel(t.Context())
				var clients sync.WaitGroup
				for i := range wave {
					clients.Go(func() {
						body, under := request(w, i)
						if answer, err := g.TryPost(ctx, body, key, under); err == nil && answer.Err == nil {
							t.Error("a client that should have left got its answer")
						}
					})
				}
				awaitCalls(t, a, 1+(w+1)*wave)
				leave()
				clients.Wait()
				close(release)
			}
			g.AwaitMetric(t, `breakwater_idempotency_total{result="stored"}`, fmt.Sprint(1+waves*wave))
			equal(t, "calls that the gateway gave up", givenUp.Load(), 0)
			apptest.Eventually(t, func() string {
				if err := goleak.Find(before, pool); err != nil {
					return err.Error()
				}
				return ""
			})
			for w := range waves {
				body, under := request(w, w)
				answer := g.Post(t, body, key, under)
				equal(t, "replayed", answer.Header.Get("Idempotent-Replayed"), "true")
			}
			equal(t, "calls of A", a.Calls(), 1+waves*wave)
		})
	}
}

// released counts the requests that ended before release was closed.
func released(release <-chan struct{}, early *atomic.Int64, script apptest.Script) apptest.Script {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		script(w, r, n)
		select {
		case <-release:
		default:
			early.Add(1)
		}
	}
}

// lastOfItsConnection answers on a connection that is closed then, so that none is
// kept for later.
func lastOfItsConnection(script apptest.Script) apptest.Script {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		w.Header().Set("Connection", "close")
		script(w, r, n)
	}
}
