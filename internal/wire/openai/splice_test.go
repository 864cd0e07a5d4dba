package openai_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

func TestSplice(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ body, want string }{
		"model only": {
			`{ "messages":[], "model" : "chat" , "x":1.50 }`,
			`{ "messages":[], "model" : "gpt-x" , "x":1.50 }`,
		},
		"the same model": {
			`{"model":"gpt-x","messages":[]}`,
			`{"model":"gpt-x","messages":[]}`,
		},
		"usage asked for (SSE-11)": {
			`{"model":"chat","messages":[],"stream":true}`,
			`{"model":"gpt-x","stream_options":{"include_usage":true},"messages":[],"stream":true}`,
		},
		"options kept (SSE-12)": {
			`{"model":"chat","messages":[],"stream":true,"stream_options":{"include_usage":true,"x_other":1}}`,
			`{"model":"gpt-x","messages":[],"stream":true,"stream_options":{"include_usage":true,"x_other":1}}`,
		},
		"usage switched on (SSE-12)": {
			`{"stream_options":{"x_other":1, "include_usage" : false},"model":"chat","messages":[],"stream":true}`,
			`{"stream_options":{"x_other":1, "include_usage" : true},"model":"gpt-x","messages":[],"stream":true}`,
		},
		"options without usage": {
			`{"model":"chat","messages":[],"stream":true,"stream_options": {"x_other":1}}`,
			`{"model":"gpt-x","messages":[],"stream":true,"stream_options": {"include_usage":true,"x_other":1}}`,
		},
		"empty options": {
			`{"model":"chat","messages":[],"stream":true,"stream_options":{ }}`,
			`{"model":"gpt-x","messages":[],"stream":true,"stream_options":{"include_usage":true }}`,
		},
		"null options": {
			`{"stream_options":null,"model":"chat","messages":[],"stream":true}`,
			`{"stream_options":{"include_usage":true},"model":"gpt-x","messages":[],"stream":true}`,
		},
		"no stream": {
			`{"model":"chat","messages":[],"stream":false,"stream_options":{"include_usage":false}}`,
			`{"model":"gpt-x","messages":[],"stream":false,"stream_options":{"include_usage":false}}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, string(splice(t, []byte(tt.body), "gpt-x"))); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSpliceEscapesTheModel(t *testing.T) {
	t.Parallel()
	got := splice(t, []byte(`{"model":"chat","messages":[]}`), `a"b\c`)
	if want := `{"model":"a\"b\\c","messages":[]}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func splice(t *testing.T, body []byte, model string) []byte {
	t.Helper()
	facts, err := openai.ReadFacts(body)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Join(openai.Splice(body, facts, openai.Changes{Model: model}), nil)
}

func decode(t *testing.T, body []byte) map[string]any {
	t.Helper()
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("decode %s: %v", body, err)
	}
	return v
}

// FuzzSplice: the spliced body is the same JSON but for the model,
// stream_options.include_usage and a limit that the client had not set, and it is
// read as such.
func FuzzSplice(f *testing.F) {
	f.Add(request(10), "gpt-x", 0, false)
	f.Add(request(10), "gpt-x", 9, true)
	f.Add([]byte(`{"max_tokens":null,"n":2,"max_completion_tokens":-1.0,"model":"m","messages":[]}`), "m", 9, false)
	f.Add([]byte(`{"stream_options":{"a":{"include_usage":1}},"stream":true,"model":"m","messages":[]}`), "a\"\\\u2028", 1, true)
	f.Add([]byte(`{"stream_options":null,"stream":true,"model":"m","messages":[]}`), "", 7, false)
	f.Fuzz(func(t *testing.T, body []byte, model string, limit int, newer bool) {
		facts, err := openai.ReadFacts(body)
		if err != nil {
			return
		}
		original := bytes.Clone(body)
		changes := openai.Changes{Model: model, OutputLimit: limit, OutputField: openai.MaxTokens}
		if newer {
			changes.OutputField = openai.MaxCompletionTokens
		}
		spliced := bytes.Join(openai.Splice(body, facts, changes), nil)
		if !bytes.Equal(original, body) {
			t.Fatal("the body itself has changed")
		}
		got, want := decode(t, spliced), decode(t, body)
		want["model"] = decode(t, []byte(`{"m":`+quote(t, model)+`}`))["m"]
		if facts.Stream {
			options, _ := want["stream_options"].(map[string]any)
			if options == nil {
				options = map[string]any{}
			}
			options["include_usage"] = true
			want["stream_options"] = options
		}
		if limit > 0 {
			again, err := openai.ReadFacts(spliced)
			if model != "" && (err != nil || again.MaxOutput <= 0) {
				t.Fatalf("limited to %d tokens in %s (%v)", again.MaxOutput, spliced, err)
			}
			for _, field := range []string{"max_tokens", "max_completion_tokens"} {
				delete(got, field)
				delete(want, field)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("spliced JSON (-want +got):\n%s", diff)
		}
	})
}

func quote(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func BenchmarkSplice(b *testing.B) {
	body := request(10 << 10)
	facts, err := openai.ReadFacts(body)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		openai.Splice(body, facts, openai.Changes{Model: "gpt-x"})
	}
}
