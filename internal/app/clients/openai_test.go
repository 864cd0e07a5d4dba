// Package clients lets the vendors' own client libraries talk to the gateway:
// what they make of its answers is what its users get.
package clients

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

func client(g *apptest.Gateway, opts ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{option.WithBaseURL(g.URL + "/v1"), option.WithAPIKey("unused")}, opts...)...)
}

func question() openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    "chat",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("say ok")},
	}
}

func fixture(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestOpenAIClientChats(t *testing.T) {
	t.Parallel()
	g := apptest.Start(t, apptest.OneTarget(apptest.NewUpstream(t, apptest.OK())))

	completion, err := new(client(g)).Chat.Completions.New(t.Context(), question())
	if err != nil {
		t.Fatal(err)
	}
	choice := completion.Choices[0]
	got := []any{choice.Message.Content, choice.FinishReason, completion.Usage.PromptTokens, completion.Usage.CompletionTokens}
	if diff := cmp.Diff([]any{"ok", "stop", int64(10), int64(2)}, got); diff != "" {
		t.Errorf("completion (-want +got):\n%s", diff)
	}
}

func TestOpenAIClientStreams(t *testing.T) {
	t.Parallel()
	upstream := apptest.NewUpstream(t, apptest.Body(http.StatusOK, "text/event-stream", fixture(t, "openai_chat_stream.sse")))
	g := apptest.Start(t, apptest.OneTarget(upstream))

	params := question()
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	acc := accumulate(t, g, params)
	if acc.Choices[0].Message.Content == "" || acc.Choices[0].FinishReason != "stop" {
		t.Errorf("accumulated %+v, want content and finish_reason stop", acc.Choices[0])
	}
	if acc.Usage.TotalTokens == 0 {
		t.Error("usage that was asked for did not come")
	}
}

func TestOpenAIClientStreamsToolCalls(t *testing.T) {
	t.Parallel()
	upstream := apptest.NewUpstream(t, apptest.Body(http.StatusOK, "text/event-stream", fixture(t, "openai_chat_stream_tool_calls.sse")))
	g := apptest.Start(t, apptest.OneTarget(upstream))

	params := question()
	params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
		Name:       "get_weather",
		Parameters: openai.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]string{"type": "string"}}},
	})}
	calls := accumulate(t, g, params).Choices[0].Message.ToolCalls
	if len(calls) == 0 || calls[0].Function.Name == "" || calls[0].Function.Arguments == "" {
		t.Errorf("tool calls %+v, want at least one with name and arguments", calls)
	}
}

func accumulate(t *testing.T, g *apptest.Gateway, params openai.ChatCompletionNewParams, opts ...option.RequestOption) openai.ChatCompletionAccumulator {
	t.Helper()
	stream := new(client(g, opts...)).Chat.Completions.NewStreaming(t.Context(), params)
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			t.Fatal("a chunk does not fit the ones before")
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	return acc
}

func TestOpenAIClientCallsTools(t *testing.T) {
	t.Parallel()
	g := apptest.Start(t, apptest.OneTarget(apptest.NewUpstream(t, apptest.JSON(http.StatusOK, fixture(t, "openai_chat_completion_tool_calls.json")))))

	completion, err := new(client(g)).Chat.Completions.New(t.Context(), question())
	if err != nil {
		t.Fatal(err)
	}
	if calls := completion.Choices[0].Message.ToolCalls; len(calls) == 0 || calls[0].Function.Name == "" {
		t.Errorf("tool calls %+v, want at least one", calls)
	}
}

func TestOpenAIClientAsksForJSONSchema(t *testing.T) {
	t.Parallel()
	upstream := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(upstream))

	params := question()
	schema := map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}, "required": []string{"n"}, "additionalProperties": false}
	params.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &openai.ResponseFormatJSONSchemaParam{
		JSONSchema: openai.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Schema: schema, Strict: openai.Bool(true)},
	}}
	if _, err := new(client(g)).Chat.Completions.New(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	sent, err := params.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	got := upstream.Requests()[0].Body
	if want := replaceModel(string(sent)); got != want {
		t.Errorf("upstream got\n%s\nwant\n%s", got, want)
	}
}

// replaceModel is what the gateway may change of a request that does not
// stream: the model, and nothing else.
func replaceModel(body string) string {
	const before, after = `"model":"chat"`, `"model":"m1"`
	for i := 0; i+len(before) <= len(body); i++ {
		if body[i:i+len(before)] == before {
			return body[:i] + after + body[i+len(before):]
		}
	}
	return body
}

func TestOpenAIClientReadsErrors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		upstream apptest.Script
		model    string
		want     []any // status, type, code
	}{
		{"unknown model", apptest.OK(), "nonsense", []any{404, "invalid_request_error", "model_not_found"}},
		{"refused request", apptest.JSON(http.StatusBadRequest, `{"error":{"message":"too long","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`), "chat",
			[]any{400, "invalid_request_error", "context_length_exceeded"}},
		{"refused credentials", apptest.Status(http.StatusUnauthorized), "chat", []any{502, "upstream_error", "upstream_auth"}},
		{"edge page", apptest.Body(http.StatusBadGateway, "text/html", "<html>bad gateway</html>"), "chat", []any{502, "upstream_error", "upstream_failed"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := apptest.Start(t, apptest.OneTarget(apptest.NewUpstream(t, tc.upstream)))
			params := question()
			params.Model = tc.model

			_, err := new(client(g)).Chat.Completions.New(t.Context(), params)

			var apiErr *openai.Error
			if !errors.As(err, &apiErr) {
				t.Fatalf("error is %T %v, want *openai.Error", err, err)
			}
			if diff := cmp.Diff(tc.want, []any{apiErr.StatusCode, apiErr.Type, apiErr.Code}); diff != "" {
				t.Errorf("status, type, code (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOpenAIClientReadsAnErrorInMidStream(t *testing.T) {
	t.Parallel()
	g := apptest.Start(t, apptest.OneTarget(apptest.NewUpstream(t, apptest.Stream(apptest.Chunk("Hel")))))

	stream := new(client(g)).Chat.Completions.NewStreaming(t.Context(), question())
	text := ""
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			text += choice.Delta.Content
		}
	}
	if text != "Hel" || stream.Err() == nil {
		t.Errorf("got %q and error %v, want the partial text and an error", text, stream.Err())
	}
}

// An open circuit that closes soon is worth waiting for: the client repeats the
// call by itself, as Retry-After says, and gets its answer.
func TestOpenAIClientRetriesWhenToldHowLong(t *testing.T) {
	t.Parallel()
	upstream := apptest.NewUpstream(t, apptest.Sequence(apptest.Status(http.StatusServiceUnavailable, "Retry-After", "1"), apptest.OK()))
	g := apptest.Start(t, apptest.OneTarget(upstream))

	begun := time.Now()
	completion, err := new(client(g)).Chat.Completions.New(t.Context(), question())
	if err != nil {
		t.Fatal(err)
	}
	if completion.Choices[0].Message.Content != "ok" || upstream.Calls() != 2 {
		t.Errorf("content %q after %d calls, want ok after 2", completion.Choices[0].Message.Content, upstream.Calls())
	}
	if waited := time.Since(begun); waited < time.Second {
		t.Errorf("the client came back after %s, want at least the 1 s it was told", waited)
	}
}

// When waiting would be long the gateway says x-should-retry: false, and the
// client gives the error to its caller at once.
func TestOpenAIClientDoesNotRetryWhenToldNotTo(t *testing.T) {
	t.Parallel()
	upstream := apptest.NewUpstream(t, apptest.Status(http.StatusServiceUnavailable, "Retry-After", "60"))
	g := apptest.Start(t, apptest.OneTarget(upstream))

	_, err := new(client(g)).Chat.Completions.New(t.Context(), question())

	var apiErr *openai.Error
	if !errors.As(err, &apiErr) || apiErr.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("error is %v, want status 503", err)
	}
	header := apiErr.Response.Header
	if got := header.Get("X-Should-Retry"); got != "false" {
		t.Errorf("x-should-retry is %q, want false", got)
	}
	if got := header.Get("Retry-After"); got != "60" {
		t.Errorf("Retry-After is %q, want 60", got)
	}
	if len(g.Runs(t, 1)) != 1 {
		t.Error("the client called more than once")
	}
}

// The library sends its key as a bearer token; one that is wrong is its
// authentication error, which it does not repeat.
func TestOpenAIClientCallsWithAKey(t *testing.T) {
	t.Parallel()
	upstream := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(upstream, "auth: {mode: keys}"))
	key := g.MintKeyWith(t, "shop", `"configurations":["chat"]`)

	if _, err := new(client(g, option.WithAPIKey(key.Text))).Chat.Completions.New(t.Context(), question()); err != nil {
		t.Fatal(err)
	}
	models, err := new(client(g, option.WithAPIKey(key.Text))).Models.List(t.Context())
	if err != nil || len(models.Data) != 1 || models.Data[0].ID != "chat" {
		t.Errorf("models %+v, %v, want chat alone", models, err)
	}
	wrong := key.Prefix + "_" + strings.Repeat("x", len(key.Text)-len(key.Prefix)-1)
	_, err = new(client(g, option.WithAPIKey(wrong))).Chat.Completions.New(t.Context(), question())
	var refused *openai.Error
	if !errors.As(err, &refused) || refused.StatusCode != http.StatusUnauthorized || refused.Code != "invalid_api_key" {
		t.Errorf("a wrong key: %v, want 401 invalid_api_key", err)
	}
	if upstream.Calls() != 1 {
		t.Errorf("the upstream has %d calls, want 1", upstream.Calls())
	}
}
