package openai_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

func TestAQuestionSaysWhatItIsTold(t *testing.T) {
	t.Parallel()
	const model, prompt = `org/m"1`, "Say \"ok\"\nand no more, Grüße \x00"
	body, facts, err := openai.Question(model, prompt, 5)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Model    string
		Messages []struct{ Role, Content string }
		Limit    int `json:"max_tokens"`
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	want := got
	want.Model, want.Limit = model, 5
	want.Messages = []struct{ Role, Content string }{{"user", prompt}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the request (-want +got):\n%s", diff)
	}
	if facts.Model != model || facts.MaxOutput != 5 || facts.Stream || facts.TextBytes != len(prompt) {
		t.Errorf("facts = %+v", facts)
	}
}

func TestReadReply(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body string
		want       openai.Reply
	}{
		{"text", `{"choices":[{"message":{"role":"assistant","content":"Ok."},"finish_reason":"stop"}],"usage":{}}`, openai.Reply{Text: "Ok."}},
		{"escapes", `{"choices":[{"message":{"content":"\u004fk\n"}}]}`, openai.Reply{Text: "Ok\n"}},
		{"cut", `{"choices":[{"finish_reason":"length","message":{"content":"I am a"}}]}`, openai.Reply{Text: "I am a", Cut: true}},
		{"nothing said", `{"choices":[{"message":{"content":null,"reasoning":"ok"},"finish_reason":"length"}]}`, openai.Reply{Cut: true}},
		{"parts", `{"choices":[{"message":{"content":[{"type":"text","text":"o"},{"type":"image_url","image_url":{"text":"x"}},7,{"text":"k"}]}}]}`, openai.Reply{Text: "ok"}},
		{"the first choice", `{"choices":[{"message":{"content":"one"}},{"message":{"content":"two"},"finish_reason":"length"}]}`, openai.Reply{Text: "one"}},
		{"no choice", `{"choices":[]}`, openai.Reply{}},
		{"another shape", `[1,2]`, openai.Reply{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, openai.ReadReply([]byte(tt.body))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
