package clients

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

// read is what the client makes of a whole answer or a stream.
type read struct {
	Content, FinishReason string
	Prompt, Completion    int64
}

// reads asks for a whole answer or for a stream with its usage.
func reads(t *testing.T, g *apptest.Gateway, stream bool, opts ...option.RequestOption) read {
	t.Helper()
	params := question()
	var got *openai.ChatCompletion
	if stream {
		params.StreamOptions.IncludeUsage = openai.Bool(true)
		acc := accumulate(t, g, params, opts...)
		got = &acc.ChatCompletion
	} else {
		var err error
		if got, err = new(client(g, opts...)).Chat.Completions.New(t.Context(), params); err != nil {
			t.Fatal(err)
		}
	}
	if len(got.Choices) != 1 {
		t.Fatalf("%d choices, want 1", len(got.Choices))
	}
	choice := got.Choices[0]
	return read{choice.Message.Content, choice.FinishReason, got.Usage.PromptTokens, got.Usage.CompletionTokens}
}

// An answer that is kept reads like one that was made, in the shape that is asked
// for, whichever was kept.
func TestOpenAIClientReadsACacheHit(t *testing.T) {
	t.Parallel()
	for name, keptStream := range map[string]bool{"kept whole": false, "kept as a stream": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := apptest.OK()
			if keptStream {
				script = apptest.OKStream()
			}
			upstream := apptest.NewUpstream(t, script)
			g := apptest.Start(t, apptest.OneTarget(upstream, "response_cache: {ttl: 1h}"))
			want := read{"ok", "stop", 10, 2}
			for _, stream := range []bool{keptStream, true, false} {
				if diff := cmp.Diff(want, reads(t, g, stream)); diff != "" {
					t.Errorf("stream %v (-want +got):\n%s", stream, diff)
				}
			}
			g.AwaitMetric(t, `breakwater_response_cache_total{result="hit"}`, "2")
			if calls := upstream.Calls(); calls != 1 {
				t.Errorf("A was asked %d times, want once", calls)
			}
		})
	}
}

// A message in need is a completion like any other, and says what it is.
func TestOpenAIClientReadsAMessageInNeed(t *testing.T) {
	t.Parallel()
	g := apptest.Start(t, apptest.OneTarget(apptest.NewUpstream(t, apptest.Status(500)),
		"configurations: {chat: {targets: [{provider: alpha, model: m1}], degrade: {message: We are away.}}}"))
	for _, stream := range []bool{false, true} {
		if diff := cmp.Diff(read{Content: "We are away.", FinishReason: "stop"}, reads(t, g, stream)); diff != "" {
			t.Errorf("stream %v (-want +got):\n%s", stream, diff)
		}
	}
	completion, err := new(client(g)).Chat.Completions.New(t.Context(), question())
	if err != nil {
		t.Fatal(err)
	}
	if got := completion.JSON.ExtraFields["ai_degraded"].Raw(); got != "true" {
		t.Errorf("ai_degraded is %q, want true", got)
	}
	streamed := new(client(g)).Chat.Completions.NewStreaming(t.Context(), question())
	if !streamed.Next() || streamed.Current().JSON.ExtraFields["ai_degraded"].Raw() != "true" {
		t.Errorf("the first event is %s (%v), which does not say that it is degraded", streamed.Current().RawJSON(), streamed.Err())
	}
	if err := streamed.Close(); err != nil {
		t.Error(err)
	}
}

// A stream that is replayed reads as it did the first time.
func TestOpenAIClientReadsAReplayedStream(t *testing.T) {
	t.Parallel()
	upstream := apptest.NewUpstream(t, apptest.OKStream())
	g := apptest.Start(t, apptest.OneTarget(upstream))
	under := option.WithHeader("Idempotency-Key", "order-1")
	for _, want := range []string{"made", "replayed"} {
		if diff := cmp.Diff(read{"ok", "stop", 10, 2}, reads(t, g, true, under)); diff != "" {
			t.Errorf("a stream that is %s (-want +got):\n%s", want, diff)
		}
		g.AwaitMetric(t, `breakwater_idempotency_total{result="stored"}`, "1") // until then the next would join it
	}
	g.AwaitMetric(t, `breakwater_idempotency_total{result="replayed"}`, "1")
	if calls := upstream.Calls(); calls != 1 {
		t.Errorf("A was asked %d times, want once", calls)
	}
}
