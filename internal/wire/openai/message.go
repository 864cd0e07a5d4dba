package openai

import (
	"strconv"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Message returns a whole answer that consists of one text, and for which no
// tokens were used.
func (Codec) Message(model, text string, now time.Time) []byte {
	body := append([]byte(`{"id":"chatcmpl-`), strconv.FormatInt(now.UnixNano(), 36)...)
	body = append(body, `","object":"chat.completion","created":`...)
	body = appendCount(body, now.Unix())
	body = appendText(append(body, `,"model":`...), model)
	body = append(body, `,"choices":[{"index":0,"message":{"role":"assistant","content":`...)
	body = appendText(body, text)
	body = append(body, `},"finish_reason":"stop"}],"usage":`...)
	body = appendUsage(body, llm.Usage{Input: llm.Tokens(0), Output: llm.Tokens(0)})
	return append(body, '}')
}

// appendUsage appends a report of usage to dst.
func appendUsage(dst []byte, u llm.Usage) []byte {
	dst = appendCount(append(dst, `{"prompt_tokens":`...), u.Input.N)
	dst = appendCount(append(dst, `,"completion_tokens":`...), u.Output.N)
	dst = appendCount(append(dst, `,"total_tokens":`...), u.Input.N+u.Output.N)
	if u.Cached.Known {
		dst = appendCount(append(dst, `,"prompt_tokens_details":{"cached_tokens":`...), u.Cached.N)
		dst = append(dst, '}')
	}
	if u.Reasoning.Known {
		dst = appendCount(append(dst, `,"completion_tokens_details":{"reasoning_tokens":`...), u.Reasoning.N)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

func appendCount(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }
