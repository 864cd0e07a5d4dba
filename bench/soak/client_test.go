package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// setup serves the answers of a handler, under ids of runs as the gateway has
// them, and returns a client of it.
func setup(t *testing.T, handler http.HandlerFunc) *client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-ID", "0199aaaa-54b9-71e0-a2e1-d9b079ea56f0")
		handler(w, r)
	}))
	c := newClient(server.Listener.Addr().String())
	t.Cleanup(func() {
		c.close()
		server.Close()
	})
	return c
}

func TestHonestAnswersPass(t *testing.T) {
	t.Parallel()
	b := newBreaches()
	u := &upstream{breaches: b}
	c, letters := setup(t, u.serve), &writer{}
	tests := []struct {
		kind kind
		want end
	}{
		{kind{name: "whole", model: "m1", form: whole}, served},
		{kind{name: "big", model: "m1", form: whole, filler: bigPrompt}, served},
		{kind{name: "left before", model: "slow", form: whole, client: manner{leaveBefore: time.Millisecond}}, left},
		{kind{name: "left after", model: "slow", form: stream, client: manner{leaveAfter: 3}}, left},
		{kind{name: "stuck", model: "flood", form: stream, client: manner{stuck: time.Millisecond}}, left},
		{kind{name: "refused", model: "refuse", form: whole}, refused},
	}
	for _, tt := range tests {
		got, promise, err := c.call(t.Context(), letters.write(&tt.kind))
		if err != nil || got.end != tt.want {
			t.Errorf("%s ended as %q, %q, %v; want %q", tt.kind.name, got.end, promise, err, tt.want)
		}
	}
	if err := b.err(); err != nil {
		t.Error(err)
	}
}

// chunked writes a stream of a call with so many pieces.
func chunked(id string, pieces int) string {
	var text strings.Builder
	for i := range pieces {
		fmt.Fprintf(&text, "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", piece(id, i))
	}
	return text.String()
}

func TestStreamsAreJudged(t *testing.T) {
	t.Parallel()
	const id, done = "call1", "data: [DONE]\n\n"
	last := fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", lastPiece(id))
	fault := "data: {\"error\":{\"message\":\"m\",\"type\":\"server_error\"}}\n\n"
	tests := map[string]struct {
		text string
		want end
		lie  string // empty when the stream is honest
	}{
		"whole":                {chunked(id, 3) + last + done, served, ""},
		"with comments":        {": hello\n\n" + chunked(id, 1) + last + ": hello\n\n" + done, served, ""},
		"cut, and says so":     {chunked(id, 2) + fault, cutShort, ""},
		"cut in silence":       {chunked(id, 2), lost, "without an end mark"},
		"claims to be whole":   {chunked(id, 2) + done, lost, "claims its end after 2 pieces"},
		"goes on after [DONE]": {chunked(id, 1) + last + done + last, lost, "goes on after its end"},
		"goes on after fault":  {chunked(id, 1) + fault + done, lost, "goes on after its end"},
		"misses a piece":       {chunked(id, 1) + strings.TrimPrefix(chunked(id, 3), chunked(id, 2)) + last + done, lost, "instead of piece 1"},
		"has a piece twice":    {chunked(id, 1) + chunked(id, 1) + last + done, lost, "instead of piece 1"},
		"is another call's":    {chunked("call2", 1) + last + done, lost, "instead of piece 0"},
		"half an event":        {chunked(id, 1) + "data: {\"choices\":[\n\n", lost, "no JSON"},
		"usage for nobody":     {chunked(id, 1) + last + "data: {\"choices\":[],\"usage\":{}}\n\n" + done, lost, "did not ask for"},
		"no events at all":     {"{\"choices\":[]}", lost, "breaks off"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setup(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tt.text) })
			checkLie(t, c, &request{kind: &kind{}, id: id, stream: true}, tt.want, tt.lie)
		})
	}
}

func TestWholeAnswersAreJudged(t *testing.T) {
	t.Parallel()
	answer := func(text string) string {
		return fmt.Sprintf(`{"choices":[{"message":{"content":%q}}]}`, text)
	}
	tests := map[string]struct {
		status int
		body   string
		want   end
		lie    string
	}{
		"right":            {200, answer(piece("call1", 0) + lastPiece("call1")), served, ""},
		"half":             {200, answer(piece("call1", 0)), served, "not the answer to call1"},
		"another call's":   {200, answer(piece("call2", 0) + lastPiece("call2")), served, "not the answer to call1"},
		"no JSON":          {200, `{"choices":[`, served, "no JSON"},
		"an error in 200":  {200, `{"error":{"message":"m","type":"t"}}`, served, "0 choices"},
		"an error":         {502, `{"error":{"message":"m","type":"t"}}`, failed, ""},
		"a page":           {502, "<html>", failed, "without an envelope"},
		"a 429 for ever":   {429, `{"error":{"message":"m","type":"t"}}`, limited, "without Retry-After"},
		"a silent refusal": {400, `{}`, refused, "without an envelope"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setup(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			checkLie(t, c, &request{kind: &kind{}, id: "call1"}, tt.want, tt.lie)
		})
	}
}

func checkLie(t *testing.T, c *client, r *request, want end, lie string) {
	t.Helper()
	got, _, err := c.call(t.Context(), r)
	switch {
	case got.end != want:
		t.Errorf("ended as %q, want %q", got.end, want)
	case lie == "" && err != nil:
		t.Errorf("error %v for an honest answer", err)
	case lie != "" && (err == nil || !strings.Contains(err.Error(), lie)):
		t.Errorf("error %v, want one with %q", err, lie)
	}
}

func TestAConnectionThatIsCutIsNoAnswer(t *testing.T) {
	t.Parallel()
	c := setup(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	got, promise, err := c.call(t.Context(), &request{kind: &kind{}, id: "call1"})
	if got.end != lost || promise != answered || err == nil {
		t.Errorf("ended as %q, %q, %v", got.end, promise, err)
	}
}
