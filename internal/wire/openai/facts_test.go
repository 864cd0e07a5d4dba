package openai_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

func TestReadFacts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body string
		want llm.Facts
	}{
		"the least": {
			body: `{"model":"chat","messages":[]}`,
			want: llm.Facts{Model: "chat", ModelSpan: llm.Span{Start: 9, End: 15}},
		},
		"white space and unknown fields": {
			body: " {\n \"x\": [1e300, {\"model\": \"no\"}],\n \"messages\": [] , \"model\" : \"chat\" } \n",
			want: llm.Facts{Model: "chat", ModelSpan: llm.Span{Start: 63, End: 69}},
		},
		"escaped names and values": {
			body: `{"mod\u0065l":"ch\u0061t","messages":[]}`,
			want: llm.Facts{Model: "chat", ModelSpan: llm.Span{Start: 14, End: 25}},
		},
		"stream with usage": {
			body: `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[]}`,
			want: llm.Facts{
				Model: "m", Stream: true, IncludeUsage: true,
				ModelSpan: llm.Span{Start: 9, End: 12}, StreamOptionsSpan: llm.Span{Start: 44, End: 66},
			},
		},
		"nulls": {
			body: `{"model":"m","stream":null,"stream_options":null,"max_tokens":null,"messages":[{"content":null}]}`,
			want: llm.Facts{Model: "m", ModelSpan: llm.Span{Start: 9, End: 12}, StreamOptionsSpan: llm.Span{Start: 44, End: 48}, MaxTokensSpan: llm.Span{Start: 62, End: 66}},
		},
		"text of messages": {
			body: `{"model":"m","messages":[{"role":"user","content":"hällo"},{"role":"user","content":[{"type":"text","text":"abc"},{"type":"image_url","image_url":{"url":"data:xxxx"}}]}]}`,
			want: llm.Facts{Model: "m", TextBytes: 9, Media: 1, MediaBytes: len(`{"url":"data:xxxx"}`), ModelSpan: llm.Span{Start: 9, End: 12}},
		},
		"images, sounds and files": {
			body: `{"model":"m","messages":[{"audio":{"id":"a"},"content":[{"input_audio":{"data":"xx"}},{"file":{"file_id":"f"}},{"image_url":"http://x"},{"image_url":null}]}]}`,
			want: llm.Facts{Model: "m", Media: 3, Files: 1, MediaBytes: len(`{"id":"a"}{"data":"xx"}{"file_id":"f"}"http://x"`), ModelSpan: llm.Span{Start: 9, End: 12}},
		},
		"tools and the shape of the answer": {
			body: `{"model":"m","tools":[{"type":"function"}],"messages":[], "functions": [] ,"response_format":{"type":"text"}}`,
			want: llm.Facts{Model: "m", ToolBytes: len(`[{"type":"function"}][]{"type":"text"}`), ModelSpan: llm.Span{Start: 9, End: 12}},
		},
		"several answers": {
			body: `{"model":"m","messages":[],"n":3}`,
			want: llm.Facts{Model: "m", Choices: 3, ModelSpan: llm.Span{Start: 9, End: 12}},
		},
		"a number of answers of none": {
			body: `{"model":"m","messages":[],"n":null}`,
			want: llm.Facts{Model: "m", ModelSpan: llm.Span{Start: 9, End: 12}},
		},
		"text of tool calls": {
			body: `{"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"tide","arguments":"{\"a\":1}"}}]}]}`,
			want: llm.Facts{Model: "m", TextBytes: 11, ModelSpan: llm.Span{Start: 9, End: 12}},
		},
		"escaped text": {
			body: `{"model":"m","messages":[{"content":"a\n\u0061\u00e4\u4f60\ud83d\ude00"}]}`,
			want: llm.Facts{Model: "m", TextBytes: 1 + 1 + 1 + 2 + 3 + 4, ModelSpan: llm.Span{Start: 9, End: 12}},
		},
		"text that was cut in two": {
			body: `{"model":"m","messages":[{"content":"a\ud83d"},{"content":"\ude00\ude00"}]}`,
			want: llm.Facts{Model: "m", TextBytes: 1 + 2 + 2 + 2, ModelSpan: llm.Span{Start: 9, End: 12}},
		},
		"output limit": {body: `{"model":"m","messages":[],"max_tokens":12}`, want: limited(12, llm.Span{Start: 40, End: 42})},
		"the newer limit": {
			body: `{"model":"m","messages":[],"max_completion_tokens":7,"max_tokens":12}`,
			want: llm.Facts{
				Model: "m", MaxOutput: 7, MostOutput: 12, ModelSpan: llm.Span{Start: 9, End: 12},
				MaxCompletionSpan: llm.Span{Start: 51, End: 52}, MaxTokensSpan: llm.Span{Start: 66, End: 68},
			},
		},
		"whole float limit": {body: `{"model":"m","messages":[],"max_tokens":12.0}`, want: limited(12, llm.Span{Start: 40, End: 44})},
		"limit of none":     {body: `{"model":"m","messages":[],"max_tokens":-1}`, want: limited(0, llm.Span{Start: 40, End: 42})},
		"as deep as allowed": {
			body: `{"model":"m","messages":[],"x":` + strings.Repeat("[", 127) + strings.Repeat("]", 127) + `}`,
			want: plainFacts(),
		},
		"numbers as large as allowed": {
			body: `{"model":"m","messages":[],"x":[1.7e308,-1E-400,` + strings.Repeat("9", 308) + `,0.` + strings.Repeat("3", 390) + `]}`,
			want: plainFacts(),
		},
		"large numbers in text": {
			body: `{"model":"m","messages":[],"x":"1e999 \"1e999"}`,
			want: plainFacts(),
		},
		"brackets in text": {
			body: `{"model":"m","messages":[{"content":"` + strings.Repeat(`{[\"`, 200) + `"}]}`,
			want: llm.Facts{Model: "m", TextBytes: 600, ModelSpan: llm.Span{Start: 9, End: 12}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := openai.ReadFacts([]byte(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}

func plainFacts() llm.Facts { return llm.Facts{Model: "m", ModelSpan: llm.Span{Start: 9, End: 12}} }

// limited are the facts of a request with max_tokens.
func limited(maxOutput int, at llm.Span) llm.Facts {
	f := plainFacts()
	f.MaxOutput, f.MostOutput, f.MaxTokensSpan = maxOutput, maxOutput, at
	return f
}

func TestReadFactsRefuses(t *testing.T) {
	t.Parallel()
	nested := strings.Repeat("[", 128) + strings.Repeat("]", 128)
	tests := map[string]struct{ body, code, param string }{
		"nothing":                 {"", openai.CodeInvalidJSON, ""},
		"no JSON":                 {`{"model": "m1", messages: [`, openai.CodeInvalidJSON, ""}, // FAL-09
		"cut JSON":                {`{"model":"m","messages":[{"content":"a`, openai.CodeInvalidJSON, ""},
		"cut after a name":        {`{"model"`, openai.CodeInvalidJSON, ""},
		"something after":         {`{"model":"m","messages":[]} x`, openai.CodeInvalidJSON, ""},
		"a duplicate key":         {`{"model":"m","messages":[],"model":"n"}`, openai.CodeInvalidJSON, "model"},
		"an escaped duplicate":    {`{"model":"m","messages":[],"mod\u0065l":"n"}`, openai.CodeInvalidJSON, "model"},
		"a duplicate deep down":   {`{"model":"m","messages":[{"content":"a","content":"b"}]}`, openai.CodeInvalidJSON, "messages.0.content"},
		"a duplicate elsewhere":   {`{"model":"m","messages":[],"x":{"y":1,"y":2}}`, openai.CodeInvalidJSON, "x.y"},
		"deep nesting":            {`{"model":"m","messages":[],"x":` + nested + `}`, openai.CodeInvalidJSON, ""},
		"a number too large":      {`{"model":"m","messages":[],"x":[1,-1e309]}`, openai.CodeInvalidJSON, ""},
		"a number too long":       {`{"model":"m","messages":[],"x":1` + strings.Repeat("0", 400) + `}`, openai.CodeInvalidJSON, ""},
		"no number":               {`{"model":"m","messages":[],"x":1e}`, openai.CodeInvalidJSON, ""},
		"invalid UTF-8":           {"{\"model\":\"m\",\"messages\":[],\"x\":\"\xff\"}", openai.CodeInvalidJSON, ""},
		"half a surrogate pair":   {`{"model":"m","messages":[],"\ud800":"x"}`, openai.CodeInvalidJSON, ""},
		"a duplicate behind it":   {`{"model":"m","messages":[],"x":"\ud800","y":1,"y":2}`, openai.CodeInvalidJSON, "y"},
		"an array":                {`[]`, openai.CodeInvalidValue, ""},
		"no model":                {`{"messages":[]}`, openai.CodeInvalidValue, "model"},
		"model a number":          {`{"model":1,"messages":[]}`, openai.CodeInvalidValue, "model"},
		"model empty":             {`{"model":"","messages":[]}`, openai.CodeInvalidValue, "model"},
		"no messages":             {`{"model":"m"}`, openai.CodeInvalidValue, "messages"},
		"messages a string":       {`{"model":"m","messages":"hi"}`, openai.CodeInvalidValue, "messages"},
		"message a string":        {`{"model":"m","messages":[{},"hi"]}`, openai.CodeInvalidValue, "messages[1]"},
		"content a number":        {`{"model":"m","messages":[{"content":1}]}`, openai.CodeInvalidValue, "messages[0].content"},
		"stream a string":         {`{"model":"m","messages":[],"stream":"yes"}`, openai.CodeInvalidValue, "stream"},
		"options a list":          {`{"model":"m","messages":[],"stream_options":[]}`, openai.CodeInvalidValue, "stream_options"},
		"include_usage a word":    {`{"model":"m","messages":[],"stream_options":{"include_usage":"x"}}`, openai.CodeInvalidValue, "stream_options.include_usage"},
		"a second model":          {`{"model":"m","messages":[],"Model":"n"}`, openai.CodeInvalidValue, "Model"},
		"a second usage":          {`{"model":"m","messages":[],"stream_options":{"Include_usage":true}}`, openai.CodeInvalidValue, "stream_options.Include_usage"},
		"a second stream":         {`{"model":"m","messages":[],"\u017ftream":true}`, openai.CodeInvalidValue, "\u017ftream"},
		"limit a string":          {`{"model":"m","messages":[],"max_tokens":"9"}`, openai.CodeInvalidValue, "max_tokens"},
		"limit a fraction":        {`{"model":"m","messages":[],"max_tokens":1.5}`, openai.CodeInvalidValue, "max_tokens"},
		"answers a word":          {`{"model":"m","messages":[],"n":"2"}`, openai.CodeInvalidValue, "n"},
		"answers in another case": {`{"model":"m","messages":[],"N":2}`, openai.CodeInvalidValue, "N"},
		"limit out of reach":      {`{"model":"m","messages":[],"max_completion_tokens":1e300}`, openai.CodeInvalidValue, "max_completion_tokens"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := openai.ReadFacts([]byte(tt.body))
			var got *openai.RequestError
			if !errors.As(err, &got) {
				t.Fatalf("error %v, want a RequestError", err)
			}
			if got.Code != tt.code || got.Param != tt.param || got.Message == "" {
				t.Errorf("got code %q, param %q, message %q; want %q, %q", got.Code, got.Param, got.Message, tt.code, tt.param)
			}
		})
	}
}

// request returns a chat request with about n bytes of text.
func request(n int) []byte {
	text := strings.Repeat("Tell me about the harbour. ", n/27+1)
	return []byte(`{"model":"chat","stream":true,"temperature":0.2,"messages":[{"role":"system","content":"You are terse."},{"role":"user","content":"` +
		text + `"}],"tools":[{"type":"function","function":{"name":"get_tide","parameters":{"type":"object","properties":{"harbour":{"type":"string"}}}}}]}`)
}

func BenchmarkReadFacts(b *testing.B) {
	for name, size := range map[string]int{"1KiB": 1 << 10, "100KiB": 100 << 10} {
		body := request(size)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if _, err := openai.ReadFacts(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func FuzzReadFacts(f *testing.F) {
	f.Add(request(100))
	f.Add([]byte(`{"model":"m","messages":[{"content":[{"text":"\ud83d\ude00"}]}],"stream_options":{"include_usage":false}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := openai.ReadFacts(body)
		if err != nil {
			var refused *openai.RequestError
			if !errors.As(err, &refused) || refused.Message == "" {
				t.Fatalf("error %#v, want a RequestError with a message", err)
			}
			return
		}
		want := decode(t, body)
		if got.Model != want["model"] || (want["stream"] == true) != got.Stream {
			t.Fatalf("got model %q, stream %v of %s", got.Model, got.Stream, body)
		}
		if got.TextBytes < 0 || got.TextBytes > len(body) {
			t.Fatalf("%d bytes of text in %d bytes", got.TextBytes, len(body))
		}
	})
}

// FuzzTextBytes: text is counted as its own bytes, however it is escaped.
func FuzzTextBytes(f *testing.F) {
	f.Add("hällo <你> \u2028 😀 \n\x00\"\\")
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "")
		var escaped strings.Builder
		for _, unit := range utf16.Encode([]rune(text)) {
			fmt.Fprintf(&escaped, `\u%04X`, unit)
		}
		for _, encoded := range []string{quote(t, text), `"` + escaped.String() + `"`} {
			facts, err := openai.ReadFacts([]byte(`{"model":"m","messages":[{"content":` + encoded + `}]}`))
			if err != nil {
				t.Fatal(err)
			}
			if facts.TextBytes != len(text) {
				t.Fatalf("%s holds %d bytes of text, want %d", encoded, facts.TextBytes, len(text))
			}
		}
	})
}
