package openai

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// ReadFacts finds out, in one pass and without decoding, what the gateway has
// to know of a chat request. It returns a *RequestError for a body that is not
// JSON, has a duplicate key, nests too deeply or holds a number that is no
// double, and for a field that the gateway reads and that has the wrong type.
func ReadFacts(body []byte) (llm.Facts, error) {
	if err := checkShape(body); err != nil {
		return llm.Facts{}, err
	}
	var r request
	if err := json.Unmarshal(body, &r); err != nil {
		return llm.Facts{}, requestError(err)
	}
	switch {
	case !r.hasModel:
		return llm.Facts{}, wrong("model", "is required")
	case !r.hasMessages:
		return llm.Facts{}, wrong("messages", "is required")
	}
	if r.maxCompletion > 0 {
		r.MaxOutput = r.maxCompletion
	}
	return r.Facts, nil
}

// request gathers the facts while the body is walked.
type request struct {
	llm.Facts
	hasModel, hasMessages bool
	maxCompletion         int
}

// UnmarshalJSONFrom walks the body.
func (r *request) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if kind := dec.PeekKind(); kind != jsontext.KindBeginObject && kind != jsontext.KindInvalid {
		return &RequestError{Code: CodeInvalidValue, Message: "The body must be a JSON object."}
	}
	return readObject(dec, func(name []byte) error { return r.member(dec, name) })
}

func (r *request) member(dec *jsontext.Decoder, name []byte) (err error) {
	switch string(name) {
	case "model":
		r.hasModel = true
		return r.readModel(dec)
	case "messages":
		r.hasMessages = true
		return r.readMessages(dec)
	case "stream":
		r.Stream, err = readFlag(dec, "stream")
	case "stream_options":
		return r.readStreamOptions(dec)
	case "max_tokens":
		r.MaxOutput, err = readLimit(dec, "max_tokens")
	case "max_completion_tokens":
		r.maxCompletion, err = readLimit(dec, "max_completion_tokens")
	default:
		if field := lookalike(name); field != "" {
			return wrong(string(name), fmt.Sprintf("must be written %q", field))
		}
		return dec.SkipValue()
	}
	return err
}

// lookalike returns the field of ours that a name is in another letter case.
// Some servers do not tell the two apart, so that such a name would undo there
// what is decided here: the model, or whether the answer is a stream.
func lookalike(name []byte) string {
	for _, field := range [...]string{"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens"} {
		if len(name) >= len(field) && bytes.EqualFold(name, []byte(field)) {
			return field
		}
	}
	return ""
}

func (r *request) readModel(dec *jsontext.Decoder) error {
	if !next(dec, jsontext.KindString) {
		return wrong("model", "must be a string")
	}
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	r.Model = string(unquote(raw))
	if r.Model == "" {
		return wrong("model", "must not be empty")
	}
	r.ModelSpan = spanOf(dec, raw)
	return nil
}

func (r *request) readStreamOptions(dec *jsontext.Decoder) error {
	if !next(dec, jsontext.KindBeginObject) && dec.PeekKind() != jsontext.KindNull {
		return wrong("stream_options", "must be an object")
	}
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	r.StreamOptionsSpan = spanOf(dec, raw)
	o, err := readOptions(raw)
	r.IncludeUsage = o.include
	return err
}

func (r *request) readMessages(dec *jsontext.Decoder) error {
	if !next(dec, jsontext.KindBeginArray) {
		return wrong("messages", "must be an array")
	}
	return readArray(dec, func(i int) error {
		if !next(dec, jsontext.KindBeginObject) {
			return wrong(fmt.Sprintf("messages[%d]", i), "must be an object")
		}
		return readObject(dec, func(name []byte) error {
			if string(name) == "content" && !next(dec, jsontext.KindString, jsontext.KindBeginArray, jsontext.KindNull) {
				return wrong(fmt.Sprintf("messages[%d].content", i), "must be a string or an array")
			}
			n, err := readNamed(dec, name)
			r.TextBytes += n
			return err
		})
	})
}

// next reports whether a value of one of the kinds comes next. Broken JSON
// counts as any kind, so that reading on reports what is broken.
func next(dec *jsontext.Decoder, kinds ...jsontext.Kind) bool {
	got := dec.PeekKind()
	if got == jsontext.KindFalse {
		got = jsontext.KindTrue
	}
	for _, kind := range kinds {
		if got == kind {
			return true
		}
	}
	return got == jsontext.KindInvalid
}

// readFlag reads a boolean; null counts as false.
func readFlag(dec *jsontext.Decoder, param string) (bool, error) {
	if !next(dec, jsontext.KindTrue, jsontext.KindNull) {
		return false, wrong(param, "must be a boolean")
	}
	token, err := dec.ReadToken()
	return err == nil && token.Kind() == jsontext.KindTrue, err
}

// readLimit reads a whole number of tokens. Null and the negative numbers with
// which some servers say "no limit" count as none.
func readLimit(dec *jsontext.Decoder, param string) (int, error) {
	if !next(dec, jsontext.KindNumber, jsontext.KindNull) {
		return 0, wrong(param, "must be an integer")
	}
	raw, err := dec.ReadValue()
	if err != nil || raw.Kind() == jsontext.KindNull {
		return 0, err
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || n != math.Trunc(n) || n > math.MaxInt32 {
		return 0, wrong(param, "must be an integer")
	}
	return max(int(n), 0), nil
}

// spanOf returns where the value that was just read lies in the body.
func spanOf(dec *jsontext.Decoder, raw jsontext.Value) llm.Span {
	end := int(dec.InputOffset())
	return llm.Span{Start: end - len(raw), End: end}
}
