package openai

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/breakwater-llm/breakwater/internal/jsonscan"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Done is the payload of the event that ends a stream.
const Done = "[DONE]"

var (
	errNoObject = errors.New("the payload is no JSON object")
	errNoText   = errors.New("it is not UTF-8")
)

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
// error for a payload that is neither a JSON object in UTF-8 nor [DONE]; in a
// report of an error, which is not passed on as it is, any bytes may stand.
func (c *Chunk) Read(data []byte) error {
	*c = Chunk{}
	s := jsonscan.Lenient(data)
	if s.Kind() != jsonscan.Object {
		return c.readDone(data)
	}
	c.read(&s)
	if err := s.End(); err != nil {
		return err
	}
	switch {
	case !c.Failed && !utf8.Valid(data):
		return errNoText
	case c.content:
		c.Kind = llm.EventContent
	case c.choices == 0 && (c.Usage.Known() || c.Usage.Anomaly):
		c.Kind = llm.EventUsage
	}
	return nil
}

func (c *Chunk) readDone(data []byte) error {
	if string(bytes.TrimSpace(data)) != Done {
		return errNoObject
	}
	c.Kind = llm.EventTerminal
	return nil
}

func (c *Chunk) read(s *jsonscan.Scanner) {
	for s.Object(); s.Member(); {
		switch string(s.Name) {
		case "choices":
			c.readChoices(s)
		case "usage":
			readUsage(s, &c.Usage)
		case "x_groq":
			c.readExtension(s)
		case "error":
			c.Failed = saysError(s) || c.Failed
		default:
			s.Skip()
		}
	}
}

func (c *Chunk) readChoices(s *jsonscan.Scanner) {
	if !s.Array() {
		return
	}
	for s.Element() {
		c.choices++
		if s.Object() {
			c.readChoice(s)
		}
	}
}

func (c *Chunk) readChoice(s *jsonscan.Scanner) {
	for s.Member() {
		switch string(s.Name) {
		case "delta":
			c.readDelta(s)
		case "finish_reason":
			c.readFinish(s)
		default:
			s.Skip()
		}
	}
}

func (c *Chunk) readDelta(s *jsonscan.Scanner) {
	if !s.Object() {
		return
	}
	for s.Member() {
		switch string(s.Name) {
		case "content", "refusal", "reasoning", "reasoning_content":
			n := deltaText(s)
			c.add(n, n > 0)
		case "tool_calls", "function_call", "audio":
			c.readParts(s)
		default:
			s.Skip()
		}
	}
}

func (c *Chunk) add(text int, content bool) {
	c.TextBytes += text
	c.content = c.content || content
}

// deltaText takes the text of a delta, a string, or parts as some servers send
// them, and returns its bytes.
func deltaText(s *jsonscan.Scanner) int {
	if s.Kind() == jsonscan.String {
		return s.TextLen()
	}
	return visible(s)
}

// readParts reads a part of a message that counts as content even without text:
// a tool call or audio. An empty list is none.
func (c *Chunk) readParts(s *jsonscan.Scanner) {
	switch s.Kind() {
	case jsonscan.Array:
		for s.Array(); s.Element(); {
			c.add(visible(s), true)
		}
	case jsonscan.Object:
		for s.Object(); s.Member(); {
			c.add(visibleMember(s), true)
		}
	default:
		s.Skip()
	}
}

func (c *Chunk) readFinish(s *jsonscan.Scanner) {
	if s.Kind() != jsonscan.String {
		s.Skip()
		return
	}
	c.Finished = true
	c.Failed = string(s.Text()) == "error" || c.Failed
}

// readExtension reads the usage that Groq puts beside the standard fields.
func (c *Chunk) readExtension(s *jsonscan.Scanner) {
	if !s.Object() {
		return
	}
	for s.Member() {
		if string(s.Name) == "usage" {
			readUsage(s, &c.Usage)
			continue
		}
		s.Skip()
	}
}

// saysError takes an "error" member: an object, or a text as some servers send.
// Null and an empty text mean that there is none.
func saysError(s *jsonscan.Scanner) bool {
	if s.Kind() == jsonscan.String {
		return s.TextLen() > 0
	}
	object := s.Kind() == jsonscan.Object
	s.Skip()
	return object
}
