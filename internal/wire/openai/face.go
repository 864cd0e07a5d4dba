package openai

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/breakwater-llm/breakwater/internal/sse"
)

// Error is an error of the gateway's own, as a client of this dialect sees it.
type Error struct {
	Message string
	Type    string
	Param   string // empty = null
	Code    string // empty = null
}

// AppendError appends the error as a JSON body to dst.
func AppendError(dst []byte, e Error) []byte {
	dst = append(dst, `{"error":{"message":`...)
	dst = appendText(dst, e.Message)
	dst = append(dst, `,"type":`...)
	dst = appendText(dst, e.Type)
	dst = append(dst, `,"param":`...)
	dst = appendOptional(dst, e.Param)
	dst = append(dst, `,"code":`...)
	dst = appendOptional(dst, e.Code)
	return append(dst, `}}`...)
}

// AppendErrorEvent appends the error as the event that ends a stream. No
// [DONE] may follow it: a client would take the answer for a whole one.
func AppendErrorEvent(dst []byte, e Error) []byte {
	return sse.AppendData(dst, AppendError(nil, e))
}

// AppendDone appends the event that ends a whole stream.
func AppendDone(dst []byte) []byte { return sse.AppendData(dst, []byte(Done)) }

func appendOptional(dst []byte, text string) []byte {
	if text == "" {
		return append(dst, "null"...)
	}
	return appendText(dst, text)
}

// appendText appends a JSON string; bytes that are no UTF-8 are replaced.
func appendText(dst []byte, text string) []byte {
	dst, _ = jsontext.AppendQuote(dst, text)
	return dst
}
