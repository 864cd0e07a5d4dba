package openai

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/breakwater-llm/breakwater/internal/jsonscan"
	"github.com/breakwater-llm/breakwater/internal/wire"
)

// maxQuote is how much of a body without any structure is quoted, in bytes.
const maxQuote = 300

// ReadComplaint finds out what an error body says. Servers that speak this
// dialect do not agree on the shape of their errors: beside OpenAI's envelope
// it reads integer codes, a string under "error", a flat object, the "detail"
// of FastAPI, an array around the envelope, plain text and HTML pages.
func ReadComplaint(body []byte) wire.Complaint {
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 {
		return wire.Complaint{}
	}
	switch trimmed[0] {
	case '<':
		return wire.Complaint{Markup: true}
	case '[':
		var list []jsontext.Value
		if decode(trimmed, &list) && len(list) > 0 && list[0].Kind() == jsontext.KindBeginObject {
			c := ReadComplaint(list[0])
			c.Native = false
			return c
		}
	case '{':
		var e envelope
		if decode(trimmed, &e) {
			return e.complaint(trimmed)
		}
	}
	return wire.Complaint{Message: quote(trimmed)}
}

func decode(value jsontext.Value, into any) bool {
	return json.Unmarshal(value, into, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) == nil
}

// envelope is every shape of a whole error body at once.
type envelope struct {
	Error  jsontext.Value `json:"error"`
	Detail jsontext.Value `json:"detail"`
	report
}

// report is the error itself, wrapped or flat.
type report struct {
	Message  jsontext.Value `json:"message"`
	Type     jsontext.Value `json:"type"`
	Param    jsontext.Value `json:"param"`
	Code     jsontext.Value `json:"code"`
	Status   jsontext.Value `json:"status"`
	Inner    jsontext.Value `json:"innererror"`
	Details  jsontext.Value `json:"details"`
	Metadata jsontext.Value `json:"metadata"`
}

func (e *envelope) complaint(body jsontext.Value) wire.Complaint {
	switch {
	case e.Error.Kind() == jsontext.KindBeginObject:
		var r report
		if !decode(e.Error, &r) {
			break
		}
		c := r.complaint()
		c.Native = r.Message.Kind() == jsontext.KindString && body.IsValid()
		return c
	case e.Error.Kind() == jsontext.KindString:
		return wire.Complaint{Message: text(e.Error)}
	case e.Detail != nil:
		return e.detail()
	}
	return e.report.complaint()
}

func (r *report) complaint() wire.Complaint {
	c := wire.Complaint{Type: text(r.Type), Code: text(r.Code), Param: text(r.Param), Message: text(r.Message)}
	if c.Type == "" && r.Status.Kind() == jsontext.KindString {
		c.Type = text(r.Status)
	}
	if n, err := strconv.Atoi(c.Code); err == nil && n >= 100 && n < 600 {
		c.Status = n
	}
	r.hints(&c)
	return c
}

// hints gathers what stands beside type and code: Azure's inner code, Google's
// details, OpenRouter's metadata.
func (r *report) hints(c *wire.Complaint) {
	var inner struct {
		Code string `json:"code"`
	}
	if decode(r.Inner, &inner) && inner.Code != "" {
		c.Hints = append(c.Hints, inner.Code)
	}
	var metadata struct {
		LimitSource string         `json:"limit_source"`
		ResetsAt    jsontext.Value `json:"resets_at"`
		Reasons     []string       `json:"reasons"`
	}
	if decode(r.Metadata, &metadata) {
		c.Hints = append(c.Hints, metadata.Reasons...)
		if metadata.LimitSource != "" {
			c.Hints = append(c.Hints, metadata.LimitSource)
		}
		if metadata.ResetsAt != nil {
			c.Hints = append(c.Hints, "resets_at")
		}
		if len(metadata.Reasons) > 0 {
			c.Hints = append(c.Hints, "moderation")
		}
	}
	var details []struct {
		Reason     string `json:"reason"`
		RetryDelay string `json:"retryDelay"`
		Violations []struct {
			QuotaID string `json:"quotaId"`
		} `json:"violations"`
	}
	if !decode(r.Details, &details) {
		return
	}
	for _, d := range details {
		if d.Reason != "" {
			c.Hints = append(c.Hints, d.Reason)
		}
		if wait, err := time.ParseDuration(d.RetryDelay); err == nil && wait > 0 {
			c.RetryAfter = wait
		}
		for _, v := range d.Violations {
			c.Hints = append(c.Hints, v.QuotaID)
		}
	}
}

// detail reads a FastAPI error, whose "detail" is a text, a list of faults or
// an object with a status and a message.
func (e *envelope) detail() wire.Complaint {
	switch e.Detail.Kind() {
	case jsontext.KindString:
		c := e.report.complaint()
		c.Message = text(e.Detail)
		return c
	case jsontext.KindBeginObject:
		var r report
		if decode(e.Detail, &r) {
			c := r.complaint()
			c.Code = firstOf(c.Code, text(r.Status))
			return c
		}
	case jsontext.KindBeginArray:
		var faults []struct {
			Location []any  `json:"loc"`
			Message  string `json:"msg"`
			Type     string `json:"type"`
		}
		if decode(e.Detail, &faults) && len(faults) > 0 {
			f := faults[0]
			return wire.Complaint{Type: f.Type, Param: path(f.Location), Message: f.Message}
		}
	}
	return e.report.complaint()
}

// path joins the location of a FastAPI fault, less the leading "body".
func path(location []any) string {
	var parts []string
	for i, p := range location {
		if s := fmt.Sprint(p); i > 0 || s != "body" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ".")
}

// text returns a string's text or a number's digits; anything else is empty.
func text(v jsontext.Value) string {
	switch v.Kind() {
	case jsontext.KindString:
		s := jsonscan.Lenient(v)
		return strings.ToValidUTF8(string(s.Text()), "\uFFFD")
	case jsontext.KindNumber:
		return string(v)
	default:
		return ""
	}
}

// quote returns the start of a body that is no JSON, on one line.
func quote(body []byte) string {
	cut := body[:min(len(body), maxQuote)]
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(cut), "")), " ")
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
