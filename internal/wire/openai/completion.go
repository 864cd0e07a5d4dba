package openai

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/breakwater-llm/breakwater/internal/jsonscan"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Why a whole answer is no answer.
var (
	ErrEmptyBody   = errors.New("the body is empty")
	ErrInvalidBody = errors.New("the body is no chat completion")
)

// Completion is what a whole answer says.
type Completion struct {
	Usage     llm.Usage
	TextBytes int  // text of messages, reasoning and tool calls
	Failed    bool // it reports an error instead of an answer: see ReadComplaint

	messages int
	invalid  bool
}

// ReadCompletion checks that a body is a whole chat completion: JSON in UTF-8
// with at least one choice, each with a message. It returns ErrEmptyBody or
// ErrInvalidBody otherwise, together with what the body says about usage,
// since a provider bills an answer that is no use, too. A body that reports an
// error is no error here.
func ReadCompletion(body []byte) (Completion, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return Completion{}, ErrEmptyBody
	}
	var c Completion
	s := jsonscan.Lenient(body)
	c.read(&s)
	if err := s.End(); err != nil {
		return c, fmt.Errorf("%w: %w", ErrInvalidBody, err)
	}
	switch {
	case c.Failed:
		return c, nil
	case c.messages == 0 || c.invalid:
		return c, ErrInvalidBody
	case !utf8.Valid(body):
		return c, fmt.Errorf("%w: %w", ErrInvalidBody, errNoText)
	}
	return c, nil
}

func (c *Completion) read(s *jsonscan.Scanner) {
	if !s.Object() {
		return
	}
	for s.Member() {
		switch string(s.Name) {
		case "choices":
			c.readChoices(s)
		case "usage":
			readUsage(s, &c.Usage)
		case "error":
			c.Failed = saysError(s) || c.Failed
		default:
			s.Skip()
		}
	}
}

func (c *Completion) readChoices(s *jsonscan.Scanner) {
	if !s.Array() {
		return
	}
	for s.Element() {
		before := c.messages
		if s.Object() {
			c.readChoice(s)
		}
		c.invalid = c.invalid || c.messages == before
	}
}

func (c *Completion) readChoice(s *jsonscan.Scanner) {
	for s.Member() {
		switch {
		case string(s.Name) == "message" && s.Kind() == jsonscan.Object:
			c.messages++
			c.TextBytes += visible(s)
		case string(s.Name) == "finish_reason":
			c.Failed = isError(s) || c.Failed
		case string(s.Name) == "error":
			c.Failed = saysError(s) || c.Failed
		default:
			s.Skip()
		}
	}
}
