package provider

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/wire"
)

// redaction stands where an upstream repeated our key.
const redaction = "[redacted]"

// relayed returns what a client may be told of an upstream's refusal. The body
// itself may be passed on only when it is an error of the client's dialect and
// does not repeat our key.
func relayed(c wire.Complaint, body []byte, secret string) *llm.UpstreamError {
	clean := redacted(c, secret)
	e := &llm.UpstreamError{Type: clean.Type, Code: clean.Code, Param: clean.Param, Message: clean.Message}
	repeats := clean.Type != c.Type || clean.Code != c.Code || clean.Param != c.Param || clean.Message != c.Message
	if c.Native && !repeats && !holds(body, secret) {
		e.Body = bytes.Clone(body)
	}
	return e
}

// holds reports whether a JSON body repeats the secret, plainly or behind
// escapes. A body that cannot be told is taken to.
func holds(body []byte, secret string) bool {
	if secret == "" {
		return false
	}
	plain := jsontext.Value(bytes.Clone(body))
	if plain.Canonicalize() != nil { // which leaves no escape that need not be
		return true
	}
	quoted, err := jsontext.AppendQuote(nil, secret)
	return err != nil || bytes.Contains(plain, bytes.Trim(quoted, `"`))
}

func redacted(c wire.Complaint, secret string) wire.Complaint {
	if secret == "" {
		return c
	}
	for _, text := range []*string{&c.Type, &c.Code, &c.Param, &c.Message} {
		*text = strings.ReplaceAll(*text, secret, redaction)
	}
	return c
}

// maxWord bounds an upstream's type or code in a log line.
const maxWord = 64

// refusal describes an upstream's refusal for the log: its machine-readable
// words, never its sentences, which may repeat a prompt.
func refusal(status int, c wire.Complaint) error {
	return fmt.Errorf("upstream answered %d (type %.*q, code %.*q)", status, maxWord, c.Type, maxWord, c.Code)
}
