package openai

import (
	"bytes"
	"errors"
	"io"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/sse"
)

// Whole returns the events of a stream as one whole answer, with its usage when
// they do not report any. Reports false when they do not come to an end, or when
// it cannot be told how what they say belongs together.
func (Codec) Whole(events [][]byte, usage llm.Usage) ([]byte, bool) {
	var w whole
	reader := sse.NewReader(nil)
	for _, event := range events {
		reader.Reset(bytes.NewReader(event))
		for {
			e, err := reader.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || !w.add(bytes.Clone(e.Data)) {
				return nil, false
			}
		}
	}
	return w.body(usage)
}

// whole is an answer that is put together.
type whole struct {
	frame   object
	choices []*wholeChoice // by their index, without a gap
	done    bool
}

// add takes one chunk in and reports whether it is understood.
func (w *whole) add(data []byte) bool {
	if string(bytes.TrimSpace(data)) == Done {
		w.done = true
		return true
	}
	chunk, ok := readObject(data)
	if !ok || w.done || saysFailed(chunk) {
		return false
	}
	for _, m := range chunk {
		switch m.name {
		case "choices":
			ok = w.addChoices(m.value)
		case "object", "obfuscation": // the second is noise to hide lengths
		case "id", "created", "model", "system_fingerprint": // some servers count the time, too
			ok = w.frame.keepFirst(m)
		case "usage", "service_tier":
			ok = w.frame.keepLast(m)
		case "x_groq":
			ok = w.frame.keepFirst(m)
		default:
			ok = w.frame.keepOnly(m)
		}
		if !ok {
			return false
		}
	}
	return true
}

func (w *whole) addChoices(text []byte) bool {
	if isNull(text) {
		return true
	}
	choices, ok := readArray(text)
	for _, text := range choices {
		ok = ok && w.addChoice(text)
	}
	return ok
}

func (w *whole) addChoice(text []byte) bool {
	choice, ok := readObject(text)
	if !ok {
		return false
	}
	at, ok := smallIndex(choice.get("index"), len(w.choices))
	if !ok {
		return false
	}
	if at == len(w.choices) {
		w.choices = append(w.choices, &wholeChoice{})
	}
	return w.choices[at].add(choice)
}

// body writes the answer once it has come to its end.
func (w *whole) body(usage llm.Usage) ([]byte, bool) {
	if !w.done || len(w.choices) == 0 {
		return nil, false
	}
	var choices [][]byte
	for i, c := range w.choices {
		choice, ok := c.body(i)
		if !ok {
			return nil, false
		}
		choices = append(choices, choice)
	}
	reported := w.frame.get("usage")
	if reported == nil && usage.Input.Known && usage.Output.Known {
		reported = appendUsage(nil, usage)
	}
	said := w.frame.without("usage")
	said.set("object", []byte(`"chat.completion"`))
	said.set("choices", appendArray(nil, choices))
	if reported != nil {
		said.set("usage", reported)
	}
	return said.bytes(), true
}

// keepFirst keeps a member unless the object says it already.
func (o *object) keepFirst(m member) bool {
	if !isNull(m.value) && o.get(m.name) == nil {
		o.set(m.name, m.value)
	}
	return true
}

// keepLast keeps a member over what the object said before.
func (o *object) keepLast(m member) bool {
	if !isNull(m.value) {
		o.set(m.name, m.value)
	}
	return true
}

// keepOnly keeps a member of unknown meaning, and reports false when two chunks
// say something else: it may be meant to be joined, or not.
func (o *object) keepOnly(m member) bool {
	if isNull(m.value) || string(m.value) == "{}" || string(m.value) == "[]" || isEmptyText(m.value) {
		return true
	}
	if said := o.get(m.name); said != nil {
		return bytes.Equal(said, m.value)
	}
	o.set(m.name, m.value)
	return true
}

// smallIndex reads an index of at most n, which is where the next one begins.
func smallIndex(text []byte, n int) (int, bool) {
	for i := range n + 1 {
		if string(text) == string(appendCount(nil, int64(i))) {
			return i, true
		}
	}
	return 0, false
}
