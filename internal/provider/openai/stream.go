package openai

import (
	"errors"
	"io"
	"strings"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/provider"
	"github.com/breakwater-llm/breakwater/internal/sse"
	wire "github.com/breakwater-llm/breakwater/internal/wire/openai"
)

// errorEvent is the name that some servers give an event which reports an error,
// whatever stands in it.
const errorEvent = "error"

var errTruncated = errors.New("the stream ended without a finish reason of every choice and without " + wire.Done)

// stream is one event stream on its way from the server to the client.
type stream struct {
	exchange *provider.Exchange
	reader   *sse.Reader
	emit     llm.Emit
	asked    bool // the client itself asked for usage

	chunk    wire.Chunk // of the event in hand
	usage    llm.Usage
	text     int
	after    int // of text, what came after the last report of output
	choices  int // that were asked for
	began    wire.Choices
	finished wire.Choices // those whose finish reason has come
}

// relay hands the events of a response upward as they come.
func (c *Client) relay(x *provider.Exchange, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
	reader := c.readers.Get().(*sse.Reader)
	reader.Reset(x)
	defer func() {
		reader.Reset(nil)
		c.readers.Put(reader)
	}()

	s := &stream{exchange: x, reader: reader, emit: emit, asked: call.Facts.IncludeUsage, choices: max(call.Facts.Choices, 1)}
	failure := s.run()
	result := x.Result()
	result.Streamed, result.Usage, result.OutputBytes, result.AfterReport = true, s.usage, s.text, s.after
	if failure != nil {
		return result, failure
	}
	return result, nil
}

// run reads events until the stream ends. [DONE] ends it at once, whatever the
// server does with its connection then.
func (s *stream) run() *llm.Failure {
	for {
		event, err := s.reader.Next()
		if errors.Is(err, io.EOF) {
			return s.eof()
		}
		if err != nil {
			return s.exchange.Failure(err)
		}
		chunk := &s.chunk
		err = chunk.Read(event.Data)
		switch {
		case chunk.Failed && err == nil, strings.EqualFold(string(event.Name), errorEvent):
			return s.exchange.Refused(wire.ReadComplaint(event.Data), event.Data)
		case err != nil:
			return s.exchange.Unusable(llm.ClassConnection, llm.ReasonMalformed, err)
		}
		if chunk.Kind == llm.EventTerminal && s.began.None() {
			return s.empty()
		}
		if err := s.emit(s.event(event)); err != nil {
			return s.exchange.Abandoned(err)
		}
		if chunk.Kind == llm.EventTerminal {
			s.exchange.Finished()
			return nil
		}
	}
}

// event turns an event of the server into one of the client's and keeps
// account of it.
func (s *stream) event(event sse.Event) llm.Event {
	chunk := &s.chunk
	s.text, s.after = s.text+chunk.TextBytes, s.after+chunk.TextBytes
	s.began.AddAll(chunk.Began)
	s.finished.AddAll(chunk.Finished)
	if chunk.Kind == llm.EventContent {
		s.exchange.FirstContent()
	}
	e := llm.Event{Raw: event.Raw, Kind: chunk.Kind, TextBytes: chunk.TextBytes, More: event.More}
	s.usage = s.usage.Revised(chunk.Usage)
	if chunk.Usage.Output.Known {
		s.after = 0
	}
	if chunk.Usage.Known() {
		usage := chunk.Usage // the chunk is read anew
		e.Usage = &usage
	}
	if chunk.Kind == llm.EventUsage && !s.asked {
		e.Raw = nil
	}
	return e
}

// eof decides what a stream is that ended without [DONE]. With a finish reason of
// every choice the answer is whole, and the client gets the end mark that its
// library waits for.
func (s *stream) eof() *llm.Failure {
	switch {
	case s.finished.Len() >= s.choices && s.finished.All(s.began):
		if err := s.emit(llm.Event{Raw: wire.AppendDone(nil), Kind: llm.EventTerminal}); err != nil {
			return s.exchange.Abandoned(err)
		}
		return nil
	case s.began.None():
		return s.empty()
	default:
		return s.exchange.Unusable(llm.ClassConnection, llm.ReasonTruncated, errTruncated)
	}
}

// empty is the failure of a stream without a single choice, whatever its end.
func (s *stream) empty() *llm.Failure {
	return s.exchange.Unusable(llm.ClassServerError, llm.ReasonEmptyBody, wire.ErrEmptyBody)
}
