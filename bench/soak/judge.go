package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// The words of an answer: each piece begins with the call's id and its own
// number, the last one says that it is the last.
func piece(id string, n int) string { return fmt.Sprintf("%s:%d ", id, n) }
func lastPiece(id string) string    { return id + ":end" }

// judgeWhole checks that a body is the whole answer to a call.
func judgeWhole(id string, body []byte) error {
	var answer struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("a 200 that is no JSON: %w: %.200q", err, body)
	}
	if len(answer.Choices) != 1 {
		return fmt.Errorf("a 200 with %d choices: %.200q", len(answer.Choices), body)
	}
	text := answer.Choices[0].Message.Content
	if !strings.HasPrefix(text, piece(id, 0)) || !strings.HasSuffix(text, lastPiece(id)) {
		return fmt.Errorf("a 200 that is not the answer to %s: %.200q", id, text)
	}
	return nil
}

// failure is the error in an envelope.
type failure struct{ Message, Type, Code string }

// judgeError checks that a body is an error that a client can read.
func judgeError(body []byte) error {
	var envelope struct{ Error *failure }
	err := json.Unmarshal(body, &envelope)
	if err != nil || envelope.Error == nil || envelope.Error.Message == "" || envelope.Error.Type == "" {
		return fmt.Errorf("an error without an envelope: %.200q", body)
	}
	return nil
}

// reading is how far a client has come in a stream.
type reading struct {
	id     string
	pieces int
	whole  bool // the last piece has come
	end    end  // how the stream ended by its own words; empty while it goes on
}

// line takes the next line of the stream. Returns an error when no honest
// stream has it at this place.
func (r *reading) line(line string) error {
	data, ok := strings.CutPrefix(line, "data:")
	data = strings.TrimSpace(data)
	switch {
	case line == "" || line[0] == ':':
		return nil
	case !ok:
		return fmt.Errorf("a stream with a line that is no event: %.200q", line)
	case r.end != "":
		return fmt.Errorf("a stream that goes on after its end: %.200q", line)
	case data == "[DONE]" && !r.whole:
		return fmt.Errorf("a stream that claims its end after %d pieces, without the last", r.pieces)
	case data == "[DONE]":
		r.end = served
		return nil
	}
	return r.event(data)
}

func (r *reading) event(data string) error {
	var event struct {
		Choices []struct{ Delta struct{ Content string } }
		Error   *failure
	}
	if err := json.Unmarshal([]byte(data), &event); err != nil {
		return fmt.Errorf("an event that is no JSON: %w: %.200q", err, data)
	}
	if event.Error != nil {
		r.end = cutShort
		return nil
	}
	if len(event.Choices) != 1 {
		return fmt.Errorf("an event that the client did not ask for: %.200q", data)
	}
	text := event.Choices[0].Delta.Content
	switch {
	case text == "":
	case r.whole:
		return fmt.Errorf("text after the last piece: %.100q", text)
	case text == lastPiece(r.id):
		r.whole = true
	case strings.HasPrefix(text, piece(r.id, r.pieces)):
		r.pieces++
	default:
		return fmt.Errorf("%.100q instead of piece %d of %s", text, r.pieces, r.id)
	}
	return nil
}

// close says how the stream ended, once there is nothing more to read.
func (r *reading) close() (end, error) {
	if r.end == "" {
		return lost, errors.New("a stream that ended without an end mark and without an error")
	}
	return r.end, nil
}
