package api_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

func underKey(keys ...string) http.Header { return http.Header{"Idempotency-Key": keys} }

func TestAnIdempotencyKeyIsReadBareOrQuoted(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("k", 255)
	for name, tc := range map[string]struct {
		header http.Header
		want   string // the key, or the code of the refusal
	}{
		"none":                {nil, ""},
		"bare":                {underKey("8e03978e-40d5"), "8e03978e-40d5"},
		"quoted":              {underKey(`"8e03978e-40d5"`), "8e03978e-40d5"},
		"quotes inside":       {underKey(`"a\"b\\c"`), `a"b\c`},
		"as long as may be":   {underKey(longest), longest},
		"quoted, as long":     {underKey(`"` + longest + `"`), longest},
		"every visible sign":  {underKey("!#$%&'()*+,-./:;<=>?@[]^_`{|}~"), "!#$%&'()*+,-./:;<=>?@[]^_`{|}~"},
		"several":             {underKey("a", "a"), "idempotency_key_invalid"},
		"empty":               {underKey(""), "idempotency_key_invalid"},
		"empty in quotes":     {underKey(`""`), "idempotency_key_invalid"},
		"too long":            {underKey(longest + "k"), "idempotency_key_invalid"},
		"a space":             {underKey("a b"), "idempotency_key_invalid"},
		"a letter of another": {underKey("clé"), "idempotency_key_invalid"},
		"half a quote":        {underKey(`"a`), "idempotency_key_invalid"},
		"the other half":      {underKey(`a"`), "idempotency_key_invalid"},
		"more behind it":      {underKey(`"a"b`), "idempotency_key_invalid"},
		"a protected end":     {underKey(`"a\"`), "idempotency_key_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			answer := setup(t, func(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
				got = call.IdempotencyKey
				if (call.Left == nil) != (got == "") {
					t.Errorf("key %q, and a client that can leave: %v", got, call.Left != nil)
				}
				return &llm.Result{Target: targetA, Status: 200, Body: []byte("{}")}, nil
			}).chat(t, tc.header)
			if answer.status == http.StatusBadRequest {
				got = problemOf(t, answer.body).code()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("key or refusal (-want +got):\n%s", diff)
			}
		})
	}
}

// A call with a key goes on to its end, whatever becomes of its client, and is no
// failure for that.
func TestACallWithAKeyOutlivesItsClient(t *testing.T) {
	t.Parallel()
	const leaves = 10 * time.Second
	for name, tc := range map[string]struct {
		body  string
		limit string // X-Breakwater-Timeout
		why   error
	}{
		"a whole answer, client gone": {chatBody, "", llm.ErrClientLeft},
		"a stream, client gone":       {streamBody, "", llm.ErrClientLeft},
		"its own limit":               {chatBody, "10s", llm.ErrCallerTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, ends := time.Now(), make(chan error, 1)
				var told time.Duration
				var why error
				g := setup(t, func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
					if !call.Deadline.Equal(call.ReceivedAt.Add(10 * time.Minute)) {
						t.Errorf("deadline %v after its receipt, want request_timeout", call.Deadline.Sub(call.ReceivedAt))
					}
					<-call.Left.Done
					told, why = time.Since(began), call.Left.Cause()
					result := &llm.Result{Target: targetA, Status: 200, Body: []byte("{}")}
					if call.Facts.Stream {
						result = &llm.Result{Target: targetA, Status: 200, Streamed: true}
						for range 3 {
							<-time.After(time.Minute)
							if err := emit(llm.Event{Raw: []byte(hel), Kind: llm.EventContent}); err != nil {
								return nil, err
							}
						}
					}
					<-time.After(time.Minute)
					err := context.Cause(ctx)
					if err == nil {
						err = call.Deliver(result)
					}
					ends <- err
					return result, err
				})
				ctx, leave := context.WithCancel(t.Context())
				header := underKey("k")
				if tc.limit != "" {
					header.Set("X-Breakwater-Timeout", tc.limit)
				} else {
					time.AfterFunc(leaves, leave)
				}
				tryChat(ctx, g, tc.body, header)
				leave()
				if err := <-ends; err != nil {
					t.Errorf("the call ended with %v", err)
				}
				if told != leaves || why != tc.why {
					t.Errorf("told after %v of %v, want after %v of %v", told, why, leaves, tc.why)
				}
			})
		})
	}
}

// tryChat sends a request whose client may give up.
func tryChat(ctx context.Context, g *gateway, body string, header http.Header) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header = header
	resp, err := g.client.Do(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

// The clocks that are not the client's end a call with a key, too.
func TestTheGatewaysClocksEndACallWithAKey(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body  string
		abort time.Duration
		want  llm.Reason
		after time.Duration
	}{
		"request_timeout": {chatBody, time.Hour, llm.ReasonRequestTimeout, 10 * time.Minute},
		"max_stream":      {streamBody, 2 * time.Hour, llm.ReasonMaxStream, time.Hour},
		"shutdown":        {chatBody, time.Minute, llm.ReasonShutdown, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ends := make(chan error, 1)
				g := setup(t, func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
					if call.Facts.Stream {
						if err := emit(llm.Event{Raw: []byte(hel), Kind: llm.EventContent}); err != nil {
							t.Error(err)
						}
					}
					<-ctx.Done()
					err := llm.Cancelled(ctx, targetA)
					ends <- err
					return nil, err
				})
				began := time.Now()
				time.AfterFunc(tc.abort, g.gate.Abort)
				ctx, leave := context.WithTimeout(t.Context(), time.Second)
				defer leave()
				tryChat(ctx, g, tc.body, underKey("k"))
				if got := llm.AsFailure(<-ends).Reason; got != tc.want || time.Since(began) != tc.after {
					t.Errorf("ended by %s after %v, want by %s after %v", got, time.Since(began), tc.want, tc.after)
				}
			})
		})
	}
}

func TestAReplayIsToldApart(t *testing.T) {
	t.Parallel()
	const original = "0190a000-0000-7000-8000-000000000001"
	for name, body := range map[string]string{"whole": chatBody, "stream": streamBody} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := setup(t, func(_ context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
				call.Signals.IdempotentReplay, call.Signals.OriginalRun = true, original
				if call.Facts.Stream {
					return &llm.Result{Streamed: true}, emit(llm.Event{Raw: []byte(hel), Kind: llm.EventContent})
				}
				return &llm.Result{Target: targetA, Body: []byte("{}")}, nil
			}).do(t, http.MethodPost, "/v1/chat/completions", body, underKey("k"))
			if got.header.Get("Idempotent-Replayed") != "true" || got.header.Get("X-Original-Request-Id") != original || got.header.Get("X-Breakwater-Attempts") != "0" {
				t.Errorf("headers: %v", got.header)
			}
		})
	}
}
