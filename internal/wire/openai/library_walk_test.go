package openai_test

import (
	"bytes"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// readUsage reads a usage object into u. Null and other kinds leave u as it
// is. Cached and cache-write tokens are part of the prompt's, reasoning tokens
// of the completion's; a report that contradicts this is clamped and marked.
func readUsage(dec *jsontext.Decoder, u *llm.Usage) error {
	if dec.PeekKind() != jsontext.KindBeginObject {
		return dec.SkipValue()
	}
	var report llm.Usage
	var total llm.Count
	err := readObject(dec, func(name []byte) error {
		switch string(name) {
		case "prompt_tokens":
			return readCount(dec, &report.Input, &report.Anomaly)
		case "completion_tokens":
			return readCount(dec, &report.Output, &report.Anomaly)
		case "total_tokens":
			return readCount(dec, &total, &report.Anomaly)
		case "prompt_cache_hit_tokens":
			return readCount(dec, &report.Cached, &report.Anomaly)
		case "prompt_tokens_details":
			return readDetails(dec, &report, &report.AudioInput)
		case "completion_tokens_details":
			return readDetails(dec, &report, &report.AudioOutput)
		default:
			return dec.SkipValue()
		}
	})
	if err == nil {
		if rest := total.N - report.Input.N - report.Output.N; report.Input.Known && report.Output.Known && rest > 0 {
			report.Output.N += rest
			report.Anomaly = report.Anomaly || rest != report.Reasoning.N
		}
		*u = u.Revised(plausible(report))
	}
	return err
}

func readDetails(dec *jsontext.Decoder, u *llm.Usage, audio *llm.Count) error {
	if dec.PeekKind() != jsontext.KindBeginObject {
		return dec.SkipValue()
	}
	return readObject(dec, func(name []byte) error {
		switch string(name) {
		case "cached_tokens":
			return readCount(dec, &u.Cached, &u.Anomaly)
		case "cache_write_tokens":
			return readCount(dec, &u.CacheWrite, &u.Anomaly)
		case "reasoning_tokens":
			return readCount(dec, &u.Reasoning, &u.Anomaly)
		case "audio_tokens":
			return readCount(dec, audio, &u.Anomaly)
		default:
			return dec.SkipValue()
		}
	})
}

// readCount reads a number of tokens. Null is no report; anything that cannot
// be a number of tokens is none either, and an anomaly.
func readCount(dec *jsontext.Decoder, c *llm.Count, anomaly *bool) error {
	raw, err := dec.ReadValue()
	if err != nil || raw.Kind() == jsontext.KindNull {
		return err
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || n < 0 || n != math.Trunc(n) || n > 1e9 {
		*anomaly = true
		return nil
	}
	*c = llm.Tokens(int64(n))
	return nil
}

// plausible clamps parts to their whole.
func plausible(u llm.Usage) llm.Usage {
	clamp := func(part *llm.Count, room int64) {
		if part.N > room {
			part.N, u.Anomaly = room, true
		}
	}
	if u.Input.Known {
		clamp(&u.Cached, u.Input.N)
		clamp(&u.CacheWrite, u.Input.N-u.Cached.N)
		clamp(&u.AudioInput, u.Input.N)
	}
	if u.Output.Known {
		clamp(&u.Reasoning, u.Output.N)
		clamp(&u.AudioOutput, u.Output.N-u.Reasoning.N)
	}
	return u
}

// readObject reads the object that comes next and calls member for each of its
// names; member must read or skip the value. Every decoder here reads bytes
// that are in memory as a whole, so a name stays valid.
func readObject(dec *jsontext.Decoder, member func(name []byte) error) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != jsontext.KindEndObject {
		raw, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if err := member(unquote(raw)); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// readArray reads the array that comes next and calls element for each of its
// values; element must read or skip it.
func readArray(dec *jsontext.Decoder, element func(i int) error) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for i := 0; dec.PeekKind() != jsontext.KindEndArray; i++ {
		if err := element(i); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// unquote returns the text of a JSON string, without a copy when nothing in it
// is escaped.
func unquote(raw jsontext.Value) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, raw)
	return text
}

// readText reads a string and returns how many bytes of text it holds. Any
// other value is skipped and holds none.
func readText(dec *jsontext.Decoder) (int, error) {
	if dec.PeekKind() != jsontext.KindString {
		return 0, dec.SkipValue()
	}
	raw, err := dec.ReadValue()
	if err != nil {
		return 0, err
	}
	return textLen(raw), nil
}

// textLen returns the length of a JSON string's text in bytes.
func textLen(raw jsontext.Value) int {
	n := len(raw) - 2
	for rest := []byte(raw); ; {
		at := bytes.IndexByte(rest, '\\')
		if at < 0 {
			return n
		}
		width, text := escape(rest[at:])
		n -= width - text
		rest = rest[at+width:]
	}
}

// escape returns the width of the escape sequence at the start of b and the
// bytes of text it stands for. Either half of a surrogate pair stands for two
// of the four bytes of its character.
func escape(b []byte) (width, text int) {
	if b[1] != 'u' {
		return 2, 1
	}
	switch hex := bytes.ToLower(b[2:6]); {
	case hex[0] == '0' && hex[1] == '0' && hex[2] < '8':
		return 6, 1
	case hex[0] == '0' && hex[1] < '8':
		return 6, 2
	case hex[0] == 'd' && hex[1] >= '8':
		return 6, 2
	default:
		return 6, 3
	}
}

// readVisible reads any value and returns the bytes of text in it that a
// person or a model reads: message texts, names and arguments of tool calls.
// Ids, roles, types and encoded media are not text.
func readVisible(dec *jsontext.Decoder) (int, error) {
	n := 0
	add := func(m int, err error) error {
		n += m
		return err
	}
	switch dec.PeekKind() {
	case jsontext.KindBeginArray:
		err := readArray(dec, func(int) error { return add(readVisible(dec)) })
		return n, err
	case jsontext.KindBeginObject:
		err := readObject(dec, func(name []byte) error { return add(readNamed(dec, name)) })
		return n, err
	default:
		return 0, dec.SkipValue()
	}
}

// readNamed reads the value of an object's member and returns the bytes of
// visible text in it.
func readNamed(dec *jsontext.Decoder, name []byte) (int, error) {
	if isText(name) && dec.PeekKind() == jsontext.KindString {
		return readText(dec)
	}
	return readVisible(dec)
}

func isText(name []byte) bool {
	switch string(name) {
	case "content", "text", "refusal", "reasoning", "reasoning_content", "thinking", "name", "arguments", "input":
		return true
	default:
		return false
	}
}
