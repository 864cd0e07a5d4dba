package openai

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/breakwater-llm/breakwater/internal/jsonscan"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Changes are what a body gets on its way to a server.
type Changes struct {
	Model  string
	Insert llm.Insertion
	// OutputLimit is what the answer is kept under, in tokens, where the client names
	// no limit that the server heeds; 0 = nothing. OutputField is where the server
	// looks for it.
	OutputLimit int
	OutputField OutputField
}

// Splice returns the body, in pieces, with another model, with what is to be
// inserted, for a stream with usage asked for, and with a limit of the answer
// where one is wanted. Every other byte stays, and the pieces share memory with
// the body: nothing large is copied. The facts must be those of the body.
func Splice(body []byte, facts llm.Facts, changes Changes) [][]byte {
	edits := make([]edit, 0, 5)
	if changes.Model != facts.Model {
		name, _ := jsontext.AppendQuote(nil, changes.Model)
		edits = append(edits, edit{facts.ModelSpan, name})
	}
	if facts.Stream && !facts.IncludeUsage {
		edits = append(edits, askUsage(body, facts))
	}
	if insert := changes.Insert; len(insert.Text) > 0 {
		edits = append(edits, edit{llm.Span{Start: insert.At, End: insert.At}, insert.Text})
	}
	if changes.OutputLimit > 0 {
		edits = limitOutput(edits, body, facts, changes)
	}
	slices.SortFunc(edits, func(a, b edit) int { return a.Start - b.Start })

	pieces := make([][]byte, 0, 2*len(edits)+1)
	at := 0
	for _, e := range edits {
		pieces = append(pieces, body[at:e.Start], e.text)
		at = e.End
	}
	return append(pieces, body[at:])
}

// edit replaces a span of a body by a text.
type edit struct {
	llm.Span
	text []byte
}

// askUsage returns the edit that sets stream_options.include_usage and keeps
// whatever else the client put into stream_options.
func askUsage(body []byte, facts llm.Facts) edit {
	at := facts.StreamOptionsSpan
	if at.IsZero() {
		end := facts.ModelSpan.End
		return edit{llm.Span{Start: end, End: end}, []byte(`,"stream_options":{"include_usage":true}`)}
	}
	value := body[at.Start:at.End]
	if value[0] != '{' {
		return edit{at, []byte(`{"include_usage":true}`)}
	}
	options, _ := readOptions(value) // ReadFacts has read it before
	if span := options.span; !span.IsZero() {
		return edit{llm.Span{Start: at.Start + span.Start, End: at.Start + span.End}, []byte("true")}
	}
	text := []byte(`"include_usage":true,`)
	if len(bytes.TrimSpace(value[1:len(value)-1])) == 0 {
		text = text[:len(text)-1]
	}
	return edit{llm.Span{Start: at.Start + 1, End: at.Start + 1}, text}
}

// options is what "stream_options" says.
type options struct {
	include bool     // the value of include_usage
	span    llm.Span // where that value is, within stream_options
}

// readOptions reads an object, or anything else as one without members.
func readOptions(value []byte) (o options, err error) {
	s := jsonscan.Lenient(value)
	if s.Object() {
		o.read(&s)
	}
	return o, s.End()
}

func (o *options) read(s *jsonscan.Scanner) {
	for s.Member() {
		switch {
		case string(s.Name) != "include_usage":
			refuseLookalike(s, "stream_options.", "include_usage")
			s.Skip()
		case !next(s, jsonscan.Bool, jsonscan.Null):
			s.Fail(wrong("stream_options.include_usage", "must be a boolean"))
		default:
			start := s.Offset()
			o.include = string(s.Value()) == "true"
			o.span = llm.Span{Start: start, End: s.Offset()}
		}
	}
}
