package openai

import (
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/sse"
)

// Events returns a whole answer as the events of a stream: for each choice its
// role, its content and its end, then usage when it is asked for, then the end
// mark. Reports false for an answer that a stream cannot say, such as one whose
// content is in parts.
func (Codec) Events(body []byte, includeUsage bool) ([][]byte, bool) {
	whole, ok := readObject(body)
	if !ok {
		return nil, false
	}
	choices, ok := readArray(whole.get("choices"))
	if !ok || len(choices) == 0 {
		return nil, false
	}
	var events [][]byte
	chunk := newChunks(whole)
	for _, choice := range choices {
		parts, ok := chunksOf(choice)
		if !ok {
			return nil, false
		}
		for _, part := range parts {
			events = append(events, chunk.event(part))
		}
	}
	if usage := whole.get("usage"); includeUsage && usage != nil {
		chunk.frame.set("usage", usage)
		events = append(events, chunk.event(nil))
	}
	return append(events, AppendDone(nil)), true
}

// chunks writes the chunks of one answer.
type chunks struct {
	frame object // what all of them say
	once  object // what the first says besides
}

func newChunks(whole object) *chunks {
	var c chunks
	for _, m := range whole {
		switch m.name {
		case "object", "choices", "usage":
		case "id", "created", "model", "system_fingerprint", "service_tier":
			c.frame = append(c.frame, m)
		default:
			c.once = append(c.once, m)
		}
	}
	c.frame.set("object", []byte(`"chat.completion.chunk"`))
	return &c
}

// event writes a chunk of one choice, or of none.
func (c *chunks) event(choice object) []byte {
	said := append(c.once, c.frame...)
	c.once = nil
	var choices [][]byte
	if choice != nil {
		choices = [][]byte{choice.bytes()}
	}
	said.set("choices", appendArray(nil, choices))
	return sse.AppendData(nil, said.bytes())
}

// chunksOf takes a choice apart into what its chunks say.
func chunksOf(text []byte) ([]object, bool) {
	choice, ok := readObject(text)
	if !ok {
		return nil, false
	}
	message, ok := readObject(choice.get("message"))
	if !ok {
		return nil, false
	}
	index := choice.get("index")
	if index == nil {
		return nil, false
	}
	content, ok := deltaOf(message)
	if !ok {
		return nil, false
	}
	role := message.get("role")
	if role == nil {
		role = []byte(`"assistant"`)
	}
	begin := choiceChunk(index, object{{"role", role}, {"content", []byte(`""`)}})
	middle := choiceChunk(index, content)
	if logprobs := choice.get("logprobs"); logprobs != nil {
		middle.set("logprobs", logprobs)
	}
	end := append(object{{"index", index}, {"delta", []byte("{}")}}, choice.without("index", "message", "logprobs")...)
	parts := []object{begin, middle, end}
	if len(content) == 0 && middle.get("logprobs") == nil {
		parts = []object{begin, end}
	}
	return parts, true
}

func choiceChunk(index []byte, delta object) object {
	return object{{"index", index}, {"delta", delta.bytes()}, {"finish_reason", []byte("null")}}
}

// deltaOf returns what a message says beside its role, as a delta does.
func deltaOf(message object) (object, bool) {
	var delta object
	for _, m := range message {
		switch {
		case m.name == "role", isNull(m.value):
			continue
		case m.name == "content" && !isString(m.value):
			return nil, false
		case m.name == "tool_calls":
			calls, ok := numbered(m.value)
			if !ok {
				return nil, false
			}
			m.value = calls
		}
		delta = append(delta, m)
	}
	return delta, true
}

// numbered gives tool calls the index that they have in a stream.
func numbered(text []byte) ([]byte, bool) {
	calls, ok := readArray(text)
	if !ok {
		return nil, false
	}
	for i, text := range calls {
		call, ok := readObject(text)
		if !ok {
			return nil, false
		}
		call = append(object{{"index", appendCount(nil, int64(i))}}, call.without("index")...)
		calls[i] = call.bytes()
	}
	return appendArray(nil, calls), true
}

// Degraded returns a whole answer that says it is no proper one.
func (Codec) Degraded(body []byte) []byte { return MarkDegraded(body) }

// Answered says what a whole answer holds.
func (Codec) Answered(body []byte) llm.Answered {
	whole, ok := readObject(body)
	if !ok {
		return llm.Answered{}
	}
	choices, ok := readArray(whole.get("choices"))
	if !ok || len(choices) == 0 || saysFailed(whole) {
		return llm.Answered{}
	}
	all := llm.Answered{Complete: true}
	for _, choice := range choices {
		one := answeredBy(choice)
		all.Complete = all.Complete && one.Complete
		all.ToolCalls = all.ToolCalls || one.ToolCalls
		all.CutShort = all.CutShort || one.CutShort
	}
	return all
}

func saysFailed(whole object) bool { e := whole.get("error"); return e != nil && !isEmptyText(e) }

// answeredBy says what one choice holds: it is complete when it has something to
// say and came to an end of its own, or to that of its tokens.
func answeredBy(text []byte) (a llm.Answered) {
	choice, ok := readObject(text)
	if !ok {
		return a
	}
	message, ok := readObject(choice.get("message"))
	if !ok {
		return a
	}
	calls, _ := readArray(message.get("tool_calls"))
	a.ToolCalls = len(calls) > 0 || message.get("function_call") != nil
	a.CutShort = string(choice.get("finish_reason")) == `"length"`
	switch string(choice.get("finish_reason")) {
	case `"stop"`, `"length"`, `"tool_calls"`, `"function_call"`:
		a.Complete = a.ToolCalls || says(message)
	}
	return a
}

// says reports whether a message holds an answer: text, a refusal, or audio.
// Reasoning alone is none.
func says(message object) bool {
	for _, name := range []string{"content", "refusal"} {
		if v := message.get(name); v != nil && !isEmptyText(v) && string(v) != "[]" {
			return true
		}
	}
	return message.get("audio") != nil
}
