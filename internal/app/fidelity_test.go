package app_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

// Whatever a client and a server of the same dialect say to each other passes
// byte for byte: unknown fields, white space, escapes, the form of numbers. Only
// the model is replaced, and usage is asked for.
func TestUnknownFieldsSurviveBothWays(t *testing.T) {
	t.Parallel()
	var server script
	a := apptest.NewUpstream(t, server.answer)
	g := apptest.Start(t, apptest.OneTarget(a, "circuit_breaker: {enabled: false}")) // or one mistake would hide the next

	rapid.Check(t, func(t *rapid.T) {
		stream := rapid.Bool().Draw(t, "stream")
		body, sent := drawRequest(t, stream)
		server.says(drawAnswer(t, stream))

		answer, err := g.TryPost(t.Context(), body)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Status != http.StatusOK || answer.Body != server.body {
			t.Errorf("status %d, answer:\n%q\nwant:\n%q", answer.Status, answer.Body, server.body)
		}
		if server.got != sent {
			t.Errorf("the upstream got:\n%q\nwant:\n%q", server.got, sent)
		}
	})
}

// script is a server that says what the test last set.
type script struct {
	mu                     sync.Mutex
	contentType, body, got string
}

func (s *script) says(contentType, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.contentType, s.body = contentType, body
}

func (s *script) answer(w http.ResponseWriter, r *http.Request, _ int) {
	got, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = string(got)
	w.Header().Set("Content-Type", s.contentType)
	_, _ = io.WriteString(w, s.body)
}

// drawRequest returns a request as a client sends it and as the upstream has to
// get it.
func drawRequest(t *rapid.T, stream bool) (body, sent string) {
	const model, options = "\x00", "\x01" // where the gateway changes something
	members := []string{`"model"` + space(t) + ":" + space(t) + model, `"messages":` + space(t) + drawMessages(t)}
	members = append(members, drawMembers(t, 2)...)
	if stream {
		members = append(members, `"stream":true`)
	}
	given := rapid.SampledFrom([]string{`"chat"`, `"ch\u0061t"`, `"\u0063hat"`}).Draw(t, "model")
	asked, asking := "", `,"stream_options":{"include_usage":true}`
	if stream && rapid.Bool().Draw(t, "stream_options") {
		members = append(members, `"stream_options":`+options)
		rest := strings.Join(drawMembers(t, 1), ",")
		asked, asking = `{`+rest+`}`, `{"include_usage":true`
		if rest != "" {
			asking += "," + rest
		}
		asking += "}"
	}
	text := space(t) + "{" + strings.Join(rapid.Permutation(members).Draw(t, "order"), space(t)+",") + "}" + space(t)
	body = strings.NewReplacer(model, given, options, asked).Replace(text)
	switch {
	case asked != "":
		sent = strings.NewReplacer(model, `"m1"`, options, asking).Replace(text)
	case stream:
		sent = strings.NewReplacer(model, `"m1"`+asking).Replace(text)
	default:
		sent = strings.NewReplacer(model, `"m1"`).Replace(text)
	}
	return body, sent
}

func drawMessages(t *rapid.T) string {
	var messages []string
	for range rapid.IntRange(0, 3).Draw(t, "messages") {
		members := append([]string{`"role":"user"`, `"content":` + drawText(t)}, drawMembers(t, 1)...)
		messages = append(messages, "{"+strings.Join(members, ",")+"}")
	}
	return "[" + strings.Join(messages, space(t)+",") + "]"
}

// drawAnswer returns a whole answer or a stream with fields that nobody knows.
func drawAnswer(t *rapid.T, stream bool) (contentType, body string) {
	object := func(members ...string) string {
		return "{" + strings.Join(append(members, drawMembers(t, 2)...), space(t)+",") + "}"
	}
	if !stream {
		message := object(`"role":"assistant"`, `"content":`+drawText(t))
		return "application/json", space(t) + object(`"choices":[`+object(`"message":`+message, `"finish_reason":"stop"`)+`]`) + space(t)
	}
	var events strings.Builder
	for range rapid.IntRange(1, 4).Draw(t, "events") {
		delta := object(`"content":` + drawText(t))
		chunk := object(`"choices":[` + object(`"delta":`+delta, `"finish_reason":null`) + `]`)
		events.WriteString("data: " + oneLine.Replace(chunk) + "\n\n")
	}
	events.WriteString(apptest.FinishChunk + apptest.Done)
	return "text/event-stream", events.String()
}

// oneLine keeps white space within one line of an event stream.
var oneLine = strings.NewReplacer("\r", " ", "\n", " ")

// drawMembers returns members of an object under names that nobody knows.
func drawMembers(t *rapid.T, depth int) []string {
	var members []string
	for i := range rapid.IntRange(0, 3).Draw(t, "members") {
		members = append(members, fmt.Sprintf(`"x_%d"%s:%s%s`, i, space(t), space(t), drawValue(t, depth)))
	}
	return members
}

func drawValue(t *rapid.T, depth int) string {
	kinds := []string{"text", "number", "word"}
	if depth > 0 {
		kinds = append(kinds, "list", "object")
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "text":
		return drawText(t)
	case "number":
		return rapid.SampledFrom([]string{"0", "-0", "1.50", "1E5", "1e-400", "12345678901234567890", "0.1000000000000000055"}).Draw(t, "number")
	case "list":
		return "[" + drawValue(t, depth-1) + space(t) + "," + drawValue(t, depth-1) + "]"
	case "object":
		return "{" + strings.Join(drawMembers(t, depth-1), ",") + "}"
	default:
		return rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "word")
	}
}

// drawText returns a JSON string in one of the ways in which it can be written.
func drawText(t *rapid.T) string {
	pieces := rapid.SliceOfN(rapid.SampledFrom([]string{
		"a", "é", `\u00e9`, "你", `\/`, "/", `\n`, `\"`, `\\`, `\ud83d\ude00`, `\ud83d`, "😀", "<", `\u2028`, "\u2028", "1e999", "{", "]", "data: ",
	}), 1, 6).Draw(t, "text")
	return `"` + strings.Join(pieces, "") + `"`
}

// space returns white space that means nothing.
func space(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", " ", "\n", "\t", "\r\n  "}).Draw(t, "space")
}

// What parsers behind the gateway could read in two ways, or not at all, never
// gets there.
func TestWhatIsReadInTwoWaysIsRefused(t *testing.T) {
	t.Parallel()
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a))
	bodies := map[string]string{
		"a key twice":         `{"model":"chat","messages":[],"temperature":0,"temperature":1}`,
		"an escaped key":      `{"model":"chat","messages":[],"m\u006fdel":"other"}`,
		"a key in a message":  `{"model":"chat","messages":[{"role":"user","content":"a","content":"b"}]}`,
		"deep nesting":        `{"model":"chat","messages":[],"x":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`,
		"a number too large":  `{"model":"chat","messages":[],"seed":1e999}`,
		"a number too long":   `{"model":"chat","messages":[],"seed":` + strings.Repeat("9", 100_000) + `}`,
		"invalid UTF-8":       "{\"model\":\"chat\",\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}",
		"an overlong slash":   "{\"model\":\"chat\",\"messages\":[],\"x\":\"\xc0\xaf\"}",
		"half a surrogate":    `{"model":"chat","messages":[],"\ud800":"x"}`,
		"a second value":      `{"model":"chat","messages":[]}{"model":"other"}`,
		"a byte order mark":   "\ufeff" + `{"model":"chat","messages":[]}`,
		"a comment":           `{"model":"chat",/* */"messages":[]}`,
		"a trailing comma":    `{"model":"chat","messages":[],}`,
		"a number of its own": `{"model":"chat","messages":[],"x":NaN}`,
	}
	for name, body := range bodies {
		answer := g.Post(t, body)
		if answer.Status != http.StatusBadRequest || answer.Error(t).Code != "invalid_json" {
			t.Errorf("%s: status %d, %s", name, answer.Status, answer.Body)
		}
	}
	if got := a.Calls(); got != 0 {
		t.Errorf("%d calls reached the upstream", got)
	}
}
