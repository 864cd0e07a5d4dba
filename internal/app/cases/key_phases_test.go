package cases

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// asks posts under a key in the background.
func asks(t *testing.T, g *apptest.Gateway, body, under string) <-chan apptest.Answer {
	t.Helper()
	got := make(chan apptest.Answer, 1)
	go func() {
		answer, err := g.TryPost(context.Background(), body, key, under)
		if err != nil {
			t.Error(err)
		}
		got <- answer
	}()
	return got
}

// awaitWaiter waits until another gateway has told the server that it waits for the
// one key at work.
func awaitWaiter(t *testing.T, server *redistest.Server) {
	t.Helper()
	apptest.Eventually(t, func() string {
		for line := range strings.Lines(server.Contents(t)) {
			if words := strings.Fields(line); strings.HasPrefix(line, "string ik:{") && len(words) > 6 && words[2] == "r" && words[6] == "1" {
				return ""
			}
		}
		return "nobody waits"
	})
}

// An owner that is drained ends its call in peace; what it stored serves the retry
// that another gateway gets.
func TestADrainedOwnerMayFinish(t *testing.T) {
	t.Parallel()
	for name, stream := range map[string]bool{"before the upstream answers": false, "while it answers": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			body, script := apptest.ChatBody, apptest.Held(release, apptest.OK())
			if stream {
				body, script = apptest.StreamBody, interrupted(release)
			}
			a := apptest.NewUpstream(t, script)
			fleet := fleet(t, 2, apptest.OneTarget(a, onCache(redistest.Start(t))))
			owner := asks(t, fleet[0], body, "k1")
			awaitCalls(t, a, 1)
			fleet[0].Terminate()
			apptest.Eventually(t, func() string {
				if ready, err := apptest.Do(t.Context(), "GET", fleet[0].AdminURL+"/readyz", ""); err == nil && ready.Status == 200 {
					return "it is not draining"
				}
				return ""
			})
			close(release)
			first := <-owner
			equal(t, "status of the owner", first.Status, 200)
			replayed(t, fleet[1].Post(t, body, key, "k1"), first)
			equal(t, "calls of A", a.Calls(), 1)
		})
	}
}

// The store goes away while a call is under way: the call goes on, twins on its
// gateway join it, and the store is told when it is back.
func TestTheStoreLeavesInMidCall(t *testing.T) {
	t.Parallel()
	for name, stream := range map[string]bool{"before the upstream answers": false, "while it answers": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			body, script := apptest.ChatBody, apptest.Held(release, apptest.OK())
			if stream {
				body, script = apptest.StreamBody, interrupted(release)
			}
			a := apptest.NewUpstream(t, script)
			server := redistest.Start(t)
			fleet := fleet(t, 2, apptest.OneTarget(a, onCache(server)))
			for _, g := range fleet {
				awaitShared(t, g, false)
			}
			owner := asks(t, fleet[0], body, "k1")
			awaitCalls(t, a, 1)
			server.Kill()
			awaitShared(t, fleet[0], true)
			twin := asks(t, fleet[0], body, "k1")
			close(release)
			first := <-owner
			equal(t, "status of the owner", first.Status, 200)
			replayed(t, <-twin, first)
			server.Restart()
			awaitShared(t, fleet[1], false)
			apptest.Eventually(t, func() string {
				if len(server.Keys()) == 0 || !strings.Contains(strings.Join(server.Keys(), " "), "ik:{") {
					return "the store has not been told"
				}
				return ""
			})
			replayed(t, fleet[1].Post(t, body, key, "k1"), first)
			equal(t, "calls of A", a.Calls(), 1)
		})
	}
}

// interrupted is a healthy stream that pauses after its first words.
func interrupted(release <-chan struct{}) apptest.Script {
	begin, end := apptest.Stream(apptest.RoleChunk, apptest.Chunk("o")), apptest.Stream(apptest.Chunk("k"), apptest.FinishChunk, apptest.UsageChunk, apptest.Done)
	return apptest.Then(begin, apptest.Held(release, end))
}

func TestAStoreThatHasForgottenMakesANewCall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a, onCache(server)))
	first := g.Post(t, apptest.ChatBody, key, "k1")
	replayed(t, g.Post(t, apptest.ChatBody, key, "k1"), first)
	server.FlushAll()
	fresh(t, g.Post(t, apptest.ChatBody, key, "k1"))
	equal(t, "calls of A", a.Calls(), 2)
}

// Who has waited on another gateway for an answer that turned out too long is told
// what has happened, and not to pay again without knowing.
func TestAnAnswerTooLongForAnotherGateway(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"whole": apptest.ChatBody, "stream": apptest.StreamBody} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			long := strings.Repeat("x", 2<<10)
			script := apptest.JSON(200, strings.Replace(apptest.OKBody, `"ok"`, `"`+long+`"`, 1))
			if body == apptest.StreamBody {
				script = apptest.Stream(apptest.RoleChunk, apptest.Chunk(long), apptest.FinishChunk, apptest.UsageChunk, apptest.Done)
			}
			a := apptest.NewUpstream(t, apptest.Held(release, script))
			server := redistest.Start(t)
			fleet := fleet(t, 2, apptest.OneTarget(a, onCache(server), "idempotency: {max_result: 1KiB}"))
			owner := asks(t, fleet[0], body, "k1")
			awaitCalls(t, a, 1)
			waiter := asks(t, fleet[1], body, "k1")
			awaitWaiter(t, server)
			close(release)
			equal(t, "status of the owner", (<-owner).Status, 200)
			answer := <-waiter
			refused(t, answer, 409, "conflict_error", "idempotency_answer_too_large")
			equal(t, "retry after", answer.Header.Get("Retry-After"), "")
			equal(t, "should retry", answer.Header.Get("X-Should-Retry"), "false")
			for _, word := range []string{"paid", "idempotency.max_result", "another call"} {
				if message := answer.Error(t).Message; !strings.Contains(message, word) {
					t.Errorf("%q does not say %q", message, word)
				}
			}
			equal(t, "calls of A", a.Calls(), 1)
		})
	}
}

// A store that did not answer may carry out later what it was asked: the key is
// not kept for a call that was refused meanwhile.
func TestARefusedCallHoldsNoKey(t *testing.T) {
	t.Parallel()
	for _, conflict := range []string{"reject", "wait"} {
		t.Run(conflict, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			a := apptest.NewUpstream(t, apptest.OK())
			fleet := fleet(t, 2, apptest.OneTarget(a, onCache(server), "idempotency: {fail_open: false, wait: 5s, on_conflict: "+conflict+"}"))
			fresh(t, fleet[0].Post(t, apptest.ChatBody, key, "warm"))
			server.Freeze()
			refused(t, fleet[0].Post(t, apptest.ChatBody, key, "k1"), 503, "service_unavailable_error", "idempotency_unavailable")
			server.Thaw()
			thawed := time.Now()
			apptest.Eventually(t, func() string { // a gateway needs a moment to find the store again
				if answer := fleet[1].Post(t, apptest.ChatBody, key, "k1"); answer.Status != 200 {
					return answer.Body
				}
				return ""
			})
			if took := time.Since(thawed); took > 15*time.Second {
				t.Errorf("the key was kept for %v, about as long as a lease", took)
			}
			equal(t, "calls of A", a.Calls(), 2)
		})
	}
}
