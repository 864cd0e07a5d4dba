package openai

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/breakwater-llm/breakwater/internal/jsonscan"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// ReadFacts finds out, in one pass and without decoding, what the gateway has
// to know of a chat request. It returns a *RequestError for a body that is not
// JSON, has a duplicate key, nests too deeply or holds a number that is no
// double, and for a field that the gateway reads and that has the wrong type.
func ReadFacts(body []byte) (llm.Facts, error) {
	var r request
	s := jsonscan.Strict(body)
	r.read(&s)
	if err := s.End(); err != nil {
		return llm.Facts{}, requestError(body, err)
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

func (r *request) read(s *jsonscan.Scanner) {
	if !next(s, jsonscan.Object) {
		s.Skip() // what is broken in it goes first
		s.Fail(&RequestError{Code: CodeInvalidValue, Message: "The body must be a JSON object."})
	}
	for s.Object(); s.Member(); {
		r.readMember(s)
	}
}

func (r *request) readMember(s *jsonscan.Scanner) {
	switch string(s.Name) {
	case "model":
		r.hasModel = true
		r.readModel(s)
	case "messages":
		r.hasMessages = true
		r.readMessages(s)
	case "stream":
		r.Stream = readFlag(s, "stream")
	case "stream_options":
		r.readStreamOptions(s)
	case "max_tokens":
		r.MaxOutput = readLimit(s, "max_tokens")
	case "max_completion_tokens":
		r.maxCompletion = readLimit(s, "max_completion_tokens")
	default:
		refuseLookalike(s, "", "model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens")
		s.Skip()
	}
}

// refuseLookalike refuses a member that is named like a field of ours but for
// the letter case. Some servers do not tell the two apart, so that such a name
// would undo there what is decided here: the model, or whether the answer is a
// stream. The path is where the member stands, with its dot.
func refuseLookalike(s *jsonscan.Scanner, path string, fields ...string) {
	for _, field := range fields {
		if len(s.Name) >= len(field) && bytes.EqualFold(s.Name, []byte(field)) {
			s.Fail(wrong(path+string(s.Name), fmt.Sprintf("must be written %q", field)))
			return
		}
	}
}

func (r *request) readModel(s *jsonscan.Scanner) {
	if !next(s, jsonscan.String) {
		s.Fail(wrong("model", "must be a string"))
	}
	start := s.Offset()
	r.Model = string(s.Text())
	r.ModelSpan = llm.Span{Start: start, End: s.Offset()}
	if r.Model == "" {
		s.Fail(wrong("model", "must not be empty"))
	}
}

func (r *request) readStreamOptions(s *jsonscan.Scanner) {
	if !next(s, jsonscan.Object, jsonscan.Null) {
		s.Fail(wrong("stream_options", "must be an object"))
	}
	start := s.Offset()
	o, err := readOptions(s.Value())
	if err != nil {
		s.Fail(err)
	}
	r.IncludeUsage = o.include
	r.StreamOptionsSpan = llm.Span{Start: start, End: s.Offset()}
}

func (r *request) readMessages(s *jsonscan.Scanner) {
	if !next(s, jsonscan.Array) {
		s.Fail(wrong("messages", "must be an array"))
	}
	s.Array()
	for i := 0; s.Element(); i++ {
		if !next(s, jsonscan.Object) {
			s.Fail(wrong(fmt.Sprintf("messages[%d]", i), "must be an object"))
		}
		for s.Object(); s.Member(); {
			if string(s.Name) == "content" && !next(s, jsonscan.String, jsonscan.Array, jsonscan.Null) {
				s.Fail(wrong(fmt.Sprintf("messages[%d].content", i), "must be a string or an array"))
			}
			r.TextBytes += visibleMember(s)
		}
	}
}

// next reports whether a value of one of the kinds comes next. Broken JSON
// counts as any kind, so that reading on reports what is broken.
func next(s *jsonscan.Scanner, kinds ...jsonscan.Kind) bool {
	got := s.Kind()
	return got == jsonscan.Invalid || slices.Contains(kinds, got)
}

// readFlag reads a boolean; null counts as false.
func readFlag(s *jsonscan.Scanner, param string) bool {
	if !next(s, jsonscan.Bool, jsonscan.Null) {
		s.Fail(wrong(param, "must be a boolean"))
	}
	return string(s.Value()) == "true"
}

// readLimit reads a whole number of tokens. Null and the negative numbers with
// which some servers say "no limit" count as none.
func readLimit(s *jsonscan.Scanner, param string) int {
	if !next(s, jsonscan.Number, jsonscan.Null) {
		s.Fail(wrong(param, "must be an integer"))
	}
	kind, raw := s.Kind(), s.Value()
	if kind != jsonscan.Number {
		return 0
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || n != math.Trunc(n) || n > math.MaxInt32 {
		s.Fail(wrong(param, "must be an integer"))
		return 0
	}
	return max(int(n), 0)
}
