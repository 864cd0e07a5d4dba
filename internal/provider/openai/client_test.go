package openai_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/porttest"
	"github.com/breakwater-llm/breakwater/internal/provider"
	"github.com/breakwater-llm/breakwater/internal/provider/openai"
	"github.com/breakwater-llm/breakwater/internal/provider/providertest"
)

const secret = "sk-ABCDEFGHIJKLMNOPQRSTUV"

// ask sends one call that is no stream to an upstream that behaves as handler
// does.
func ask(t *testing.T, handler http.HandlerFunc) (*llm.Result, *llm.Failure) {
	t.Helper()
	client := open(t, openai.Config{BaseURL: providertest.Serve(t, handler).URL + "/v1", Keys: provider.NewKeys([]string{secret}, nil), Timeouts: patient})
	result, err := client.Send(t.Context(), providertest.Call(t, providertest.Plain), nil)
	if err == nil {
		return result, nil
	}
	return result, llm.AsFailure(err)
}

func TestNewRefusesWhatIsNoURL(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "host/v1", "file:///etc/passwd", "http://", "http://a b", "ftp://host", "http://user:pass@host/v1"} {
		if _, err := openai.New(openai.Config{BaseURL: base}); err == nil {
			t.Errorf("%q was taken for a base URL", base) // CF-A9
		}
	}
}

func TestWhatIsSent(t *testing.T) { // SEC-01
	t.Parallel()
	upstream := providertest.Serve(t, answer)
	client := open(t, openai.Config{BaseURL: upstream.URL + "/openai/", Keys: provider.NewKeys([]string{secret}, nil), Timeouts: patient})
	call := providertest.Call(t, ` {"x":1.50, "model" : "chat","messages":[]} `)
	call.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if _, err := client.Send(t.Context(), call, nil); err != nil {
		t.Fatal(err)
	}
	got := upstream.Requests()[0]
	providertest.Equal(t, "body", ` {"x":1.50, "model" : "m1","messages":[]} `, got.Sent)
	providertest.Equal(t, "path", "/openai/chat/completions", got.URL.String())
	providertest.Equal(t, "header", http.Header{
		"Accept":          {"application/json"},
		"Accept-Encoding": {"identity"},
		"Authorization":   {"Bearer " + secret},
		"Content-Length":  {fmt.Sprint(len(got.Sent))},
		"Content-Type":    {"application/json"},
		"Traceparent":     {call.Traceparent},
		"User-Agent":      {"breakwater"},
	}, got.Header)
}

func TestNoKeyNoCredential(t *testing.T) {
	t.Parallel()
	upstream := providertest.Serve(t, answer)
	client := open(t, openai.Config{BaseURL: upstream.URL, Timeouts: patient})
	if _, err := client.Send(t.Context(), providertest.Call(t, providertest.Counted), (&providertest.Log{}).Emit); err != nil {
		t.Fatal(err)
	}
	got := upstream.Requests()[0]
	if _, ok := got.Header["Authorization"]; ok {
		t.Errorf("a credential was sent: %q", got.Header)
	}
	providertest.Equal(t, "path", "/chat/completions", got.URL.Path)
	providertest.Equal(t, "accept", "text/event-stream", got.Header.Get("Accept"))
	providertest.Equal(t, "body", strings.Replace(providertest.Counted, "chat", "m1", 1), got.Sent)
}

func TestAnswersPassUnchanged(t *testing.T) {
	t.Parallel()
	body := "\n\n" + strings.Replace(completion, `"created"`, `"x_unknown":1.50, "created"`, 1)
	result, failure := ask(t, func(w http.ResponseWriter, _ *http.Request) { providertest.JSON(w, 200, body) })
	if failure != nil {
		t.Fatal(failure)
	}
	providertest.Equal(t, "body", body, string(result.Body))
	providertest.Equal(t, "usage", llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(2)}, result.Usage)
}

func TestGzipIsDecoded(t *testing.T) { // BOD-09
	t.Parallel()
	body := zipped(t, completion)
	result, failure := ask(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		providertest.JSON(w, 200, body)
	})
	if failure != nil {
		t.Fatal(failure)
	}
	providertest.Equal(t, "body", completion, string(result.Body))
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	if _, err := zip.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestUselessAnswers(t *testing.T) {
	t.Parallel()
	encoded := func(encoding, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", encoding)
			providertest.JSON(w, 200, body)
		}
	}
	body := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { providertest.JSON(w, 200, body) }
	}
	packed := zipped(t, completion)
	billed := llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(5)}
	tests := map[string]struct {
		handler http.HandlerFunc
		class   llm.FailureClass
		reason  llm.Reason
		usage   llm.Usage
	}{
		"an error (BOD-03)":      {body(`{"error":{"message":"x","code":503},"choices":null}`), llm.ClassServerError, llm.ReasonUpstreamStatus, llm.Usage{}},
		"nothing (BOD-05)":       {body(""), llm.ClassServerError, llm.ReasonEmptyBody, llm.Usage{}},
		"half a body (BOD-07)":   {body(`{"id":"c1","choices":[{"mess`), llm.ClassServerError, llm.ReasonInvalidBody, llm.Usage{}},
		"no choice (CST-08)":     {body(`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5}}`), llm.ClassServerError, llm.ReasonInvalidBody, billed},
		"a stream":               {pieces(textEvent("a"), doneEvent), llm.ClassServerError, llm.ReasonInvalidBody, llm.Usage{}},
		"no content":             {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, llm.ClassServerError, llm.ReasonEmptyBody, llm.Usage{}},
		"not gzip after all":     {encoded("gzip", completion), llm.ClassServerError, llm.ReasonInvalidBody, llm.Usage{}},
		"corrupt gzip":           {encoded("gzip", packed[:10]+"\xff\xff\xff\xff"), llm.ClassServerError, llm.ReasonInvalidBody, llm.Usage{}},
		"gzip of other sums":     {encoded("gzip", packed[:len(packed)-8]+"mismatch"), llm.ClassServerError, llm.ReasonInvalidBody, llm.Usage{}},
		"bytes that are no text": {body(strings.Replace(completion, `"content":"`, "\"content\":\"\xff", 1)), llm.ClassServerError, llm.ReasonInvalidBody, llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(2)}},
		"an encoding unasked":    {encoded("br", completion), llm.ClassServerError, llm.ReasonInvalidBody, llm.Usage{}},
		"more than can be held":  {body(strings.Repeat(" ", 32<<20+1)), llm.ClassServerError, llm.ReasonInvalidBody, llm.Usage{}},
		"less than was promised": {short, llm.ClassConnection, llm.ReasonReset, llm.Usage{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, failure := ask(t, tt.handler)
			if failure == nil || failure.Class != tt.class || failure.Reason != tt.reason || failure.Status/100 != 2 {
				t.Fatalf("got %v, want %s (%s) inside a 2xx", failure, tt.class, tt.reason)
			}
			if failure.Latency <= 0 || failure.Unsent {
				t.Errorf("took %v, unsent %v", failure.Latency, failure.Unsent)
			}
			if result.Body != nil {
				t.Errorf("the useless body is handed on: %q", result.Body)
			}
			providertest.Equal(t, "usage", tt.usage, result.Usage)
		})
	}
}

// short promises more than it sends.
func short(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100000")
	providertest.JSON(w, 200, `{"id":`)
	_ = http.NewResponseController(w).Flush()
	providertest.Abort()
}

func TestAnEdgesPageIsNotPassedOn(t *testing.T) { // BOD-01
	t.Parallel()
	page := "<!DOCTYPE html><html>" + strings.Repeat("Bad gateway ", 2000)
	for _, status := range []int{502, 413} {
		_, failure := ask(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			providertest.Write(w, page)
		})
		if failure == nil || failure.Status != status {
			t.Fatalf("got %v, want status %d", failure, status)
		}
		if up := failure.Upstream; up != nil && (up.Body != nil || strings.Contains(up.Message, "<")) {
			t.Errorf("status %d would show the client %+v", status, up)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	other := providertest.Serve(t, answer)
	_, failure := ask(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	if failure == nil || failure.Class != llm.ClassConfiguration || failure.Reason != llm.ReasonRedirected {
		t.Errorf("got %v, want redirected", failure)
	}
	if n := len(other.Requests()); n != 0 {
		t.Errorf("the redirect was followed %d times", n)
	}
}

func TestOurKeyDoesNotComeBack(t *testing.T) { // SEC-03, CF-A8
	t.Parallel()
	for name, body := range map[string]string{
		"in the message": `{"error":{"message":"Incorrect API key provided: ` + secret + `","type":"invalid_request_error","param":null,"code":null}}`,
		"elsewhere":      `{"error":{"message":"no","type":"invalid_request_error","param":null,"code":null},"request":{"key":"` + secret + `"}}`,
		"escaped there":  `{"error":{"message":"no","type":"invalid_request_error","param":null,"code":null},"request":{"key":"\u0073k-ABCDEFGHIJKLMNOPQRSTUV"}}`,
		"escaped":        `{"error":{"message":"key \u0073k-ABCDEFGHIJKLMNOPQRSTUV","type":"x","param":null,"code":null}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, failure := ask(t, func(w http.ResponseWriter, _ *http.Request) { providertest.JSON(w, 400, body) })
			if failure == nil || failure.Upstream == nil {
				t.Fatalf("got %v, want a refusal that the client may read", failure)
			}
			if failure.Upstream.Body != nil {
				t.Errorf("the body would be passed on: %s", failure.Upstream.Body)
			}
			if shown := fmt.Sprintf("%+v %v %v", failure.Upstream, failure, failure.Err); strings.Contains(shown, secret) {
				t.Errorf("the key is in %s", shown)
			}
			if strings.Contains(body, `"message":"no"`) == strings.Contains(failure.Upstream.Message, "[redacted]") {
				t.Errorf("message %q, want one that is still readable", failure.Upstream.Message)
			}
		})
	}
}

// CF-C3: whatever the network does is a failed connection; what the gateway
// itself forbids is not.
func TestTransportFailures(t *testing.T) {
	t.Parallel()
	plain := providertest.Serve(t, answer)
	secure := httptest.NewTLSServer(http.HandlerFunc(answer))
	t.Cleanup(secure.Close)
	tests := map[string]struct {
		base   string
		class  llm.FailureClass
		reason llm.Reason
	}{
		"no such host (TRA-01)":  {"http://no-such.invalid/v1", llm.ClassConnection, llm.ReasonDNS},
		"nobody listens":         {"http://" + porttest.Hold(t) + "/v1", llm.ClassConnection, llm.ReasonRefused},
		"an unknown certificate": {secure.URL, llm.ClassConnection, llm.ReasonTLS},
		"no TLS there":           {strings.Replace(plain.URL, "http:", "https:", 1), llm.ClassConnection, llm.ReasonTLS},
		"a metadata service":     {"http://169.254.169.254/latest", llm.ClassConfiguration, llm.ReasonForbidden},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := open(t, openai.Config{BaseURL: tt.base, Timeouts: patient})
			result, err := client.Send(t.Context(), providertest.Call(t, providertest.Plain), nil)
			f := llm.AsFailure(err)
			if f == nil || f.Class != tt.class || f.Reason != tt.reason {
				t.Fatalf("got %v (%v), want %s (%s)", f, f.Err, tt.class, tt.reason)
			}
			if !f.Unsent || f.Status != 0 || result != nil {
				t.Errorf("unsent %v, status %d, result %+v; want a call that was not sent", f.Unsent, f.Status, result)
			}
		})
	}
}

// No layer below sends a second time on its own (CF-A4, FAL-01), but where a
// connection that was kept broke before a word of an answer: its server may
// have closed it before the request came.
func TestOneSendPerCall(t *testing.T) {
	t.Parallel()
	word := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err) // the server under test always allows it
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 2")
		_ = conn.Close()
	}
	reset := func(w http.ResponseWriter, _ *http.Request) { providertest.Reset(w) }
	abort := func(http.ResponseWriter, *http.Request) { providertest.Abort() }
	refusal := func(w http.ResponseWriter, _ *http.Request) { providertest.JSON(w, 503, "") }
	tests := map[string]struct {
		scripts  []http.HandlerFunc // the last one goes on
		requests int
		fails    bool
	}{
		"a refusal":                    {[]http.HandlerFunc{answer, refusal}, 2, true},
		"a word of an answer":          {[]http.HandlerFunc{answer, word}, 2, true},
		"a kept connection is reset":   {[]http.HandlerFunc{answer, reset, answer}, 3, false},
		"a kept connection has ended":  {[]http.HandlerFunc{answer, abort, answer}, 3, false},
		"each connection is reset":     {[]http.HandlerFunc{answer, reset}, 3, true},
		"a fresh connection is reset":  {[]http.HandlerFunc{reset}, 1, true},
		"a fresh connection has ended": {[]http.HandlerFunc{abort}, 1, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n atomic.Int64
			upstream := providertest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
				tt.scripts[min(int(n.Add(1)), len(tt.scripts))-1](w, r)
			})
			client := open(t, openai.Config{BaseURL: upstream.URL, Timeouts: patient})
			call := providertest.Call(t, providertest.Plain)
			var err error
			for range min(2, len(tt.scripts)) { // the first one leaves its connection for the next
				_, err = client.Send(t.Context(), call, nil)
			}
			if failed := err != nil; failed != tt.fails {
				t.Errorf("the last call ended with %v", err)
			}
			got := upstream.Requests()
			providertest.Equal(t, "requests", tt.requests, len(got))
			for _, request := range got {
				providertest.Equal(t, "body", got[0].Sent, request.Sent)
			}
		})
	}
}

func TestTheUpstreamSeesItsCallerLeave(t *testing.T) { // DIS-01
	t.Parallel()
	left := make(chan struct{})
	upstream := providertest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		providertest.Stream(w, textEvent("a"))
		<-r.Context().Done()
		close(left)
	})
	client := open(t, openai.Config{BaseURL: upstream.URL, Timeouts: patient})
	ctx, cancel := context.WithCancelCause(t.Context())
	result, err := client.Send(ctx, providertest.Call(t, providertest.Streamed), func(llm.Event) error {
		cancel(llm.ErrClientLeft)
		return nil
	})
	if f := llm.AsFailure(err); f == nil || f.Class != llm.ClassCancelled || f.Reason != llm.ReasonClientLeft {
		t.Errorf("got %v, want cancelled", f)
	}
	if result == nil || result.OutputBytes != 1 {
		t.Errorf("result %+v, want the text so far", result)
	}
	<-left
}

// BenchmarkSend measures what a call costs beside the network: the transport
// answers from memory.
func BenchmarkSend(b *testing.B) {
	streamed := textEvent("o") + strings.Repeat(textEvent("k"), 98) + finishEvent + doneEvent
	for name, tt := range map[string]struct{ body, answer, kind string }{
		"whole":                {providertest.Plain, completion, "application/json"},
		"stream of 100 events": {providertest.Streamed, streamed, "text/event-stream"},
	} {
		client := open(b, openai.Config{BaseURL: "http://memory.invalid/v1", Timeouts: patient, Transport: memory{tt.answer, tt.kind}})
		call := providertest.Call(b, tt.body)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Send(b.Context(), call, func(llm.Event) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type memory struct{ answer, kind string }

func (m memory) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {m.kind}},
		Body: io.NopCloser(strings.NewReader(m.answer)), ContentLength: int64(len(m.answer)),
	}, nil
}
