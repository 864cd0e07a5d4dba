package openai

import (
	"strconv"

	"github.com/breakwater-llm/breakwater/internal/jsonscan"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Question writes a request of one prompt, to be answered whole and in at most
// so many tokens, and returns what is to be known of it.
func Question(model, prompt string, maxTokens int) ([]byte, llm.Facts, error) {
	body := appendText([]byte(`{"model":`), model)
	body = append(body, `,"messages":[{"role":"user","content":`...)
	body = appendText(body, prompt)
	body = append(body, `}],"max_tokens":`...)
	body = strconv.AppendInt(body, int64(maxTokens), 10)
	body = append(body, '}')
	facts, err := ReadFacts(body)
	return body, facts, err
}

// Reply is what the first choice of a whole answer says.
type Reply struct {
	Text string
	Cut  bool // it came to the limit of its tokens
}

// ReadReply reads an answer that ReadCompletion has found sound. Content in parts
// is joined.
func ReadReply(body []byte) Reply {
	var r Reply
	s := jsonscan.Lenient(body)
	for s.Object(); s.Member(); {
		if string(s.Name) != "choices" || s.Kind() != jsonscan.Array {
			s.Skip()
			continue
		}
		s.Array()
		for i := 0; s.Element(); i++ {
			if i > 0 || s.Kind() != jsonscan.Object {
				s.Skip()
				continue
			}
			r.read(&s)
		}
	}
	return r
}

func (r *Reply) read(s *jsonscan.Scanner) {
	for s.Object(); s.Member(); {
		switch name := string(s.Name); {
		case name == "finish_reason" && s.Kind() == jsonscan.String:
			r.Cut = string(s.Text()) == "length"
		case name == "message" && s.Kind() == jsonscan.Object:
			r.readMessage(s)
		default:
			s.Skip()
		}
	}
}

func (r *Reply) readMessage(s *jsonscan.Scanner) {
	for s.Object(); s.Member(); {
		if string(s.Name) != "content" {
			s.Skip()
			continue
		}
		r.readContent(s)
	}
}

func (r *Reply) readContent(s *jsonscan.Scanner) {
	switch s.Kind() {
	case jsonscan.String:
		r.Text += string(s.Text())
	case jsonscan.Array:
		for s.Array(); s.Element(); {
			r.readPart(s)
		}
	default:
		s.Skip()
	}
}

func (r *Reply) readPart(s *jsonscan.Scanner) {
	if s.Kind() != jsonscan.Object {
		s.Skip()
		return
	}
	for s.Object(); s.Member(); {
		if string(s.Name) != "text" || s.Kind() != jsonscan.String {
			s.Skip()
			continue
		}
		r.Text += string(s.Text())
	}
}
