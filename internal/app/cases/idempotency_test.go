package cases

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

var idempotency = theme{
	"IDM_01": anotherRequestUnderAKeyIsRefused,
	"IDM_03": twinsOfOneKeyAreOneCall,
	"IDM_05": failuresFreeTheKey,
	"IDM_06": onlyAnswersAreStored,
	"IDM_07": aReplayIsToldApart,
	"IDM_09": aReplayNeedsNoBudget,
}

const key = "Idempotency-Key"

// replayed checks that the client got the answer of an earlier call.
func replayed(t *testing.T, answer, original apptest.Answer) {
	t.Helper()
	equal(t, "status", answer.Status, original.Status)
	equal(t, "content type", answer.Header.Get("Content-Type"), original.Header.Get("Content-Type"))
	equal(t, "body", answer.Body, original.Body)
	equal(t, "replayed", answer.Header.Get("Idempotent-Replayed"), "true")
	equal(t, "original", answer.Header.Get("X-Original-Request-Id"), original.Header.Get("X-Request-Id"))
	equal(t, "attempts", answer.Header.Get("X-Breakwater-Attempts"), "0")
	equal(t, "target", answer.Header.Get("X-Breakwater-Target"), original.Header.Get("X-Breakwater-Target"))
}

// fresh checks that the client got an answer that was made for it.
func fresh(t *testing.T, answer apptest.Answer) {
	t.Helper()
	served(t, answer, circuitA)
	equal(t, "replayed", answer.Header.Get("Idempotent-Replayed"), "")
}

const otherBody = `{"model":"chat","messages":[{"role":"user","content":"say something else"}]}`

func anotherRequestUnderAKeyIsRefused(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a))
	first := g.Post(t, apptest.ChatBody, key, "k1")
	fresh(t, first)
	answer := g.Post(t, otherBody, key, "k1")
	refused(t, answer, 422, "invalid_request_error", "idempotency_key_reused")
	equal(t, "should retry", answer.Header.Get("X-Should-Retry"), "false")
	replayed(t, g.Post(t, apptest.ChatBody, key, `"k1"`), first)
	equal(t, "calls of A", a.Calls(), 1)
	g.AwaitMetric(t, `breakwater_idempotency_total{result="mismatch"}`, "1")
	rows(t, "runs", g.Runs(t, 3)[1:2], apptest.Row{
		"outcome": "failure", "failure_class": "idempotency", "failure_reason": "idempotency_key_reused", "http_status": 422, "attempts": 0,
	})
}

// together posts a body under one key to all gateways at once.
func together(t *testing.T, n int, body, under string, nodes ...*apptest.Gateway) []apptest.Answer {
	t.Helper()
	answers := make([]apptest.Answer, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			answer, err := nodes[i%len(nodes)].TryPost(context.Background(), body, key, under)
			if err != nil {
				t.Error(err)
			}
			answers[i] = answer
		})
	}
	all.Wait()
	return answers
}

func twinsOfOneKeyAreOneCall(t *testing.T) {
	for name, nodes := range map[string]int{"one gateway": 1, "two": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := apptest.NewUpstream(t, apptest.After(500*time.Millisecond, apptest.OK()))
			fleet := fleet(t, nodes, apptest.OneTarget(a, onCache(redistest.Start(t))))
			made := 0
			for _, answer := range together(t, 5, apptest.ChatBody, "k1", fleet...) {
				equal(t, "status", answer.Status, 200)
				equal(t, "body", answer.Body, apptest.OKBody)
				if answer.Header.Get("Idempotent-Replayed") == "" {
					made++
				}
			}
			equal(t, "answers that were made", made, 1)
			equal(t, "calls of A", a.Calls(), 1)
			fleet[0].Attempts(t, 1)
			cost := map[any]int{}
			for _, run := range fleet[0].Runs(t, 5) {
				cost[run["cost_usd"]]++
			}
			equal(t, "costs", cost, map[any]int{"0": 4, "0.00002": 1})
		})
	}
}

func failuresFreeTheKey(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(503), apptest.OK()))
	g := apptest.Start(t, apptest.OneTarget(a))
	equal(t, "first", g.Post(t, apptest.ChatBody, key, "k1").Status, 503)
	second := g.Post(t, apptest.ChatBody, key, "k1")
	fresh(t, second)
	replayed(t, g.Post(t, apptest.ChatBody, key, "k1"), second)
	equal(t, "calls of A", a.Calls(), 2)
}

func onlyAnswersAreStored(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(429), apptest.OK()))
	g := apptest.Start(t, apptest.OneTarget(a))
	equal(t, "k1", g.Post(t, apptest.ChatBody, key, "k1").Status, 429)
	fresh(t, g.Post(t, apptest.ChatBody, key, "k1"))

	// k2: a limit refuses it, until there is room.
	release := make(chan struct{})
	busy := apptest.NewUpstream(t, apptest.Sequence(apptest.Held(release, apptest.OK()), apptest.OK()))
	limited := apptest.Start(t, apptest.OneTarget(busy, under("concurrent: 1", "alpha")))
	var first sync.WaitGroup
	first.Go(func() {
		if answer, err := limited.TryPost(t.Context(), apptest.ChatBody); err != nil || answer.Status != 200 {
			t.Errorf("the call that takes the only place got %d %v", answer.Status, err)
		}
	})
	awaitCalls(t, busy, 1)
	for range 2 {
		refused(t, limited.Post(t, apptest.ChatBody, key, "k2"), 429, rateType, rateCode)
	}
	close(release)
	first.Wait()
	limited.AwaitSpent(t, "chat", "concurrent", "0")
	made := limited.Post(t, apptest.ChatBody, key, "k2")
	fresh(t, made)
	replayed(t, limited.Post(t, apptest.ChatBody, key, "k2"), made)
	equal(t, "calls under k2", busy.Calls(), 2)

	// k3: its client leaves, the call goes on, and the retry gets its answer (Ruling 6).
	release = make(chan struct{})
	a.SetScript(apptest.Held(release, apptest.OK()))
	leaveUnder(t, g, a, apptest.ChatBody, "k3")
	calls := a.Calls()
	close(release)
	answer := g.Post(t, apptest.ChatBody, key, "k3")
	served(t, answer, circuitA)
	equal(t, "replayed", answer.Header.Get("Idempotent-Replayed"), "true")
	equal(t, "calls of A for k3", a.Calls(), calls)
	equal(t, "aborted by the gateway", a.Aborted(), 0)

	// k4: a truncated stream.
	a.SetScript(apptest.Stream(apptest.RoleChunk, apptest.Chunk("o")))
	equal(t, "k4", g.Post(t, apptest.StreamBody, key, "k4").LastError(t).Code, "upstream_stream_failed")
	a.SetScript(apptest.OKStream())
	whole := g.Post(t, apptest.StreamBody, key, "k4")
	equal(t, "k4 again", whole.Content(t), "ok")
	equal(t, "k4 replayed", whole.Header.Get("Idempotent-Replayed"), "")
	replayed(t, g.Post(t, apptest.StreamBody, key, "k4"), whole)
}

// awaitCalls waits until an upstream has been asked so often.
func awaitCalls(t *testing.T, u *apptest.Upstream, n int) {
	t.Helper()
	apptest.Eventually(t, func() string {
		if got := u.Calls(); got < n {
			return fmt.Sprintf("the upstream was asked %d times, want %d", got, n)
		}
		return ""
	})
}

// leaveUnder sends a request under a key whose client leaves once it has reached
// the upstream.
func leaveUnder(t *testing.T, g *apptest.Gateway, u *apptest.Upstream, body, under string) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	before := u.Calls()
	var client sync.WaitGroup
	client.Go(func() {
		if _, err := g.TryPost(ctx, body, key, under); err == nil {
			t.Error("a client that should have left got an answer")
		}
	})
	apptest.Eventually(t, func() string {
		if u.Calls() == before {
			return "the request has not reached the upstream"
		}
		return ""
	})
	leave()
	client.Wait()
}

func aReplayIsToldApart(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a))
	first := g.Post(t, apptest.ChatBody, key, "k1")
	replayed(t, g.Post(t, apptest.ChatBody, key, "k1"), first)
	equal(t, "calls of A", a.Calls(), 1)
	g.Attempts(t, 1)
	rows(t, "runs", g.Runs(t, 2),
		apptest.Row{"outcome": "success", "idempotent_replay": false, "attempts": 1, "cost_usd": "0.00002", "input_tokens": 10},
		apptest.Row{"outcome": "success", "idempotent_replay": true, "attempts": 0, "cost_usd": "0", "input_tokens": nil, "served_provider": "alpha", "http_status": 200})
	for result, n := range map[string]string{"stored": "1", "replayed": "1", "joined": "0", "conflict": "0", "mismatch": "0"} {
		g.AwaitMetric(t, `breakwater_idempotency_total{result="`+result+`"}`, n)
	}
}

func aReplayNeedsNoBudget(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a, authKeys, under("requests_per_month: 1", "alpha")))
	caller := g.MintKey(t, "shop", `"requests_per_month": 1, "cost_per_month": 5`)
	post := func(under string) apptest.Answer {
		return g.Post(t, apptest.ChatBody, append(caller.Authorization(), key, under)...)
	}
	first := post("k1")
	fresh(t, first)
	refused(t, post("k2"), 402, budgetType, budgetCode)
	for range 2 {
		replayed(t, post("k1"), first)
	}
	refused(t, post("k2"), 402, budgetType, budgetCode)
	equal(t, "calls of A", a.Calls(), 1)
	g.AwaitSpent(t, "chat", "requests_per_month", "1")
	for name, spent := range map[string]string{"requests_per_month": "1", "cost_per_month": "0.00002"} {
		limit := g.KeyLimits(t, caller.ID)[name]
		equal(t, name+" of the key", []string{limit.Spent.String(), limit.Reserved.String()}, []string{spent, "0"})
	}
}

// While the store is gone, calls with a key go on or are refused, as it is wanted,
// and those without one know nothing of it.
func TestKeysWhileTheStoreIsGone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		leave, comeBack func(*redistest.Server)
		section         func(*redistest.Server) string
	}{
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart, onCache},
		"frozen": {(*redistest.Server).Freeze, (*redistest.Server).Thaw, impatient},
	} {
		for _, open := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " ", open), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				a := apptest.NewUpstream(t, apptest.OK())
				g := apptest.Start(t, apptest.OneTarget(a, tc.section(server), fmt.Sprintf("idempotency: {fail_open: %v}", open)))
				awaitShared(t, g, false)
				tc.leave(server)
				awaitShared(t, g, true)
				fresh(t, g.Post(t, apptest.ChatBody))
				answer := g.Post(t, apptest.ChatBody, key, "k1")
				if open {
					fresh(t, answer)
					replayed(t, g.Post(t, apptest.ChatBody, key, "k1"), answer) // by memory
				} else {
					refused(t, answer, 503, "service_unavailable_error", "idempotency_unavailable")
					equal(t, "retry after", answer.Header.Get("Retry-After"), "1")
				}
				tc.comeBack(server)
				awaitShared(t, g, false)
				apptest.Eventually(t, func() string {
					if answer = g.Post(t, apptest.ChatBody, key, "k1"); answer.Status == 200 && answer.Header.Get("Idempotent-Replayed") == "true" {
						return ""
					}
					return fmt.Sprintf("the answer is not kept: %d", answer.Status)
				})
				equal(t, "calls of A", a.Calls(), 2)
			})
		}
	}
}

func TestACallUnderAKeyAtWorkIsRefusedWhereThatIsWanted(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	a := apptest.NewUpstream(t, apptest.Held(release, apptest.OK()))
	fleet := fleet(t, 2, apptest.OneTarget(a, onCache(redistest.Start(t)), "idempotency: {on_conflict: reject}"))
	var owner sync.WaitGroup
	defer owner.Wait()
	owner.Go(func() { fresh(t, fleet[0].Post(t, apptest.ChatBody, key, "k1")) })
	apptest.Eventually(t, func() string {
		if a.Calls() == 0 {
			return "A was not asked"
		}
		return ""
	})
	for _, g := range fleet {
		answer := g.Post(t, apptest.ChatBody, key, "k1")
		refused(t, answer, http.StatusConflict, "conflict_error", "idempotency_in_progress")
		equal(t, "retry after", answer.Header.Get("Retry-After"), "1")
		equal(t, "should retry", answer.Header.Get("X-Should-Retry"), "")
		refused(t, g.Post(t, otherBody, key, "k1"), 422, "invalid_request_error", "idempotency_key_reused")
	}
	close(release)
	owner.Wait()
	equal(t, "calls of A", a.Calls(), 1)
}

func TestAWaitThatRunsOutIsAConflict(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	a := apptest.NewUpstream(t, apptest.Held(release, apptest.OK()))
	fleet := fleet(t, 2, apptest.OneTarget(a, onCache(redistest.Start(t)), "idempotency: {wait: 3s}"))
	var owner sync.WaitGroup
	defer owner.Wait()
	owner.Go(func() { fresh(t, fleet[0].Post(t, apptest.ChatBody, key, "k1", "X-Breakwater-Timeout", "5s")) }) // which is over before it is answered
	apptest.Eventually(t, func() string {
		if a.Calls() == 0 {
			return "A was not asked"
		}
		return ""
	})
	for _, g := range fleet {
		refused(t, g.Post(t, apptest.ChatBody, key, "k1"), 409, "conflict_error", "idempotency_in_progress")
		short := g.Post(t, apptest.ChatBody, key, "k1", "X-Breakwater-Timeout", "1500ms")
		refused(t, short, 409, "conflict_error", "idempotency_in_progress")
	}
	close(release)
}

func TestAnswersAroundTheBound(t *testing.T) {
	t.Parallel()
	const bound = 300 << 10 // more than goes to the store at once
	server := redistest.Start(t)
	for name, settings := range map[string]string{"in process": "", "shared": onCache(server)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := apptest.NewUpstream(t, apptest.OK())
			g := apptest.Start(t, apptest.OneTarget(a, settings, fmt.Sprintf("idempotency: {max_result: %dKiB}", bound>>10)))
			for size, kept := range map[int]bool{bound - 1: true, bound: true, bound + 1: false} {
				body := strings.Replace(apptest.OKBody, `"ok"`, `"`+strings.Repeat("x", size-len(apptest.OKBody)+2)+`"`, 1)
				a.SetScript(apptest.JSON(200, body))
				under := fmt.Sprint(name, " ", size)
				under = strings.ReplaceAll(under, " ", "-")
				first := g.Post(t, apptest.ChatBody, key, under)
				equal(t, "bytes", len(first.Body), size)
				second := g.Post(t, apptest.ChatBody, key, under)
				equal(t, "same body", second.Body == first.Body, true)
				equal(t, fmt.Sprint("replayed of ", size), second.Header.Get("Idempotent-Replayed") == "true", kept)
			}
		})
	}
}
