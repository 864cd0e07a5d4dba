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

// patientRetry waits for longer than aWhile where it waits for as long as it may.
const patientRetry = "retry: {max: 2, base: 10ms, max_delay: 1m}"

// aWhile is what a busy machine may take for what takes next to no time, and less
// than any clock here.
const aWhile = 20 * time.Second

func retryWaitsAsLongAsTheServerSays(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(429, "Retry-After", "1"), apptest.OK()))
	g := apptest.Start(t, apptest.Configuration("", alpha(a, patientRetry)))

	served(t, g.Post(t, apptest.ChatBody), circuitA)

	between(t, "the second call", secondAfterFirst(a), time.Second, aWhile)
	rows(t, "attempts", g.Attempts(t, 1), apptest.Row{"outcome": "success", "retries": 1})
}

func hintInMillisecondsGoesFirst(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(429, "retry-after-ms", "300", "Retry-After", "30"), apptest.OK()))
	g := apptest.Start(t, apptest.Configuration("", alpha(a, patientRetry)))

	served(t, g.Post(t, apptest.ChatBody), circuitA)

	between(t, "the second call", secondAfterFirst(a), 300*time.Millisecond, aWhile)
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
		g := apptest.Start(t, apptest.Configuration("", alpha(a, patientRetry), beta(b)))

		for range 2 {
			answer := g.Post(t, apptest.ChatBody)
			served(t, answer, circuitB)
			between(t, "the answer", answer.Took, 0, aWhile)
		}
		equal(t, "calls of A", a.Calls(), 1)
	})
	t.Run("to_the_caller", func(t *testing.T) {
		t.Parallel()
		a := apptest.NewUpstream(t, apptest.Status(429, "Retry-After", "3600"))
		g := apptest.Start(t, apptest.Configuration("", alpha(a, patientRetry)))

		answer := g.Post(t, apptest.ChatBody)
		refused(t, answer, 429, "rate_limit_error", "upstream_rate_limited")
		between(t, "the answer", answer.Took, 0, aWhile)
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
