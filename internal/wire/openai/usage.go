package openai

import (
	"math"
	"strconv"

	"github.com/breakwater-llm/breakwater/internal/jsonscan"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// maxCount is the largest number of tokens that is believed of one call. It is
// far beyond what any model takes or gives, and far below what the sums and
// costs of many calls could not hold.
const maxCount = 1_000_000_000

// readUsage reads a usage object into u. Null and other kinds leave u as it
// is. Cached, cache-write and audio tokens are part of the prompt's, reasoning
// and audio tokens of the completion's; a report that contradicts this is
// clamped and marked.
func readUsage(s *jsonscan.Scanner, u *llm.Usage) {
	if !s.Object() {
		return
	}
	var report llm.Usage
	var total llm.Count
	for s.Member() {
		switch string(s.Name) {
		case "prompt_tokens":
			readCount(s, &report.Input, &report.Anomaly)
		case "completion_tokens":
			readCount(s, &report.Output, &report.Anomaly)
		case "total_tokens":
			readCount(s, &total, &report.Anomaly)
		case "prompt_cache_hit_tokens":
			readCount(s, &report.Cached, &report.Anomaly)
		case "prompt_tokens_details":
			readDetails(s, &report, &report.AudioInput)
		case "completion_tokens_details":
			readDetails(s, &report, &report.AudioOutput)
		default:
			s.Skip()
		}
	}
	if s.Err() == nil {
		*u = u.Revised(plausible(withRest(report, total)))
	}
}

// readDetails reads the parts of a count; the tokens of audio have one name on
// both sides, so the caller says which they are.
func readDetails(s *jsonscan.Scanner, u *llm.Usage, audio *llm.Count) {
	if !s.Object() {
		return
	}
	for s.Member() {
		switch string(s.Name) {
		case "cached_tokens":
			readCount(s, &u.Cached, &u.Anomaly)
		case "cache_write_tokens":
			readCount(s, &u.CacheWrite, &u.Anomaly)
		case "reasoning_tokens":
			readCount(s, &u.Reasoning, &u.Anomaly)
		case "audio_tokens":
			readCount(s, audio, &u.Anomaly)
		default:
			s.Skip()
		}
	}
}

// readCount reads a number of tokens. Null is no report; anything that cannot
// be a number of tokens is none either, and an anomaly.
func readCount(s *jsonscan.Scanner, c *llm.Count, anomaly *bool) {
	kind, raw := s.Kind(), s.Value()
	if kind == jsonscan.Null {
		return
	}
	n, err := strconv.ParseFloat(string(raw), 64) // which is exact up to maxCount, and beyond
	if err != nil || n < 0 || n != math.Trunc(n) || n > maxCount {
		*anomaly = true
		return
	}
	*c = llm.Tokens(int64(n))
}

// withRest adds to the output what only the total counts: some servers leave the
// tokens of reasoning out of the completion's, and bill them. Where no count of
// reasoning explains the rest, it is marked.
func withRest(u llm.Usage, total llm.Count) llm.Usage {
	rest := total.N - u.Input.N - u.Output.N
	if !u.Input.Known || !u.Output.Known || rest <= 0 {
		return u
	}
	u.Anomaly = u.Anomaly || rest != u.Reasoning.N
	u.Output.N += rest
	return u
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
		clamp(&u.AudioInput, u.Input.N) // of which some may be cached, too
	}
	if u.Output.Known {
		clamp(&u.Reasoning, u.Output.N)
		clamp(&u.AudioOutput, u.Output.N-u.Reasoning.N)
	}
	return u
}
