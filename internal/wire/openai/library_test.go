package openai_test

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

// The same reading of chunks and answers by the library's decoder: slower, and
// written without any of ours. Whatever it says of a text, Chunk and
// ReadCompletion must say, too.

// libraryChunk reads one event of a stream.
type libraryChunk struct {
	openai.Chunk
	began    int
	choices  bool
	complain bool
	content  bool
}

var errNoObject = errors.New("the payload is no JSON object")

func (c *libraryChunk) Read(data []byte) error {
	if string(bytes.TrimSpace(data)) == openai.Done {
		c.Kind = llm.EventTerminal
		return nil
	}
	if err := json.Unmarshal(data, c, lenient); err != nil {
		return err
	}
	c.Failed = c.Failed || c.complain && !c.choices
	switch {
	case !c.Failed && !utf8.Valid(data):
		return errors.New("it is not UTF-8")
	case c.content:
		c.Kind = llm.EventContent
	case c.began == 0 && (c.Usage.Known() || c.Usage.Anomaly):
		c.Kind = llm.EventUsage
	}
	return nil
}

var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// UnmarshalJSONFrom walks a chunk.
func (c *libraryChunk) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
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
		case "detail", "errors", "message":
			return readFailed(dec, &c.complain)
		case "object", "type":
			_, err := readSaysError(dec, &c.Failed)
			return err
		default:
			return dec.SkipValue()
		}
	})
}

func (c *libraryChunk) readChoices(dec *jsontext.Decoder) error {
	if dec.PeekKind() != jsontext.KindBeginArray {
		return dec.SkipValue()
	}
	c.choices = true
	return readArray(dec, func(int) error {
		if dec.PeekKind() != jsontext.KindBeginObject {
			return dec.SkipValue()
		}
		c.began++
		index, finished := 0, false
		err := readObject(dec, func(name []byte) error {
			switch string(name) {
			case "index":
				raw, err := dec.ReadValue()
				index, _ = strconv.Atoi(string(raw))
				return err
			case "delta":
				return c.readDelta(dec)
			case "finish_reason":
				text, err := readSaysError(dec, &c.Failed)
				finished = finished || text
				return err
			case "error":
				return readFailed(dec, &c.Failed)
			default:
				return dec.SkipValue()
			}
		})
		c.Began.Add(index)
		if finished {
			c.Finished.Add(index)
		}
		return err
	})
}

func (c *libraryChunk) readDelta(dec *jsontext.Decoder) error {
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

func (c *libraryChunk) add(text int, content bool) {
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
func (c *libraryChunk) readParts(dec *jsontext.Decoder) error {
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

// readSaysError takes a member that may be the text "error"; text says that it is
// one at all.
func readSaysError(dec *jsontext.Decoder, failed *bool) (text bool, err error) {
	raw, err := dec.ReadValue()
	if text = err == nil && raw.Kind() == jsontext.KindString; text {
		*failed = *failed || string(unquote(raw)) == "error"
	}
	return text, err
}

// readExtension reads the usage that Groq puts beside the standard fields.
func (c *libraryChunk) readExtension(dec *jsontext.Decoder) error {
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

// readFailed reads a member that tells of an error. Null, false, zero and what is
// empty mean that there is none.
func readFailed(dec *jsontext.Decoder, failed *bool) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	switch raw.Kind() {
	case jsontext.KindNull, jsontext.KindFalse:
	case jsontext.KindBeginObject, jsontext.KindTrue:
		*failed = true
	case jsontext.KindString:
		*failed = *failed || len(unquote(raw)) > 0
	case jsontext.KindBeginArray:
		var list []jsontext.Value
		err := json.Unmarshal(raw, &list, lenient)
		*failed = *failed || len(list) > 0
		return err
	default:
		n, err := strconv.ParseFloat(string(raw), 64)
		*failed = *failed || err != nil || n != 0
	}
	return nil
}

// libraryCompletion reads a whole answer.
type libraryCompletion struct {
	openai.Completion
	messages int
	invalid  bool
}

func (c *libraryCompletion) Read(body []byte) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return openai.ErrEmptyBody
	}
	if err := json.Unmarshal(body, c, lenient); err != nil || !c.Failed && (c.messages == 0 || c.invalid || !utf8.Valid(body)) {
		return openai.ErrInvalidBody
	}
	return nil
}

// UnmarshalJSONFrom walks an answer.
func (c *libraryCompletion) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != jsontext.KindBeginObject {
		return dec.SkipValue()
	}
	return readObject(dec, func(name []byte) error {
		switch string(name) {
		case "choices":
			return c.readChoices(dec)
		case "usage":
			return readUsage(dec, &c.Usage)
		case "error":
			return readFailed(dec, &c.Failed)
		default:
			return dec.SkipValue()
		}
	})
}

func (c *libraryCompletion) readChoices(dec *jsontext.Decoder) error {
	if dec.PeekKind() != jsontext.KindBeginArray {
		return dec.SkipValue()
	}
	return readArray(dec, func(int) error {
		if dec.PeekKind() != jsontext.KindBeginObject {
			c.invalid = true
			return dec.SkipValue()
		}
		before := c.messages
		err := readObject(dec, func(name []byte) error {
			switch string(name) {
			case "finish_reason":
				_, err := readSaysError(dec, &c.Failed)
				return err
			case "error":
				return readFailed(dec, &c.Failed)
			}
			if string(name) != "message" || dec.PeekKind() != jsontext.KindBeginObject {
				return dec.SkipValue()
			}
			c.messages++
			n, err := readVisible(dec)
			c.TextBytes += n
			return err
		})
		c.invalid = c.invalid || c.messages == before
		return err
	})
}
