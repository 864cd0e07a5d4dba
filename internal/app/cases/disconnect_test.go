package cases

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

var disconnect = theme{
	"DIS_01": leavingEndsTheUpstreamsWork,
	"DIS_03": leavingSaysNothingAboutTheTarget,
	"DIS_05": interruptedStreamIsAccountedFor,
	"DIS_06": reportedZeroIsNotAGap,
	"DIS_07": callersDeadlineSaysNothingAboutTheTarget,
}

func leavingEndsTheUpstreamsWork(t *testing.T) {
	const work = time.Minute
	a := apptest.NewUpstream(t, apptest.After(work, apptest.OK()))
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.Configuration("", alpha(a, "retry: {max: 2, base: 10ms}"), beta(b)))

	left := leaveOnce(t, g, a, 1)
	apptest.Eventually(t, func() string {
		if a.Aborted() != 1 {
			return "A still works for a client that left"
		}
		return ""
	})
	if took := time.Since(left); took >= work/2 {
		t.Errorf("A learned of it after %s", took)
	}

	rows(t, "runs", g.Runs(t, 1), apptest.Row{
		"outcome": "cancelled", "failure_class": "cancelled", "failure_reason": "client_left", "http_status": 499,
		"input_tokens": nil, "output_tokens": nil, "cost_usd": nil, "unpriced": false,
	})
	rows(t, "attempts", g.Attempts(t, 1), neutral("alpha", "cancelled", "client_left"))
	equal(t, "calls of A", a.Calls(), 1)
	equal(t, "calls of B", b.Calls(), 0)
	untroubled(t, g, circuitA)
}

func leavingSaysNothingAboutTheTarget(t *testing.T) {
	const clients = 20
	a := apptest.NewUpstream(t, apptest.Hang())
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.TwoTargets(a, b))

	leaveOnce(t, g, a, clients)
	g.Runs(t, clients)
	a.SetScript(apptest.OK())

	served(t, g.Post(t, apptest.ChatBody), circuitA)
	untroubled(t, g, circuitA)
	g.AwaitMetric(t, `breakwater_requests_total{configuration="chat",operation="chat",outcome="cancelled"}`, "20")
}

// leaveOnce sends requests at once, has their clients leave when all have
// reached the upstream, and returns when that was.
func leaveOnce(t *testing.T, g *apptest.Gateway, u *apptest.Upstream, clients int) time.Time {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	before := u.Calls()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			if _, err := g.TryPost(ctx, apptest.ChatBody); err == nil {
				t.Error("a client that should have left got an answer")
			}
		})
	}
	apptest.Eventually(t, func() string {
		if u.Calls() < before+clients {
			return "not all requests have reached the upstream"
		}
		return ""
	})
	leave()
	all.Wait()
	return time.Now()
}

func interruptedStreamIsAccountedFor(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Stream(apptest.RoleChunk,
		apptest.Chunk("aaa"), apptest.Chunk("bbb"), apptest.Chunk("ccc"), time.Hour))
	g := apptest.Start(t, apptest.OneTarget(a))

	client := g.Open(t, apptest.StreamBody)
	client.Until("ccc")
	client.Leave()

	// 6 bytes of prompt and 9 of answer at 4 bytes per token.
	accounted := apptest.Row{"usage_estimated": true, "input_tokens": 2, "output_tokens": 3, "cost_usd": "0.000017"}
	run := g.Runs(t, 1)
	rows(t, "runs", run, accounted)
	rows(t, "runs", run, apptest.Row{"outcome": "cancelled", "failure_reason": "client_left", "streamed": true})
	rows(t, "attempts", g.Attempts(t, 1), accounted)
	untroubled(t, g, circuitA)
}

func reportedZeroIsNotAGap(t *testing.T) {
	const zeros = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m1\",\"choices\":[],\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":0,\"total_tokens\":0}}\n\n"
	a := apptest.NewUpstream(t, apptest.Stream(apptest.RoleChunk, apptest.Chunk("ok"), zeros, time.Hour))
	g := apptest.Start(t, apptest.OneTarget(a))

	client := g.Open(t, `{"model":"chat","stream":true,"stream_options":{"include_usage":true},"messages":[]}`)
	client.Until("total_tokens")
	client.Leave()

	rows(t, "runs", g.Runs(t, 1), apptest.Row{
		"outcome": "cancelled", "input_tokens": 0, "output_tokens": 0, "cost_usd": "0", "usage_estimated": false, "unpriced": false,
	})
}

func callersDeadlineSaysNothingAboutTheTarget(t *testing.T) {
	const calls = 12
	a := apptest.NewUpstream(t, apptest.Hang())
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.TwoTargets(a, b))

	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			answer, err := g.TryPost(t.Context(), apptest.ChatBody, "X-Breakwater-Timeout", "100ms")
			if err != nil {
				t.Error(err)
				return
			}
			equal(t, "status", answer.Status, 504)
			equal(t, "code", answer.Error(t).Code, "caller_timeout")
		})
	}
	all.Wait()
	a.SetScript(apptest.After(300*time.Millisecond, apptest.OK()))

	served(t, g.Post(t, apptest.ChatBody), circuitA)
	equal(t, "calls of B", b.Calls(), 0)
	untroubled(t, g, circuitA)
	rows(t, "first run", g.Runs(t, calls+1)[:1], apptest.Row{"outcome": "cancelled", "failure_reason": "caller_timeout", "http_status": 504})
}
