package cases

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

var transport = theme{
	"TRA_01": hostWithoutAddressMovesOn,
	"TRA_03": resetConnectionMovesOn,
	"TRA_05": liveStreamMayOutlastEveryClock,
	"TRA_07": slowPhaseIsNamed,
}

func hostWithoutAddressMovesOn(t *testing.T) {
	// No resolver is asked for a label this long, so the test does not depend
	// on the machine's.
	nowhere := &apptest.Upstream{URL: "http://" + strings.Repeat("n", 64) + ".invalid/v1"}
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.TwoTargets(nowhere, b))

	answer := g.Post(t, apptest.ChatBody)

	served(t, answer, circuitB)
	between(t, "the answer", answer.Took, 0, aWhile)
	rows(t, "attempts", g.Attempts(t, 2), failed("alpha", "connection", "dns_error"), succeeded("beta"))
}

func resetConnectionMovesOn(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.Sequence(apptest.Reset(), apptest.OK(), apptest.Reset()))
	b := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.TwoTargets(a, b))
	reset := []apptest.Row{failed("alpha", "connection", "connection_reset"), succeeded("beta")}

	fresh := g.Post(t, apptest.ChatBody)
	served(t, fresh, circuitB)
	served(t, g.Post(t, apptest.ChatBody), circuitA)
	reused := g.Post(t, apptest.ChatBody) // on the connection that served the last, then on one of its own
	served(t, reused, circuitB)

	equal(t, "calls of A", a.Calls(), 4)
	rows(t, "attempts on a fresh connection", g.AttemptsOf(t, fresh), reset...)
	rows(t, "attempts on a reused connection", g.AttemptsOf(t, reused), reset...)
}

func liveStreamMayOutlastEveryClock(t *testing.T) {
	const chunks, pause, clock = 24, 250 * time.Millisecond, 5 * time.Second // beside which the delays of a busy machine are short
	parts := []any{apptest.RoleChunk}
	for range chunks {
		parts = append(parts, apptest.Chunk("x"), pause)
	}
	a := apptest.NewUpstream(t, apptest.Stream(append(parts, apptest.FinishChunk, apptest.Done)...))
	g := apptest.Start(t, apptest.Configuration("", alpha(a, fmt.Sprintf("timeouts: {idle: %s, total: %s}", clock, clock))))

	answer := g.Post(t, apptest.StreamBody)

	equal(t, "content", answer.Content(t), strings.Repeat("x", chunks))
	if !strings.HasSuffix(answer.Body, apptest.Done) {
		t.Errorf("the stream does not end with [DONE]: %q", answer.Body)
	}
	between(t, "the end", answer.Took, chunks*pause, time.Minute)
	rows(t, "attempts", g.Attempts(t, 1), succeeded("alpha"))
}

func slowPhaseIsNamed(t *testing.T) {
	const silence = 30 * time.Second
	t.Run("first_token", func(t *testing.T) {
		t.Parallel()
		a := apptest.NewUpstream(t, apptest.After(silence, apptest.OKStream()))
		b := apptest.NewUpstream(t, apptest.OKStream())
		g := apptest.Start(t, apptest.Configuration("", alpha(a, "timeouts: {first_token: 500ms}"), beta(b)))

		answer := g.Post(t, apptest.StreamBody)
		equal(t, "content", answer.Content(t), "ok")
		between(t, "B's answer", answer.Took, 500*time.Millisecond, silence)
		rows(t, "attempts", g.Attempts(t, 2), failed("alpha", "connection", "ttft_timeout"), succeeded("beta"))
	})
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		a := apptest.NewUpstream(t, apptest.Stream(apptest.Chunk("Hel"), silence, apptest.Done))
		g := apptest.Start(t, apptest.Configuration("", alpha(a, "timeouts: {idle: 600ms}")))

		answer := g.Post(t, apptest.StreamBody)
		equal(t, "code of the last event", answer.LastError(t).Code, "upstream_stream_failed")
		between(t, "the end", answer.Took, 600*time.Millisecond, silence)
		rows(t, "attempts", g.Attempts(t, 1), failed("alpha", "connection", "idle_timeout"))
	})
	t.Run("total", func(t *testing.T) {
		t.Parallel()
		a := apptest.NewUpstream(t, apptest.After(silence, apptest.OK()))
		g := apptest.Start(t, apptest.Configuration("", alpha(a, "timeouts: {total: 700ms}")))

		answer := g.Post(t, apptest.ChatBody)
		refused(t, answer, 504, "upstream_error", "upstream_timeout")
		between(t, "the answer", answer.Took, 700*time.Millisecond, silence)
		rows(t, "attempts", g.Attempts(t, 1), failed("alpha", "connection", "total_timeout"))
	})
}
