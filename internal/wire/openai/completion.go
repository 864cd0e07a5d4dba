package openai

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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

// ReadCompletion checks that a body is a whole chat completion: JSON with at
// least one choice, each with a message. It returns ErrEmptyBody or
// ErrInvalidBody otherwise, together with what the body says about usage,
// since a provider bills an answer that is no use, too. A body that reports an
// error is no error here.
func ReadCompletion(body []byte) (Completion, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return Completion{}, ErrEmptyBody
	}
	var c Completion
	if err := json.Unmarshal(body, &c, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return c, fmt.Errorf("%w: %w", ErrInvalidBody, err)
	}
	if !c.Failed && (c.messages == 0 || c.invalid) {
		return c, ErrInvalidBody
	}
	return c, nil
}

// UnmarshalJSONFrom walks an answer.
func (c *Completion) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
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

func (c *Completion) readChoices(dec *jsontext.Decoder) error {
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
