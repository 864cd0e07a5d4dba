package main

import (
	"bytes"
	"fmt"
	"strings"
)

// chatPath is where all three servers take chat completions.
const chatPath = "/v1/chat/completions"

// chunks is how many pieces of text a streamed answer has.
const chunks = 64

// mode says whether an answer comes whole or in pieces.
type mode string

const (
	whole  mode = "whole"
	stream mode = "stream"
)

// exchange is one call as it must go: what is sent, and every byte that must
// come back.
type exchange struct {
	request  []byte // body
	answer   []byte // body, chunks joined
	content  int    // length of the answer up to the end of its first text
	pieces   [][]byte
	mimeType string
}

// exchanges are the two calls of the benchmark. They are built, not read from
// a server, so that upstream and client agree on them without talking.
func exchanges() map[mode]exchange {
	pieces := streamedAnswer()
	return map[mode]exchange{
		whole: {
			request: request(false), mimeType: "application/json",
			answer: wholeAnswer(), content: len(wholeAnswer()), pieces: [][]byte{wholeAnswer()},
		},
		stream: {
			request: request(true), mimeType: "text/event-stream; charset=utf-8",
			answer: bytes.Join(pieces, nil), content: len(pieces[0]) + len(pieces[1]), pieces: pieces,
		},
	}
}

// request is a chat of a few turns, about 2 KiB.
func request(streamed bool) []byte {
	turn := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 8)
	var messages []string
	for _, role := range []string{"system", "user", "assistant", "user"} {
		messages = append(messages, fmt.Sprintf(`{"role":"%s","content":"%s"}`, role, turn))
	}
	return fmt.Appendf(nil, `{"model":"chat","messages":[%s],"temperature":0.2,"max_tokens":256,"stream":%t}`,
		strings.Join(messages, ","), streamed)
}

func wholeAnswer() []byte {
	text := strings.Repeat("A fox is a small animal. ", 20)
	return fmt.Appendf(nil, `{"id":"chatcmpl-bench","object":"chat.completion","created":1767225600,"model":"m1-2026-01-01",`+
		`"choices":[{"index":0,"message":{"role":"assistant","content":"%s","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],`+
		`"usage":{"prompt_tokens":412,"completion_tokens":%d,"total_tokens":%d,`+
		`"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},`+
		`"service_tier":"default","system_fingerprint":"fp_bench"}`, text, 120, 532)
}

// streamedAnswer is a role, the pieces of text, a finish reason and the end
// mark, each one event of the size that real ones have.
func streamedAnswer() [][]byte {
	pieces := [][]byte{chunk(`{"role":"assistant","content":"","refusal":null}`, "null")}
	for i := range chunks {
		pieces = append(pieces, chunk(fmt.Sprintf(`{"content":" word%02d"}`, i), "null"))
	}
	return append(pieces, chunk(`{}`, `"stop"`), []byte("data: [DONE]\n\n"))
}

func chunk(delta, finish string) []byte {
	return fmt.Appendf(nil, `data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1767225600,`+
		`"model":"m1-2026-01-01","service_tier":"default","system_fingerprint":"fp_bench",`+
		`"choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}]}`+"\n\n", delta, finish)
}

// usageChunk comes before the end mark when a request asked for it. The client
// of the benchmark does not ask; the gateway does, and keeps it to itself.
func usageChunk() []byte {
	return fmt.Appendf(nil, `data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1767225600,`+
		`"model":"m1-2026-01-01","service_tier":"default","system_fingerprint":"fp_bench","choices":[],`+
		`"usage":{"prompt_tokens":412,"completion_tokens":%d,"total_tokens":%d}}`+"\n\n", chunks, 412+chunks)
}
