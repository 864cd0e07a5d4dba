package provider

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/wire"
)

// redaction stands where an upstream repeated a key of ours.
const redaction = "[redacted]"

// relayed returns what a client may be told of an upstream's refusal. The body
// itself may be passed on only when it is an error of the client's dialect and
// does not repeat a key of ours.
func relayed(c wire.Complaint, body []byte, secrets []string) *llm.UpstreamError {
	clean := redacted(c, secrets)
	e := &llm.UpstreamError{Type: clean.Type, Code: clean.Code, Param: clean.Param, Message: clean.Message}
	repeats := clean.Type != c.Type || clean.Code != c.Code || clean.Param != c.Param || clean.Message != c.Message
	if c.Native && !repeats && !holds(body, secrets) {
		e.Body = bytes.Clone(body)
	}
	return e
}

// longestFirst puts the secrets into the order in which they are looked for:
// one may be the beginning of another, whose rest would then stay. Empty ones
// are none.
func longestFirst(secrets []string) []string {
	kept := slices.DeleteFunc(slices.Clone(secrets), func(secret string) bool { return secret == "" })
	slices.SortFunc(kept, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return kept
}

// holds reports whether a JSON body repeats one of the secrets, plainly or
// behind escapes. A body that cannot be told is taken to.
func holds(body []byte, secrets []string) bool {
	if len(secrets) == 0 {
		return false
	}
	plain := jsontext.Value(bytes.Clone(body))
	if plain.Canonicalize() != nil { // which leaves no escape that need not be
		return true
	}
	return slices.ContainsFunc(secrets, func(secret string) bool {
		quoted, err := jsontext.AppendQuote(nil, secret)
		return err != nil || bytes.Contains(plain, bytes.Trim(quoted, `"`))
	})
}

func redacted(c wire.Complaint, secrets []string) wire.Complaint {
	for _, text := range []*string{&c.Type, &c.Code, &c.Param, &c.Message} {
		for _, secret := range secrets {
			*text = strings.ReplaceAll(*text, secret, redaction)
		}
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
