package cases

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

var configuration = theme{
	"CFG_05": aReloadKeepsCircuitsStreamsAndHealth,
}

// A reload that changes only a price leaves an open circuit open for the time
// it had left, lets a stream end by the configuration it began with, and forgets
// nothing of anyone's health.
func aReloadKeepsCircuitsStreamsAndHealth(t *testing.T) {
	more := []string{
		"circuit_breaker: {failure_threshold: 1, window: {size: 10m}, cooldown: 1h, max_cooldown: 1h, cooldown_jitter: 0}",
		"health: {refresh: 20ms}",
	}
	release := make(chan struct{})
	a := apptest.NewUpstream(t, apptest.Status(http.StatusServiceUnavailable))
	b := apptest.NewUpstream(t, apptest.When(`"stream":true`, heldInTheMiddle(release), apptest.OK()))
	priced := func(output string) string {
		return strings.Replace(apptest.TwoTargets(a, b, more...), "output: 5", "output: "+output, -1)
	}
	g := apptest.Start(t, priced("5"))

	served(t, g.Post(t, apptest.ChatBody), circuitB)
	opened := g.Circuit(t, circuitA)
	equal(t, "state of A", opened.State, "open")
	streamed := make(chan apptest.Answer, 1)
	go func() {
		answer, err := g.TryPost(context.Background(), apptest.StreamBody)
		if err != nil {
			answer.Err = err
		}
		streamed <- answer
	}()
	apptest.Eventually(t, func() string {
		if b.Calls() < 2 {
			return "the stream on B has not begun"
		}
		return ""
	})
	scores := awaitScores(t, g)

	g.MustReload(t, priced("500"))

	after := g.Circuit(t, circuitA)
	if after.RetryAfterMS == 0 || after.RetryAfterMS > opened.RetryAfterMS {
		t.Errorf("A opens in %d ms after the reload, in %d ms before", after.RetryAfterMS, opened.RetryAfterMS)
	}
	after.RetryAfterMS = opened.RetryAfterMS
	after.Rejected = opened.Rejected // the stream was refused since
	equal(t, "circuit of A", after, opened)
	equal(t, "health scores", awaitScores(t, g), scores)

	served(t, g.Post(t, apptest.ChatBody), circuitB)
	equal(t, "calls of A", a.Calls(), 1)
	close(release)
	answer := <-streamed
	if answer.Err != nil || !strings.HasSuffix(answer.Body, apptest.Done) {
		t.Errorf("the stream was cut by the reload: %v %s", answer.Err, answer.Body)
	}
	// 10 prompt and 2 completion tokens, at 1 and at 5 or 500 USD a million.
	var costs []any
	for _, run := range g.Runs(t, 3) {
		costs = append(costs, run["cost_usd"])
	}
	if diff := cmp.Diff([]any{"0.00002", "0.00002", "0.00101"}, costs); diff != "" {
		t.Errorf("costs of the call before, the stream and the call after (-want +got):\n%s", diff)
	}
}

// heldInTheMiddle is a stream of "ok" that waits after its first letter.
func heldInTheMiddle(release <-chan struct{}) apptest.Script {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		apptest.Stream(apptest.RoleChunk, apptest.Chunk("o"))(w, r, n)
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
		apptest.Stream(apptest.Chunk("k"), apptest.FinishChunk, apptest.UsageChunk, apptest.Done)(w, r, n)
	}
}

// awaitScores waits until both targets have a score and returns what is
// measured.
func awaitScores(t *testing.T, g *apptest.Gateway) map[string]string {
	t.Helper()
	var scores map[string]string
	apptest.Eventually(t, func() string {
		scores = g.Metrics(t, `breakwater_provider_health_score{model="m1"`)
		for series, score := range scores {
			if score == "NaN" {
				return series + " has no data"
			}
		}
		return ""
	})
	return scores
}
