package cases

import (
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

var streamEnd = theme{
	"END_04": retryAfterVisibleOutputNeverGluesAnswers,
}

func retryAfterVisibleOutputNeverGluesAnswers(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Stream(apptest.RoleChunk, apptest.Chunk("Hel"),
		"data: {\"error\":{\"message\":\"boom\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n"))
	b := apptest.NewUpstream(t, apptest.Stream(apptest.Chunk("Bye"), apptest.FinishChunk, apptest.Done))
	g := apptest.Start(t, apptest.TwoTargets(a, b))

	answer := g.Post(t, apptest.StreamBody)

	events := answer.DataEvents()
	if len(events) == 0 || !strings.Contains(events[len(events)-1], `"code":"upstream_stream_failed"`) {
		t.Errorf("last event is not the error: %q", events)
	}
	if strings.Contains(answer.Body, "Bye") || strings.Contains(answer.Body, "[DONE]") {
		t.Errorf("the stream goes on after its failure: %q", answer.Body)
	}
	if b.Calls() != 0 {
		t.Errorf("B was asked %d times after A's output was visible, want 0", b.Calls())
	}
	attempt := g.Attempts(t, 1)[0]
	if attempt["outcome"] != "failure" || attempt["failure_reason"] != "stream_error" {
		t.Errorf("attempt is %v/%v, want failure/stream_error", attempt["outcome"], attempt["failure_reason"])
	}
	if got := g.Circuit(t, "alpha/m1/r1")["failures"]; got != 1.0 {
		t.Errorf("circuit A has %v failures, want 1", got)
	}
}
