package openai

import (
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
	err := readObject(dec, func(name []byte) error {
		switch string(name) {
		case "prompt_tokens":
			return readCount(dec, &report.Input, &report.Anomaly)
		case "completion_tokens":
			return readCount(dec, &report.Output, &report.Anomaly)
		case "prompt_cache_hit_tokens":
			return readCount(dec, &report.Cached, &report.Anomaly)
		case "prompt_tokens_details", "completion_tokens_details":
			return readDetails(dec, &report)
		default:
			return dec.SkipValue()
		}
	})
	if err == nil && report.Known() {
		*u = plausible(report)
	}
	return err
}

func readDetails(dec *jsontext.Decoder, u *llm.Usage) error {
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
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil && n >= 0 {
		*c = llm.Tokens(n)
		return nil
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || n < 0 || n != math.Trunc(n) || n >= math.MaxInt64 {
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
	}
	if u.Output.Known {
		clamp(&u.Reasoning, u.Output.N)
	}
	return u
}
