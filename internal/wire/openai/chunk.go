package openai

import (
	"bytes"
	"errors"
	"strconv"
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
	Began     Choices   // of which it says anything
	Finished  Choices   // whose finish reason it carries
	Failed    bool      // it reports an error: see ReadComplaint

	choices  bool // it has a list of choices, if an empty one
	complain bool // it has a member that errors have
	content  bool
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
	c.Failed = c.Failed || c.complain && !c.choices
	switch {
	case !c.Failed && !utf8.Valid(data):
		return errNoText
	case c.content:
		c.Kind = llm.EventContent
	case c.Began.None() && (c.Usage.Known() || c.Usage.Anomaly):
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
		case "detail", "errors", "message":
			c.complain = saysError(s) || c.complain
		case "error":
			c.Failed = saysError(s) || c.Failed
		case "object", "type": // "error" where the report is not wrapped
			c.Failed = isError(s) || c.Failed
		default:
			s.Skip()
		}
	}
}

func (c *Chunk) readChoices(s *jsonscan.Scanner) {
	if !s.Array() {
		return
	}
	c.choices = true
	for s.Element() {
		if s.Object() {
			c.readChoice(s)
		}
	}
}

// readChoice reads one choice; without a number it is the first.
func (c *Chunk) readChoice(s *jsonscan.Scanner) {
	index, finished := 0, false
	for s.Member() {
		switch string(s.Name) {
		case "index":
			index, _ = strconv.Atoi(string(s.Value())) // what is no number is the first, too
		case "delta":
			c.readDelta(s)
		case "finish_reason":
			finished = c.readFinish(s) || finished
		case "error":
			c.Failed = saysError(s) || c.Failed
		default:
			s.Skip()
		}
	}
	c.Began.Add(index)
	if finished {
		c.Finished.Add(index)
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

// readFinish reports whether there is a finish reason.
func (c *Chunk) readFinish(s *jsonscan.Scanner) bool {
	if s.Kind() != jsonscan.String {
		s.Skip()
		return false
	}
	c.Failed = isError(s) || c.Failed
	return true
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

// isError takes a member that may be the text "error".
func isError(s *jsonscan.Scanner) bool {
	if s.Kind() != jsonscan.String {
		s.Skip()
		return false
	}
	return string(s.Text()) == "error"
}

// saysError takes a member that tells of an error: an object, a text, a list, a
// code, as servers differ. Null, false and what is empty mean that there is none.
func saysError(s *jsonscan.Scanner) bool {
	switch s.Kind() {
	case jsonscan.String:
		return s.TextLen() > 0
	case jsonscan.Array:
		some := false
		for s.Array(); s.Element(); s.Skip() {
			some = true
		}
		return some
	case jsonscan.Object:
		s.Skip()
		return true
	default:
		value := string(s.Value())
		if code, err := strconv.ParseFloat(value, 64); err == nil {
			return code != 0
		}
		return value == "true"
	}
}
