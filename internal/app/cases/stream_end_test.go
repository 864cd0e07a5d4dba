package cases

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

var streamEnd = theme{
	"END_01": cutStreamIsNotTakenForAWholeOne,
	"END_03": errorInsideAStreamFallsBackBeforeContent,
	"END_04": retryAfterVisibleOutputNeverGluesAnswers,
	"END_06": doneEndsTheStreamWhateverTheConnectionDoes,
	"END_08": errorAnswerToAStreamRequestIsAWholeError,
}

func cutStreamIsNotTakenForAWholeOne(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Stream(apptest.Chunk("Hel"), apptest.Chunk("lo")))
	b := apptest.NewUpstream(t, apptest.OKStream())
	g := apptest.Start(t, apptest.TwoTargets(a, b))

	answer := g.Post(t, apptest.StreamBody)

	equal(t, "code of the last event", answer.LastError(t).Code, "upstream_stream_failed")
	equal(t, "type of the last event", answer.LastError(t).Type, "server_error")
	if strings.Contains(answer.Body, "[DONE]") {
		t.Errorf("the cut stream ends as a whole one: %q", answer.Body)
	}
	equal(t, "calls of B", b.Calls(), 0)
	rows(t, "attempts", g.Attempts(t, 1), failed("alpha", "connection", "truncated_stream"))
	rows(t, "runs", g.Runs(t, 1), apptest.Row{"outcome": "failure", "failure_reason": "truncated_stream", "http_status": 200})
	equal(t, "failures of A", g.Circuit(t, circuitA).Failures, 1)
}

func errorInsideAStreamFallsBackBeforeContent(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Stream(": ping\n\n",
		"data: {\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"))
	b := apptest.NewUpstream(t, apptest.Stream(apptest.RoleChunk, apptest.Chunk("ok"), apptest.FinishChunk, apptest.Done))
	g := apptest.Start(t, apptest.TwoTargets(a, b))

	answer := g.Post(t, apptest.StreamBody)

	equal(t, "status", answer.Status, 200)
	equal(t, "stream", answer.Body, apptest.RoleChunk+apptest.Chunk("ok")+apptest.FinishChunk+apptest.Done)
	equal(t, "target", answer.Header.Get("X-Breakwater-Target"), circuitB)
	rows(t, "attempts", g.Attempts(t, 2), failed("alpha", "server_error", "overloaded"), succeeded("beta"))
	equal(t, "failures of A", g.Circuit(t, circuitA).Failures, 1)
}

func retryAfterVisibleOutputNeverGluesAnswers(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Stream(apptest.RoleChunk, apptest.Chunk("Hel"),
		"data: {\"error\":{\"message\":\"boom\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n"))
	b := apptest.NewUpstream(t, apptest.Stream(apptest.Chunk("Bye"), apptest.FinishChunk, apptest.Done))
	g := apptest.Start(t, apptest.TwoTargets(a, b))

	answer := g.Post(t, apptest.StreamBody)

	equal(t, "code of the last event", answer.LastError(t).Code, "upstream_stream_failed")
	if strings.Contains(answer.Body, "Bye") || strings.Contains(answer.Body, "[DONE]") {
		t.Errorf("the stream goes on after its failure: %q", answer.Body)
	}
	equal(t, "calls of B", b.Calls(), 0)
	rows(t, "attempts", g.Attempts(t, 1), failed("alpha", "server_error", "stream_error"))
	equal(t, "failures of A", g.Circuit(t, circuitA).Failures, 1)
}

func doneEndsTheStreamWhateverTheConnectionDoes(t *testing.T) {
	const held = 40 * time.Second // so long nobody waits
	a := apptest.NewUpstream(t, apptest.Stream(apptest.RoleChunk, apptest.Chunk("ok"), apptest.FinishChunk, apptest.Done, held))
	g := apptest.Start(t, apptest.OneTarget(a))

	answer := g.Post(t, apptest.StreamBody)

	equal(t, "content", answer.Content(t), "ok")
	if answer.Took >= held/2 {
		t.Errorf("the stream took %s, want it to end at [DONE]", answer.Took)
	}
	apptest.Eventually(t, func() string {
		if a.Aborted() != 1 {
			return "the connection to A is still held"
		}
		return ""
	})
	rows(t, "attempts", g.Attempts(t, 1), succeeded("alpha"))
	if took := g.Runs(t, 1)[0]["latency_ms"].(int); took >= int(held.Milliseconds()/2) {
		t.Errorf("the run took %d ms, want it without the wait", took)
	}
}

func errorAnswerToAStreamRequestIsAWholeError(t *testing.T) {
	const body = `{"error":{"message":"temperature must be at most 2","type":"invalid_request_error","param":"temperature","code":"invalid_value"}}`
	a := apptest.NewUpstream(t, apptest.JSON(400, body))
	b := apptest.NewUpstream(t, apptest.OKStream())
	g := apptest.Start(t, apptest.Configuration("", alpha(a, "retry: {max: 2, base: 10ms}"), beta(b)))

	answer := g.Post(t, apptest.StreamBody)

	equal(t, "status", answer.Status, 400)
	equal(t, "content type", answer.Header.Get("Content-Type"), "application/json")
	equal(t, "content length", answer.Header.Get("Content-Length"), strconv.Itoa(len(body)))
	equal(t, "body", answer.Body, body)
	equal(t, "calls of A", a.Calls(), 1)
	equal(t, "calls of B", b.Calls(), 0)
	untroubled(t, g, circuitA)
}
