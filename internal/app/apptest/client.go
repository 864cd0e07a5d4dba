package apptest

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Answer is a whole response.
type Answer struct {
	Status int
	Header http.Header
	Body   string
	Err    error // of reading the body
	Took   time.Duration
}

// ChatBody is a small chat request for the configuration chat.
const ChatBody = `{"model":"chat","messages":[{"role":"user","content":"say ok"}]}`

// StreamBody is ChatBody streamed.
const StreamBody = `{"model":"chat","stream":true,"messages":[{"role":"user","content":"say ok"}]}`

// Post sends a body to the chat endpoint, with header pairs, and reads the
// whole answer.
func (g *Gateway) Post(t testing.TB, body string, headers ...string) Answer {
	t.Helper()
	answer, err := g.TryPost(t.Context(), body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// TryPost is Post for a request that may fail or be given up.
func (g *Gateway) TryPost(ctx context.Context, body string, headers ...string) (Answer, error) {
	return Do(ctx, http.MethodPost, g.URL+"/v1/chat/completions", body, headers...)
}

// Get reads a URL of the data plane or, with AdminURL in front, of the admin
// plane.
func Get(t testing.TB, url string) Answer {
	t.Helper()
	answer, err := Do(t.Context(), http.MethodGet, url, "")
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// Read is Get of what stands in the database, which may be away for a moment on a
// busy machine.
func Read(t testing.TB, url string) Answer {
	t.Helper()
	var answer Answer
	Eventually(t, func() string {
		if answer = Get(t, url); answer.Status == http.StatusServiceUnavailable {
			return answer.Body
		}
		return ""
	})
	return answer
}

// Do makes one request with header pairs and reads the whole answer.
func Do(ctx context.Context, method, url, body string, headers ...string) (Answer, error) {
	begun := time.Now()
	resp, err := send(ctx, method, url, body, headers)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	read, err := io.ReadAll(resp.Body)
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(read), Err: err, Took: time.Since(begun)}, nil
}

// send makes a request on a connection of its own, whose header is what is
// given and whose answer is read as it came.
func send(ctx context.Context, method, url, body string, headers []string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	return client.Do(req)
}

// Error is the error in an answer.
type Error struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   string `json:"param"`
	Code    string `json:"code"`
}

// Error returns the error that the answer's body is.
func (a Answer) Error(t testing.TB) Error {
	t.Helper()
	return errorIn(t, a.Body)
}

func errorIn(t testing.TB, body string) Error {
	t.Helper()
	var envelope struct{ Error *Error }
	if err := json.Unmarshal([]byte(body), &envelope); err != nil || envelope.Error == nil {
		t.Fatalf("%q is no error: %v", body, err)
	}
	return *envelope.Error
}

// DataEvents returns the payloads of the data lines of a stream.
func (a Answer) DataEvents() []string {
	var events []string
	for line := range strings.Lines(a.Body) {
		if data, ok := strings.CutPrefix(line, "data:"); ok {
			events = append(events, strings.TrimSpace(data))
		}
	}
	return events
}

// LastError returns the error that the last event of a stream is.
func (a Answer) LastError(t testing.TB) Error {
	t.Helper()
	events := a.DataEvents()
	if len(events) == 0 {
		t.Fatalf("no event in %q", a.Body)
	}
	return errorIn(t, events[len(events)-1])
}

// Content joins the text that a stream's chunks carry. Any event that is
// neither JSON nor [DONE] fails the test.
func (a Answer) Content(t testing.TB) string {
	t.Helper()
	var text strings.Builder
	for _, data := range a.DataEvents() {
		if data == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("event %q is not JSON: %v", data, err)
		}
		for _, choice := range chunk.Choices {
			text.WriteString(choice.Delta.Content)
		}
	}
	return text.String()
}

// Reader is a client in the middle of a stream.
type Reader struct {
	t     testing.TB
	resp  *http.Response
	body  *bufio.Reader
	read  strings.Builder
	leave context.CancelFunc
}

// Open sends a body with header pairs and returns once the answer has begun.
func (g *Gateway) Open(t testing.TB, body string, headers ...string) *Reader {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	t.Cleanup(leave)
	resp, err := send(ctx, http.MethodPost, g.URL+"/v1/chat/completions", body, headers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return &Reader{t: t, resp: resp, body: bufio.NewReader(resp.Body), leave: leave}
}

// Until reads until a line holds text.
func (r *Reader) Until(text string) {
	r.t.Helper()
	for {
		line, err := r.body.ReadString('\n')
		r.read.WriteString(line)
		if strings.Contains(line, text) {
			return
		}
		if err != nil {
			r.t.Fatalf("the stream ended without %q: %v", text, err)
		}
	}
}

// Rest reads to the end and returns the whole answer, also what was read before.
func (r *Reader) Rest() Answer {
	r.t.Helper()
	_, err := r.body.WriteTo(&r.read)
	return Answer{Status: r.resp.StatusCode, Header: r.resp.Header, Body: r.read.String(), Err: err}
}

// Leave closes the connection.
func (r *Reader) Leave() { r.leave() }
