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

// The fields in which a request limits its answer, in tokens.
const (
	fieldMaxTokens     = "max_tokens"
	fieldMaxCompletion = "max_completion_tokens" // what OpenAI's own API calls it now
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
	r.MostOutput = max(r.MaxOutput, r.maxCompletion)
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
	case fieldMaxTokens:
		r.MaxOutput, r.MaxTokensSpan = readLimit(s, fieldMaxTokens)
	case fieldMaxCompletion:
		r.maxCompletion, r.MaxCompletionSpan = readLimit(s, fieldMaxCompletion)
	case "n":
		r.Choices, _ = readLimit(s, "n")
	case "tools", "functions", "response_format":
		s.Kind() // goes to where the value begins
		start := s.Offset()
		s.Skip()
		r.ToolBytes += s.Offset() - start
	default:
		refuseLookalike(s, "", "model", "messages", "stream", "stream_options", fieldMaxTokens, fieldMaxCompletion, "n")
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
			r.readPart(s)
		}
	}
}

// readPart reads a member of a message, and the parts that a content is made of.
func (r *request) readPart(s *jsonscan.Scanner) {
	if string(s.Name) != "content" || s.Kind() != jsonscan.Array {
		r.readVisible(s)
		return
	}
	for s.Array(); s.Element(); {
		if s.Kind() != jsonscan.Object {
			r.TextBytes += visible(s)
			continue
		}
		for s.Object(); s.Member(); {
			r.readVisible(s)
		}
	}
}

// readVisible counts what a member gives a model to read: text, or something else.
func (r *request) readVisible(s *jsonscan.Scanner) {
	medium, file := isMedium(s.Name), isFile(s.Name)
	none := s.Kind() == jsonscan.Null
	start := s.Offset()
	r.TextBytes += visibleMember(s)
	switch {
	case none || !medium && !file:
		return
	case medium:
		r.Media++
	default:
		r.Files++
	}
	r.MediaBytes += s.Offset() - start
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

// readLimit reads a whole number of tokens, or of answers, and where it stands.
// Null and the negative numbers with which some servers say "no limit" count as
// none.
func readLimit(s *jsonscan.Scanner, param string) (int, llm.Span) {
	if !next(s, jsonscan.Number, jsonscan.Null) {
		s.Fail(wrong(param, "must be an integer"))
	}
	kind, start := s.Kind(), s.Offset()
	raw := s.Value()
	at := llm.Span{Start: start, End: s.Offset()}
	if kind != jsonscan.Number {
		return 0, at
	}
	n, whole := wholeOf(raw)
	if !whole {
		s.Fail(wrong(param, "must be an integer"))
	}
	return n, at
}

// wholeOf reads a JSON number that is whole and not out of all proportion; a
// negative one as 0.
func wholeOf(raw []byte) (int, bool) {
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || n != math.Trunc(n) || n > math.MaxInt32 {
		return 0, false
	}
	return int(max(n, 0)), true
}
