package cases

import (
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

var rateLimit = theme{
	"RAT_01": retryWaitsAsLongAsTheServerSays,
	"RAT_03": hintInMillisecondsGoesFirst,
	"RAT_05": longHintIsNotSleptOut,
	"RAT_07": rateLimitMovesOn,
	"RAT_09": allRateLimitedIsARateLimit,
}

func retryWaitsAsLongAsTheServerSays(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(429, "Retry-After", "1"), apptest.OK()))
	g := apptest.Start(t, apptest.Configuration("", alpha(a, "retry: {max: 1, base: 10ms, max_delay: 5s}")))

	served(t, g.Post(t, apptest.ChatBody), circuitA)

	between(t, "the second call", secondAfterFirst(a), time.Second, 5*time.Second)
	rows(t, "attempts", g.Attempts(t, 1), apptest.Row{"outcome": "success", "retries": 1})
}

func hintInMillisecondsGoesFirst(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(429, "retry-after-ms", "300", "Retry-After", "2"), apptest.OK()))
	g := apptest.Start(t, apptest.Configuration("", alpha(a, "retry: {max: 1, base: 10ms, max_delay: 5s}")))

	served(t, g.Post(t, apptest.ChatBody), circuitA)

	between(t, "the second call", secondAfterFirst(a), 300*time.Millisecond, 2*time.Second)
}

func secondAfterFirst(u *apptest.Upstream) time.Duration {
	requests := u.Requests()
	return requests[1].At.Sub(requests[0].At)
}

// between checks that a time is at least low and under high.
func between(t *testing.T, what string, got, low, high time.Duration) {
	t.Helper()
	if got < low || got >= high {
		t.Errorf("%s came after %s, want %s or more and under %s", what, got, low, high)
	}
}

func longHintIsNotSleptOut(t *testing.T) {
	t.Run("to_the_next_target", func(t *testing.T) {
		t.Parallel()
		a := apptest.NewUpstream(t, apptest.Status(429, "Retry-After", "3600"))
		b := apptest.NewUpstream(t, apptest.OK())
		g := apptest.Start(t, apptest.Configuration("", alpha(a, "retry: {max: 2, base: 10ms, max_delay: 5s}"), beta(b)))

		for range 2 {
			answer := g.Post(t, apptest.ChatBody)
			served(t, answer, circuitB)
			between(t, "the answer", answer.Took, 0, 4*time.Second)
		}
		equal(t, "calls of A", a.Calls(), 1)
	})
	t.Run("to_the_caller", func(t *testing.T) {
		t.Parallel()
		a := apptest.NewUpstream(t, apptest.Status(429, "Retry-After", "3600"))
		g := apptest.Start(t, apptest.Configuration("", alpha(a, "retry: {max: 2, base: 10ms, max_delay: 5s}")))

		answer := g.Post(t, apptest.ChatBody)
		refused(t, answer, 429, "rate_limit_error", "upstream_rate_limited")
		between(t, "the answer", answer.Took, 0, 4*time.Second)
		equal(t, "Retry-After", answer.Header.Get("Retry-After"), "3600")
		equal(t, "x-should-retry", answer.Header.Get("X-Should-Retry"), "false")

		refused(t, g.Post(t, apptest.ChatBody), 429, "rate_limit_error", "upstream_rate_limited")
		equal(t, "calls of A", a.Calls(), 1)
		equal(t, "why the circuit is open", g.Circuit(t, circuitA).Reason, "retry_after")
	})
}

func rateLimitMovesOn(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Status(429))
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.TwoTargets(a, b))

	served(t, g.Post(t, apptest.ChatBody), circuitB)

	rows(t, "attempts", g.Attempts(t, 2), failed("alpha", "rate_limit", "rate_limited"), succeeded("beta"))
}

func allRateLimitedIsARateLimit(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Status(429, "Retry-After", "30"))
	b := apptest.NewUpstream(t, apptest.Status(429, "Retry-After", "7"))
	g := apptest.Start(t, apptest.TwoTargets(a, b))

	answer := g.Post(t, apptest.ChatBody)

	refused(t, answer, 429, "rate_limit_error", "upstream_rate_limited")
	equal(t, "Retry-After", answer.Header.Get("Retry-After"), "7")
	rows(t, "attempts", g.Attempts(t, 2), failed("alpha", "rate_limit", "rate_limited"), failed("beta", "rate_limit", "rate_limited"))
	rows(t, "runs", g.Runs(t, 1), apptest.Row{"outcome": "failure", "failure_class": "rate_limit", "http_status": 429, "attempts": 2})
}
