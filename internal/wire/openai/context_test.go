package openai_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

func TestUserText(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ messages, want string }{
		"a string":              {`{"role":"user","content":"what is\na \"tide\"?"}`, "what is\na \"tide\"?"},
		"the last of several":   {`{"role":"user","content":"one"},{"content":"two","role":"user"},{"role":"assistant","content":"three"}`, "two"},
		"before a tool's":       {`{"role":"user","content":"ask"},{"role":"tool","tool_call_id":"1","content":"found"}`, "ask"},
		"parts":                 {`{"role":"user","content":[{"type":"text","text":"look:"},{"type":"image_url","image_url":{"url":"data:x"}},{"type":"text","text":"what is it?"}]}`, "look:\nwhat is it?"},
		"only a picture":        {`{"role":"user","content":"before"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:x"}}]}`, ""},
		"no user":               {`{"role":"system","content":"be brief"}`, ""},
		"a name is not a role":  {`{"role":"assistant","name":"user","content":"no"}`, ""},
		"nothing":               {``, ""},
		"no content":            {`{"role":"user","content":null}`, ""},
		"role and content deep": {`{"role":"assistant","extra":{"role":"user","content":"no"},"content":"x"}`, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := openai.Codec{}.UserText([]byte(`{"a":{"messages":[]},"messages":[` + tt.messages + `],"model":"chat"}`))
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestSystemMessages(t *testing.T) {
	t.Parallel()
	const one, two = `{"role":"system","content":"fact \"1\""},`, `{"role":"system","content":"fact 2\n"},`
	tests := map[string]struct{ before, after string }{
		"in front of the only message": {`[`, ` {"role":"user","content":"hi"} ]`},
		"behind what is the system's":  {`[{"role":"system","content":"be brief"} , `, `{ "content":"hi","role":"user" },{"role":"user","content":"again"}]`},
		"behind an assistant's":        {`[{"role":"assistant","content":"hello"},`, `{"role":"user","content":"hi"}]`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// White space before the message stays before what is inserted.
			after := strings.TrimLeft(tt.after, " ")
			before := tt.before + tt.after[:len(tt.after)-len(after)]
			frame := func(messages string) string { return `{"messages":` + messages + `,"model": "chat"}` }

			got := inserted(t, []byte(frame(before+after)), "gpt-x", []string{`fact "1"`, "fact 2\n"})
			want := strings.Replace(frame(before+one+two+after), `"chat"`, `"gpt-x"`, 1)
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSystemMessagesHaveNoPlaceWithoutAUser(t *testing.T) {
	t.Parallel()
	got := openai.Codec{}.SystemMessages([]byte(`{"messages":[{"role":"system","content":"x"}]}`), []string{"fact"})
	if diff := cmp.Diff(llm.Insertion{}, got); diff != "" {
		t.Errorf("insertion (-want +got):\n%s", diff)
	}
}

// inserted is a body with texts in it, as it goes up.
func inserted(t *testing.T, body []byte, model string, texts []string) []byte {
	t.Helper()
	facts, err := openai.ReadFacts(body)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Join(openai.Splice(body, facts, openai.Changes{Model: model, Insert: openai.Codec{}.SystemMessages(body, texts)}), nil)
}

// FuzzSystemMessages: what goes up is the request with two more messages, whose
// text is all that its facts have more.
func FuzzSystemMessages(f *testing.F) {
	f.Add(request(10), "fact", "\"\\\u2028\x00")
	f.Add([]byte(`{"stream_options":{},"stream":true,"model":"m","messages":[{"role":"system"}, {"content":[],"role":"us\u0065r"}]}`), "", "x")
	f.Add([]byte(`{"messages":[1,{"role":"user"}],"model":"m"}`), "a", "b")
	f.Fuzz(func(t *testing.T, body []byte, one, two string) {
		facts, err := openai.ReadFacts(body)
		one, two = strings.ToValidUTF8(one, "?"), strings.ToValidUTF8(two, "?")
		texts := []string{one, two}
		insert := openai.Codec{}.SystemMessages(body, texts)
		if err != nil || len(insert.Text) == 0 {
			return
		}
		original := bytes.Clone(body)
		spliced := bytes.Join(openai.Splice(body, facts, openai.Changes{Model: "gpt-x", Insert: insert}), nil)
		if !bytes.Equal(original, body) {
			t.Fatal("the body itself has changed")
		}
		after, err := openai.ReadFacts(spliced)
		if err != nil {
			t.Fatalf("what goes up is refused: %v", err)
		}
		if got, want := after.TextBytes, facts.TextBytes+len(one)+len(two); got != want {
			t.Errorf("%d bytes of text, want %d", got, want)
		}
		compareMessages(t, decode(t, body), decode(t, spliced), texts)
	})
}

// compareMessages holds what goes up to the request: texts stand in front of the
// first message of the user.
func compareMessages(t *testing.T, body, spliced map[string]any, texts []string) {
	t.Helper()
	var want []any
	waiting := true
	for _, m := range body["messages"].([]any) {
		if o, ok := m.(map[string]any); ok && o["role"] == "user" && waiting {
			waiting = false
			for _, text := range texts {
				want = append(want, map[string]any{"role": "system", "content": text})
			}
		}
		want = append(want, m)
	}
	if diff := cmp.Diff(want, spliced["messages"]); diff != "" {
		t.Fatalf("messages (-want +got):\n%s", diff)
	}
}

func TestMarkDegraded(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ body, want string }{
		"an answer":           {` { "id":"1", "x":1.50 }` + "\n", ` {"ai_degraded":true, "id":"1", "x":1.50 }` + "\n"},
		"an empty one":        {`{ }`, `{"ai_degraded":true }`},
		"one that says so":    {`{"id":"1","ai_degraded":true,"x":2}`, `{"id":"1","ai_degraded":true,"x":2}`},
		"one that denies it":  {`{"id":"1","ai_degraded" : {"a":[false]} ,"x":2}`, `{"id":"1","ai_degraded" : true ,"x":2}`},
		"one with it deep in": {`{"a":{"ai_degraded":false}}`, `{"ai_degraded":true,"a":{"ai_degraded":false}}`},
		"no object":           {`[1]`, `[1]`},
		"nothing":             {``, ``},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := string(openai.MarkDegraded([]byte(tt.body))); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
