package openai

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Done is the payload of the event that ends a stream.
const Done = "[DONE]"

var errNoObject = errors.New("the payload is no JSON object")

// Chunk is what one event of a stream says.
type Chunk struct {
	Kind      llm.EventKind
	Usage     llm.Usage // as reported by this chunk; unknown when it reports none
	TextBytes int       // text of messages, reasoning and tool calls
	Finished  bool      // it carries a finish reason
	Failed    bool      // it reports an error: see ReadComplaint

	choices int
	content bool
}

// Read finds out what an event with the given payload says; whatever c held
// before is forgotten, so that one Chunk serves a whole stream. It returns an
// error for a payload that is neither a JSON object nor [DONE].
func (c *Chunk) Read(data []byte) error {
	*c = Chunk{}
	if string(bytes.TrimSpace(data)) == Done {
		c.Kind = llm.EventTerminal
		return nil
	}
	if err := json.Unmarshal(data, c, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return err
	}
	switch {
	case c.content:
		c.Kind = llm.EventContent
	case c.choices == 0 && c.Usage.Known():
		c.Kind = llm.EventUsage
	}
	return nil
}

// UnmarshalJSONFrom walks a chunk.
func (c *Chunk) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != jsontext.KindBeginObject {
		return errNoObject
	}
	return readObject(dec, func(name []byte) error {
		switch string(name) {
		case "choices":
			return c.readChoices(dec)
		case "usage":
			return readUsage(dec, &c.Usage)
		case "x_groq":
			return c.readExtension(dec)
		case "error":
			return readFailed(dec, &c.Failed)
		default:
			return dec.SkipValue()
		}
	})
}

func (c *Chunk) readChoices(dec *jsontext.Decoder) error {
	if dec.PeekKind() != jsontext.KindBeginArray {
		return dec.SkipValue()
	}
	return readArray(dec, func(int) error {
		c.choices++
		if dec.PeekKind() != jsontext.KindBeginObject {
			return dec.SkipValue()
		}
		return readObject(dec, func(name []byte) error {
			switch string(name) {
			case "delta":
				return c.readDelta(dec)
			case "finish_reason":
				return c.readFinish(dec)
			default:
				return dec.SkipValue()
			}
		})
	})
}

func (c *Chunk) readDelta(dec *jsontext.Decoder) error {
	if dec.PeekKind() != jsontext.KindBeginObject {
		return dec.SkipValue()
	}
	return readObject(dec, func(name []byte) error {
		switch string(name) {
		case "content", "refusal", "reasoning", "reasoning_content":
			n, err := readDeltaText(dec)
			c.add(n, n > 0)
			return err
		case "tool_calls", "function_call", "audio":
			return c.readParts(dec)
		default:
			return dec.SkipValue()
		}
	})
}

func (c *Chunk) add(text int, content bool) {
	c.TextBytes += text
	c.content = c.content || content
}

// readDeltaText reads the text of a delta: a string, or parts as some servers
// send them.
func readDeltaText(dec *jsontext.Decoder) (int, error) {
	if dec.PeekKind() == jsontext.KindString {
		return readText(dec)
	}
	return readVisible(dec)
}

// readParts reads a part of a message that counts as content even without text:
// a tool call or audio. An empty list is none.
func (c *Chunk) readParts(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case jsontext.KindBeginArray:
		return readArray(dec, func(int) error {
			n, err := readVisible(dec)
			c.add(n, true)
			return err
		})
	case jsontext.KindBeginObject:
		return readObject(dec, func(name []byte) error {
			n, err := readNamed(dec, name)
			c.add(n, true)
			return err
		})
	default:
		return dec.SkipValue()
	}
}

func (c *Chunk) readFinish(dec *jsontext.Decoder) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if raw.Kind() == jsontext.KindString {
		c.Finished = true
		c.Failed = c.Failed || string(unquote(raw)) == "error"
	}
	return nil
}

// readExtension reads the usage that Groq puts beside the standard fields.
func (c *Chunk) readExtension(dec *jsontext.Decoder) error {
	if dec.PeekKind() != jsontext.KindBeginObject {
		return dec.SkipValue()
	}
	return readObject(dec, func(name []byte) error {
		if string(name) == "usage" {
			return readUsage(dec, &c.Usage)
		}
		return dec.SkipValue()
	})
}

// readFailed reads an "error" member: an object, or a text as some servers
// send. Null and an empty text mean that there is none.
func readFailed(dec *jsontext.Decoder, failed *bool) error {
	if dec.PeekKind() == jsontext.KindString {
		n, err := readText(dec)
		*failed = *failed || n > 0
		return err
	}
	*failed = *failed || dec.PeekKind() == jsontext.KindBeginObject
	return dec.SkipValue()
}
