package openai

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/breakwater-llm/breakwater/internal/jsonscan"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Codec is the dialect's llm.Codec.
type Codec struct{}

var _ llm.Codec = Codec{}

// UserText returns the text of the last message of the user: its string, or the
// text parts among its parts, one per line.
func (Codec) UserText(body []byte) string {
	var last []byte
	eachMessage(body, func(m message) bool {
		if m.role == "user" {
			last = m.content
		}
		return true
	})
	return textOf(last)
}

// SystemMessages returns the system messages as they stand in front of the first
// message of the user.
func (Codec) SystemMessages(body []byte, texts []string) llm.Insertion {
	at := -1
	eachMessage(body, func(m message) bool {
		if m.role == "user" {
			at = m.start
		}
		return at < 0
	})
	if at < 0 {
		return llm.Insertion{}
	}
	var text []byte
	for _, t := range texts {
		text = append(text, `{"role":"system","content":`...)
		text, _ = jsontext.AppendQuote(text, t) // what is no UTF-8 becomes U+FFFD
		text = append(text, "},"...)
	}
	return llm.Insertion{At: at, Text: text}
}

// message is one of a request's messages.
type message struct {
	start   int // of the message in the body
	role    string
	content []byte // as it stands there
}

// eachMessage visits the messages of a request in their order, until visit
// returns false.
func eachMessage(body []byte, visit func(message) bool) {
	s := jsonscan.Lenient(body)
	for s.Object(); s.Member(); {
		if string(s.Name) != "messages" {
			s.Skip()
			continue
		}
		for s.Array(); s.Element(); {
			if !visit(readMessage(&s)) {
				return
			}
		}
	}
}

func readMessage(s *jsonscan.Scanner) message {
	s.Kind() // goes to where the message begins
	m := message{start: s.Offset()}
	for s.Object(); s.Member(); {
		switch {
		case string(s.Name) == "role" && s.Kind() == jsonscan.String:
			m.role = string(s.Text())
		case string(s.Name) == "content":
			m.content = s.Value()
		default:
			s.Skip()
		}
	}
	return m
}

// textOf returns the text of a content.
func textOf(content []byte) string {
	s := jsonscan.Lenient(content)
	if s.Kind() == jsonscan.String {
		return string(s.Text())
	}
	var parts [][]byte
	for s.Array(); s.Element(); {
		for s.Object(); s.Member(); {
			if string(s.Name) == "text" && s.Kind() == jsonscan.String {
				parts = append(parts, s.Text())
				continue
			}
			s.Skip()
		}
	}
	return string(bytes.Join(parts, []byte("\n")))
}
