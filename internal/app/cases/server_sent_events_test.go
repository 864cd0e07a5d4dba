package cases

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

var serverSentEvents = theme{
	"SSE_01": characterCutByTheNetworkArrivesWhole,
	"SSE_03": keepAliveCommentIsNoEventAndNoToken,
	"SSE_05": pingIsNoEvent,
	"SSE_07": dataLineMayBeLong,
	"SSE_09": chunksWithoutChoicesPass,
	"SSE_11": usageIsAskedForAndKeptFromWhoDidNotAsk,
	"SSE_12": usageChunkFollowsTheCallersWish,
}

func characterCutByTheNetworkArrivesWhole(t *testing.T) {
	chunk := apptest.Chunk("你")
	cut := strings.Index(chunk, "你") + 2
	a := apptest.NewUpstream(t, apptest.Stream(apptest.RoleChunk,
		chunk[:cut], 20*time.Millisecond, chunk[cut:], apptest.FinishChunk, apptest.Done))
	g := apptest.Start(t, apptest.OneTarget(a))

	answer := g.Post(t, apptest.StreamBody)

	equal(t, "stream", answer.Body, apptest.RoleChunk+chunk+apptest.FinishChunk+apptest.Done)
	equal(t, "content", answer.Content(t), "你")
	rows(t, "attempts", g.Attempts(t, 1), succeeded("alpha"))
	untroubled(t, g, circuitA)
}

func keepAliveCommentIsNoEventAndNoToken(t *testing.T) {
	const comment, silence = ": PROCESSING\n\n", 100 * time.Millisecond
	a := apptest.NewUpstream(t, apptest.Stream(comment, silence, comment, silence, comment, silence,
		apptest.RoleChunk, apptest.Chunk("ok"), apptest.FinishChunk, apptest.Done))
	g := apptest.Start(t, apptest.OneTarget(a))

	answer := g.Post(t, apptest.StreamBody)

	equal(t, "content", answer.Content(t), "ok")
	if strings.Contains(strings.Join(answer.DataEvents(), "\n"), "PROCESSING") {
		t.Errorf("a comment became data: %q", answer.Body)
	}
	for what, row := range map[string]apptest.Row{"attempt": g.Attempts(t, 1)[0], "run": g.Runs(t, 1)[0]} {
		if ttft, ok := row["ttft_ms"].(int); !ok || ttft < 300 {
			t.Errorf("first token of the %s came after %v ms, want 300 or more", what, row["ttft_ms"])
		}
	}
}

func pingIsNoEvent(t *testing.T) {
	const numbered = "id: 7\ndata: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"o\"},\"finish_reason\":null}]}\n\n"
	silence := make(chan struct{}) // until two pings have come
	a := apptest.NewUpstream(t, apptest.Then(apptest.Stream(numbered), apptest.Held(silence, apptest.Stream(apptest.Chunk("k"), apptest.FinishChunk, apptest.Done))))
	g := apptest.Start(t, apptest.OneTarget(a, serving("stream_keepalive: 100ms")))

	client := g.Open(t, apptest.StreamBody)
	client.Until(": ping")
	client.Until(": ping")
	close(silence)
	answer := client.Rest()

	equal(t, "content", answer.Content(t), "ok")
	// A decoder that dispatches at every blank line: each must end an event.
	for event := range strings.SplitSeq(strings.TrimSuffix(answer.Body, "\n\n"), "\n\n") {
		if !strings.Contains(event, "data: ") {
			t.Errorf("a blank line ends no event: %q", event)
		}
	}
	equal(t, "stream without its pings", strings.ReplaceAll(answer.Body, ": ping\n", ""), numbered+apptest.Chunk("k")+apptest.FinishChunk+apptest.Done)
	rows(t, "attempts", g.Attempts(t, 1), succeeded("alpha"))
}

func dataLineMayBeLong(t *testing.T) {
	line := `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m1","choices":[{"index":0,"delta":{"tool_calls":[` +
		`{"index":0,"id":"t1","type":"function","function":{"name":"f","arguments":"` + strings.Repeat("x", 200<<10) + `"}}]},"finish_reason":null}]}` + "\n\n"
	a := apptest.NewUpstream(t, apptest.Stream(apptest.RoleChunk, line, apptest.FinishChunk, apptest.Done))
	g := apptest.Start(t, apptest.OneTarget(a))

	answer := g.Post(t, apptest.StreamBody)

	if answer.Body != apptest.RoleChunk+line+apptest.FinishChunk+apptest.Done {
		t.Errorf("the stream of %d bytes arrived changed, as %d bytes", len(line), len(answer.Body))
	}
	rows(t, "attempts", g.Attempts(t, 1), succeeded("alpha"))
}

func chunksWithoutChoicesPass(t *testing.T) {
	const filtered = "data: {\"id\":\"\",\"object\":\"\",\"created\":0,\"model\":\"\",\"choices\":[],\"prompt_filter_results\":[{\"prompt_index\":0,\"content_filter_results\":{}}]}\n\n"
	sent := filtered + apptest.Chunk("o") + apptest.Chunk("k") + apptest.UsageChunk + apptest.Done
	a := apptest.NewUpstream(t, apptest.Stream(filtered, apptest.Chunk("o"), apptest.Chunk("k"), apptest.UsageChunk, apptest.Done))
	g := apptest.Start(t, apptest.OneTarget(a))

	answer := g.Post(t, `{"model":"chat","stream":true,"stream_options":{"include_usage":true},"messages":[]}`)

	equal(t, "stream", answer.Body, sent)
	rows(t, "attempts", g.Attempts(t, 1), apptest.Row{"outcome": "success", "input_tokens": 10, "output_tokens": 2, "usage_estimated": false})
}

func usageIsAskedForAndKeptFromWhoDidNotAsk(t *testing.T) {
	a := apptest.NewUpstream(t, usageIfAsked())
	g := apptest.Start(t, apptest.OneTarget(a))

	answer := g.Post(t, apptest.StreamBody)

	if sent := a.Requests()[0].Body; !strings.Contains(sent, `"stream_options":{"include_usage":true}`) {
		t.Errorf("usage was not asked for: %s", sent)
	}
	equal(t, "stream", answer.Body, apptest.RoleChunk+apptest.Chunk("ok")+apptest.FinishChunk+apptest.Done)
	accounted := apptest.Row{"input_tokens": 10, "output_tokens": 2, "cost_usd": "0.00002", "usage_estimated": false}
	rows(t, "runs", g.Runs(t, 1), accounted)
	rows(t, "attempts", g.Attempts(t, 1), accounted)
}

func usageChunkFollowsTheCallersWish(t *testing.T) {
	a := apptest.NewUpstream(t, usageIfAsked())
	g := apptest.Start(t, apptest.OneTarget(a))

	asked := g.Post(t, `{"model":"chat","stream":true,"stream_options":{"include_usage":true,"x_other":1},"messages":[]}`)
	declined := g.Post(t, `{"model":"chat","stream":true,"stream_options":{"include_usage":false},"messages":[]}`)

	if sent := a.Requests()[0].Body; !strings.Contains(sent, `"x_other":1`) {
		t.Errorf("x_other was lost: %s", sent)
	}
	events := asked.DataEvents()
	equal(t, "usage chunks of who asked", strings.Count(asked.Body, `"usage"`), 1)
	equal(t, "place of the usage chunk", slices.IndexFunc(events, func(e string) bool { return strings.Contains(e, `"usage"`) }), len(events)-2)
	equal(t, "last event", events[len(events)-1], "[DONE]")
	if strings.Contains(declined.Body, `"usage"`) {
		t.Errorf("who declined usage got it: %q", declined.Body)
	}
	accounted := apptest.Row{"outcome": "success", "input_tokens": 10, "output_tokens": 2}
	rows(t, "runs", g.Runs(t, 2), accounted, accounted)
}

// usageIfAsked is a healthy stream whose usage comes only when it is asked for.
func usageIfAsked() apptest.Script {
	return apptest.When(`"include_usage":true`, apptest.OKStream(),
		apptest.Stream(apptest.RoleChunk, apptest.Chunk("ok"), apptest.FinishChunk, apptest.Done))
}
