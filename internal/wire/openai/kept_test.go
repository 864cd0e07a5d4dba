package openai_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

// CF-K6: what does not change the answer does not change the key.
func TestCanonicalOfRequestsThatAskForTheSame(t *testing.T) {
	t.Parallel()
	const base = `{"model":"chat","messages":[{"role":"user","content":"Äh\n?"}],"temperature":0.5,"seed":7}`
	same := map[string]string{
		"order and white space": ` { "seed" : 7, "temperature":0.5 ,"messages":[ {"content":"Äh\n?","role":"user"} ],"model":"chat"}`,
		"escapes":               `{"model":"chat","messages":[{"r\u006fle":"us\u0065r","content":"\u00c4h\u000a?"}],"temperature":0.5,"seed":7}`,
		"spelling of a number":  `{"model":"chat","messages":[{"role":"user","content":"Äh\n?"}],"temperature":5.00e-1,"seed":7}`,
		"another model":         `{"model":"other","messages":[{"role":"user","content":"Äh\n?"}],"temperature":0.5,"seed":7}`,
		"stream and user":       `{"model":"chat","stream":true,"stream_options":{"include_usage":true},"user":"u1","metadata":{"a":"b"},"messages":[{"role":"user","content":"Äh\n?"}],"temperature":0.5,"seed":7}`,
	}
	want, ok := openai.Codec{}.Canonical([]byte(base))
	if !ok {
		t.Fatal("no canonical body")
	}
	for name, body := range same {
		got, ok := openai.Codec{}.Canonical([]byte(body))
		if diff := cmp.Diff(string(want), string(got)); !ok || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, ok, diff)
		}
	}
}

// CAC-01: every field counts that may change the answer.
func TestCanonicalOfRequestsThatAskForSomethingElse(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, extra := range []string{
		``, `"temperature":0`, `"temperature":0.1`, `"top_p":0.5`, `"max_tokens":5`, `"max_completion_tokens":5`, `"n":2`, `"stop":"x"`, `"stop":["x"]`,
		`"seed":9007199254740992`, `"seed":9007199254740993`, `"seed":null`, `"response_format":{"type":"json_object"}`, `"tools":[]`, `"tools":[{}]`,
		`"tool_choice":"none"`, `"logit_bias":{"50256":-100}`, `"reasoning_effort":"low"`, `"logprobs":true`, `"presence_penalty":1`,
		`"nested":{"user":"counts below"}`, `"nested":{"model":"x"}`, `"unknown":1`, `"User":"another field"`, `"safety_identifier":"x"`,
	} {
		body := `{"model":"chat","messages":[{"role":"user","content":"hi"}]`
		if extra != "" {
			body += "," + extra
		}
		got, ok := openai.Codec{}.Canonical([]byte(body + "}"))
		if other, twice := seen[string(got)]; twice || !ok {
			t.Errorf("%q is the same as %q (%v): %s", extra, other, ok, got)
		}
		seen[string(got)] = extra
	}
}

func TestNoCanonicalOfHalfACharacter(t *testing.T) {
	t.Parallel()
	if got, ok := (openai.Codec{}).Canonical([]byte(`{"messages":[{"content":"\ud83d"}]}`)); ok {
		t.Errorf("got %s: two different halves would be the same", got)
	}
}

const (
	plainAnswer = `{"id":"c1","object":"chat.completion","created":7,"model":"m1","system_fingerprint":"f","choices":[{"index":0,"message":{"role":"assistant","content":"Low \u00e4t \"noon\"."},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}`
	richAnswer  = `{"id":"c1","object":"chat.completion","created":7,"model":"m1","service_tier":"default","citations":["a"],"choices":[` +
		`{"index":0,"message":{"role":"assistant","content":null,"reasoning":"hm","tool_calls":[{"id":"t1","type":"function","function":{"name":"tide","arguments":"{\"at\":1}"}},{"id":"t2","type":"function","function":{"name":"wind","arguments":""}}]},"finish_reason":"tool_calls"},` +
		`{"index":1,"message":{"role":"assistant","content":"x","refusal":"no"},"logprobs":{"content":[{"token":"x","logprob":-1}],"refusal":null},"finish_reason":"length","native_finish_reason":"max"}],"usage":{"prompt_tokens":10,"completion_tokens":2}}`
)

// An answer that became a stream says what it said.
func TestEventsAndBack(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"plain": plainAnswer, "rich": richAnswer} {
		events, ok := openai.Codec{}.Events([]byte(body), true)
		if !ok {
			t.Fatalf("%s: no events", name)
		}
		back, ok := openai.Codec{}.Whole(events, llm.Usage{})
		if diff := cmp.Diff(meaning(t, []byte(body)), meaning(t, back)); !ok || diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestEventsTellUsageOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	events, _ := openai.Codec{}.Events([]byte(plainAnswer), false)
	want := []string{
		`{"id":"c1","created":7,"model":"m1","system_fingerprint":"f","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
		`{"id":"c1","created":7,"model":"m1","system_fingerprint":"f","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Low \u00e4t \"noon\"."},"finish_reason":null}]}`,
		`{"id":"c1","created":7,"model":"m1","system_fingerprint":"f","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
		`[DONE]`,
	}
	var got []string
	for _, event := range events {
		got = append(got, string(payload(event)))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestNoEventsOfWhatAStreamCannotSay(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"parts":      `{"choices":[{"index":0,"message":{"content":[{"type":"text","text":"x"}]},"finish_reason":"stop"}]}`,
		"no choice":  `{"choices":[]}`,
		"no index":   `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`,
		"no message": `{"choices":[{"index":0,"text":"x"}]}`,
		"no answer":  `[]`,
		"twice":      `{"choices":[{"index":0,"message":{"content":"x","content":"y"},"finish_reason":"stop"}]}`,
	} {
		if events, ok := (openai.Codec{}).Events([]byte(body), false); ok {
			t.Errorf("%s: got %s", name, events)
		}
	}
}

func TestWholeJoinsPieces(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ events, want string }{
		"text, cut inside an escape": {
			`{"id":"c1","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"obfuscation":"a"}` + "\n" +
				`{"id":"c1","created":2,"choices":[{"index":0,"delta":{"content":"\ud83d"},"finish_reason":null}],"obfuscation":"bc"}` + "\n" +
				`{"id":"c1","created":2,"choices":[{"index":0,"delta":{"content":"\ude00"}}]}` + "\n" +
				`{"id":"c1","created":2,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			`{"id":"c1","created":1,"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"😀"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`,
		},
		"calls": {
			`{"choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"t","type":"function","function":{"name":"tide","arguments":""}}]}}]}` + "\n" +
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a"}}]}}]}` + "\n" +
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\":1}"}},{"index":1,"id":"u","type":"function","function":{"name":"wind","arguments":"{}"}}]}}]}` + "\n" +
				`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1}}`,
			`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"tide","arguments":"{\"a\":1}"}},{"id":"u","type":"function","function":{"name":"wind","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1}}`,
		},
		"logprobs and two choices": {
			`{"choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"token":"a"}],"refusal":null}},{"index":1,"delta":{"content":"z"}}]}` + "\n" +
				`{"choices":[{"index":0,"delta":{"content":"b"},"logprobs":{"content":[{"token":"b"}]}}]}` + "\n" +
				`{"choices":[{"index":1,"delta":{},"finish_reason":"length"},{"index":0,"delta":{"reasoning":"r"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`,
			`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"ab","reasoning":"r"},"logprobs":{"content":[{"token":"a"},{"token":"b"}]},"finish_reason":"stop"},{"index":1,"message":{"role":"assistant","content":"z"},"finish_reason":"length"}],"usage":{"prompt_tokens":1}}`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := openai.Codec{}.Whole(stream(tc.events+"\n[DONE]"), llm.Usage{Input: llm.Tokens(3), Output: llm.Tokens(4)})
			if !ok {
				t.Fatal("not put together")
			}
			if diff := cmp.Diff(meaning(t, []byte(tc.want)), meaning(t, got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// END-01 among them: what is cut off is no answer.
func TestWholeRefusesWhatItIsNotSureOf(t *testing.T) {
	t.Parallel()
	const end = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n[DONE]"
	for name, events := range map[string]string{
		"no end mark":               strings.TrimSuffix(end, "\n[DONE]"),
		"no finish reason":          `{"choices":[{"index":0,"delta":{"content":"x"}}]}` + "\n[DONE]",
		"one of two without an end": `{"choices":[{"index":0,"delta":{"content":"x"}},{"index":1,"delta":{"content":"x"}}]}` + "\n" + end,
		"an error inside":           `{"error":{"message":"x"}}` + "\n" + end,
		"behind the end":            end + "\n" + `{"choices":[]}`,
		"parts":                     `{"choices":[{"index":0,"delta":{"content":[]}}]}` + "\n" + end,
		"pieces of unknown meaning": `{"choices":[{"index":0,"delta":{"odd":"x"}}]}` + "\n" + `{"choices":[{"index":0,"delta":{"odd":"x"}}]}` + "\n" + end,
		"two names of one call":     `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"a"}}]}}]}` + "\n" + `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"a"}}]}}]}` + "\n" + end,
		"a call without an index":   `{"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"name":"a"}}]}}]}` + "\n" + end,
		"two finish reasons":        `{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}` + "\n" + end,
		"no JSON":                   "x\n" + end,
		"nothing":                   "[DONE]",
	} {
		if got, ok := (openai.Codec{}).Whole(stream(events), llm.Usage{}); ok {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// Streams that real servers have sent are put together, and come out as streams
// with the same text.
func TestWholeOfRealStreams(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("testdata/*.sse")
	whole := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		body, ok := openai.Codec{}.Whole([][]byte{text}, llm.Usage{})
		if !ok {
			continue
		}
		whole++
		if _, err := openai.ReadCompletion(body); err != nil {
			t.Errorf("%s: %v in %s", file, err, body)
		}
		events, ok := openai.Codec{}.Events(body, true)
		if !ok {
			t.Errorf("%s: no stream of %s", file, body)
		}
		if got, want := textOfAll(t, events), textOfAll(t, stream(strings.Join(dataLines(text), "\n"))); got != want {
			t.Errorf("%s: %d bytes of text, want %d", file, got, want)
		}
	}
	if whole < 5 {
		t.Errorf("%d of %d streams were put together, want most of those that end well", whole, len(files))
	}
	t.Logf("%d of %d streams", whole, len(files))
}

func TestAnswered(t *testing.T) {
	t.Parallel()
	choice := func(message, finish string) string {
		return `{"choices":[{"index":0,"message":` + message + `,"finish_reason":` + finish + `}]}`
	}
	tests := map[string]struct {
		body string
		want llm.Answered
	}{
		"text":               {plainAnswer, llm.Answered{Complete: true}},
		"calls":              {richAnswer, llm.Answered{Complete: true, ToolCalls: true, CutShort: true}},
		"an older call":      {choice(`{"content":null,"function_call":{"name":"f"}}`, `"function_call"`), llm.Answered{Complete: true, ToolCalls: true}},
		"out of tokens":      {choice(`{"content":"x"}`, `"length"`), llm.Answered{Complete: true, CutShort: true}},
		"a refusal":          {choice(`{"content":null,"refusal":"no"}`, `"stop"`), llm.Answered{Complete: true}},
		"empty":              {choice(`{"content":""}`, `"stop"`), llm.Answered{}},
		"reasoning alone":    {choice(`{"content":null,"reasoning":"hm"}`, `"length"`), llm.Answered{CutShort: true}},
		"no content":         {choice(`{}`, `"stop"`), llm.Answered{}},
		"filtered":           {choice(`{"content":"x"}`, `"content_filter"`), llm.Answered{}},
		"not finished":       {choice(`{"content":"x"}`, `null`), llm.Answered{}},
		"an error beside it": {`{"error":{"message":"x"},` + choice(`{"content":"x"}`, `"stop"`)[1:], llm.Answered{}},
		"no answer":          {`{"choices":[]}`, llm.Answered{}},
		"no JSON":            {`x`, llm.Answered{}},
	}
	for name, tc := range tests {
		if diff := cmp.Diff(tc.want, openai.Codec{}.Answered([]byte(tc.body))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestMessageIsAWholeAnswer(t *testing.T) {
	t.Parallel()
	body := openai.Codec{}.Degraded(openai.Codec{}.Message("chat", "We are \"away\".\n", time.Unix(1700000000, 0)))
	if _, err := openai.ReadCompletion(body); err != nil {
		t.Fatal(err)
	}
	if got := openai.ReadReply(body); got.Text != "We are \"away\".\n" || !strings.Contains(string(body), `"ai_degraded":true`) || !strings.Contains(string(body), `"created":1700000000,"model":"chat"`) {
		t.Errorf("got %s", body)
	}
	events, ok := openai.Codec{}.Events(body, false)
	if !ok || len(events) != 4 || !bytes.Contains(events[0], []byte(`"ai_degraded":true`)) || bytes.Contains(events[1], []byte("ai_degraded")) {
		t.Errorf("events %s", events)
	}
}

// Whatever has one canonical body is the same to a JSON parser, but for what is
// left out; and a canonical body is its own.
func FuzzCanonical(f *testing.F) {
	f.Add(request(10))
	f.Add([]byte(`{"model":"m","messages":[],"n":1e2,"x":-0.0,"y":9007199254740993}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := openai.ReadFacts(body); err != nil {
			return
		}
		original := bytes.Clone(body)
		once, ok := openai.Codec{}.Canonical(body)
		if !bytes.Equal(original, body) {
			t.Fatal("the body itself has changed")
		}
		if !ok {
			return
		}
		twice, ok := openai.Codec{}.Canonical(once)
		if !ok || !bytes.Equal(once, twice) {
			t.Fatalf("%s becomes %s", once, twice)
		}
		var all map[string]any
		if err := json.Unmarshal(body, &all); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		for _, name := range []string{"model", "stream", "stream_options", "user", "metadata"} {
			delete(all, name)
		}
		var left map[string]any
		if err := json.Unmarshal(once, &left); err != nil {
			t.Fatalf("%s: %v", once, err)
		}
		if diff := cmp.Diff(all, left); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// Any answer that becomes a stream becomes the same answer again.
func FuzzEventsAndBack(f *testing.F) {
	f.Add([]byte(plainAnswer))
	f.Add([]byte(richAnswer))
	f.Fuzz(func(t *testing.T, body []byte) {
		if !(openai.Codec{}).Answered(body).Complete {
			return
		}
		events, ok := openai.Codec{}.Events(body, true)
		if !ok {
			return
		}
		for _, event := range events {
			var chunk openai.Chunk
			if err := chunk.Read(payload(event)); err != nil {
				t.Fatalf("%s: %v", event, err)
			}
		}
		back, ok := openai.Codec{}.Whole(events, llm.Usage{})
		if !ok {
			return
		}
		again, ok := openai.Codec{}.Events(back, true)
		if !ok || textOfAll(t, events) != textOfAll(t, again) {
			t.Fatalf("%s became %s", body, back)
		}
	})
}

func FuzzWhole(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		body, ok := openai.Codec{}.Whole([][]byte{text}, llm.Usage{})
		if !ok {
			return
		}
		if !jsontext.Value(body).IsValid(jsontext.AllowInvalidUTF8(true)) {
			t.Fatalf("%s is no JSON", body)
		}
		if _, ok := (openai.Codec{}).Events(body, false); !ok && (openai.Codec{}).Answered(body).Complete {
			t.Fatalf("no stream of %s", body)
		}
	})
}

func BenchmarkCanonical(b *testing.B) {
	for name, size := range map[string]int{"1KiB": 1 << 10, "100KiB": 100 << 10} {
		body := request(size)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				openai.Codec{}.Canonical(body)
			}
		})
	}
}

func BenchmarkEvents(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		openai.Codec{}.Events([]byte(plainAnswer), false)
	}
}

func BenchmarkWhole(b *testing.B) {
	var events [][]byte
	for range 500 {
		events = append(events, []byte(`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"token "},"finish_reason":null}]}`+"\n\n"))
	}
	events = append(events, stream(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n[DONE]")...)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := (openai.Codec{}).Whole(events, llm.Usage{}); !ok {
			b.Fatal("not put together")
		}
	}
}

// stream makes an event of each line.
func stream(lines string) (events [][]byte) {
	for line := range strings.SplitSeq(lines, "\n") {
		events = append(events, []byte("data: "+line+"\n\n"))
	}
	return events
}

func payload(event []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimPrefix(event, []byte("data: ")), []byte("\n\n"))
}

// dataLines returns the data lines of a stream.
func dataLines(text []byte) (lines []string) {
	for line := range strings.Lines(string(text)) {
		if data, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "data:"); ok {
			lines = append(lines, strings.TrimSpace(data))
		}
	}
	return lines
}

func textOfAll(t *testing.T, events [][]byte) (n int) {
	t.Helper()
	for _, event := range events {
		var chunk openai.Chunk
		if err := chunk.Read(payload(event)); err != nil {
			t.Fatalf("%s: %v", event, err)
		}
		n += chunk.TextBytes
	}
	return n
}

// meaning decodes an answer, less what is null or an empty text: streams do not
// say the one, and begin with the other.
func meaning(t *testing.T, body []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return said(v)
}

func said(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if v[name] = said(value); v[name] == nil {
				delete(v, name)
			}
		}
	case []any:
		for i := range v {
			v[i] = said(v[i])
		}
		return slices.Clip(v)
	}
	return v
}
