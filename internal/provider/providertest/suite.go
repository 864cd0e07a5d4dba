// Package providertest is the suite that every kind of provider must pass, and
// the scripted upstreams it passes it with. A new kind adds one call of Run.
package providertest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/provider"
	wire "github.com/breakwater-llm/breakwater/internal/wire/openai"
)

// Behaviour is what the upstream of a kind under test does with every call.
type Behaviour struct {
	Mode       Mode
	Status     int           // in mode Refuses
	RetryAfter time.Duration // in mode Refuses; 0 = no hint
}

// Mode is a way to behave.
type Mode string

// The modes.
const (
	Answers Mode = "answers" // well, as a stream or not, with usage
	Refuses Mode = "refuses" // with an error of its dialect
	Hangs   Mode = "hangs"   // takes the call and never answers
	Resets  Mode = "resets"  // drops the connection before an answer
	Cuts    Mode = "cuts"    // drops the connection in the middle of an answer
)

// Open returns a client of the kind whose upstream behaves as told. It cleans
// up after the test.
type Open func(t *testing.T, b Behaviour, timeouts llm.Timeouts) provider.Client

// patience is long enough for every upstream that does answer, on a busy machine
// too.
var patience = llm.Timeouts{Connect: time.Minute, FirstToken: time.Minute, Idle: time.Minute, Total: time.Minute}

// hurry is over before an upstream that hangs is missed. A machine that is too
// busy even to send a call within it is given twice as long, up to patience.
const hurry = 200 * time.Millisecond

// Run runs the suite.
func Run(t *testing.T, open Open) {
	t.Run("answers (CF-A10)", func(t *testing.T) { answers(t, open) })
	t.Run("streams (CF-A10)", func(t *testing.T) { streams(t, open) })
	t.Run("streams usage when asked (SSE-12)", func(t *testing.T) { streamsUsage(t, open) })
	t.Run("names refusals (CF-A2)", func(t *testing.T) { refuses(t, open) })
	t.Run("passes on a wait", func(t *testing.T) { waits(t, open) })
	t.Run("keeps its clocks (CF-A5)", func(t *testing.T) { timesOut(t, open) })
	t.Run("prefers the call's clocks (CF-A6)", func(t *testing.T) { prefersTheCallsClocks(t, open) })
	t.Run("names a dropped connection", func(t *testing.T) { drops(t, open) })
	t.Run("names a cut answer (END-01)", func(t *testing.T) { cuts(t, open) })
	t.Run("ends with its caller (DIS-01)", func(t *testing.T) { endsWithItsCaller(t, open) })
	t.Run("ends with its client", func(t *testing.T) { endsWithItsClient(t, open) })
}

// Target is the target of every call of the suite.
var Target = llm.Target{Provider: "alpha", Model: "m1", Region: "r1"}

// Call returns a call with the given request body, aimed at Target.
func Call(t testing.TB, body string) *llm.Call {
	t.Helper()
	facts, err := wire.ReadFacts([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return &llm.Call{
		Operation: llm.OperationChat, Dialect: llm.DialectOpenAI, RequestedModel: facts.Model,
		Body: []byte(body), Facts: facts, Target: Target, Signals: &llm.Signals{},
	}
}

// The request bodies of the suite.
const (
	Plain    = `{"model":"chat","messages":[{"role":"user","content":"Where is the ferry?"}]}`
	Streamed = `{"model":"chat","stream":true,"messages":[{"role":"user","content":"Where is the ferry?"}]}`
	Counted  = `{"model":"chat","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Where is the ferry?"}]}`
)

// Log gathers the events of a stream.
type Log struct {
	Raw    strings.Builder
	Events []llm.Event // Raw left out
}

// Emit takes one event.
func (l *Log) Emit(e llm.Event) error {
	l.Raw.Write(e.Raw)
	e.Raw = nil
	l.Events = append(l.Events, e)
	return nil
}

// Kinds lists the kinds of the events in order.
func (l *Log) Kinds() []llm.EventKind {
	var kinds []llm.EventKind
	for _, e := range l.Events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func answers(t *testing.T, open Open) {
	t.Parallel()
	client := open(t, Behaviour{Mode: Answers}, patience)
	result, err := client.Send(t.Context(), Call(t, Plain), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(result.Body) || result.ContentType != "application/json" {
		t.Errorf("body %q as %q, want JSON", result.Body, result.ContentType)
	}
	if result.Target != Target || result.Status != http.StatusOK || result.Streamed {
		t.Errorf("got %+v, want a whole answer of %v", result, Target)
	}
	if !result.Usage.Input.Known || !result.Usage.Output.Known || result.OutputBytes == 0 {
		t.Errorf("usage %+v, %d bytes of text; want both", result.Usage, result.OutputBytes)
	}
	if result.SentAt.IsZero() || result.Latency <= 0 {
		t.Errorf("sent at %v, took %v; want both", result.SentAt, result.Latency)
	}
}

func streams(t *testing.T, open Open) {
	t.Parallel()
	client := open(t, Behaviour{Mode: Answers}, patience)
	var log Log
	result, err := client.Send(t.Context(), Call(t, Streamed), log.Emit)
	if err != nil {
		t.Fatal(err)
	}
	if raw := log.Raw.String(); !strings.HasSuffix(raw, "\n\ndata: [DONE]\n\n") || strings.Contains(raw, `"prompt_tokens"`) {
		t.Errorf("stream %q, want one that ends in [DONE] and does not tell the usage nobody asked for", raw)
	}
	kinds := log.Kinds()
	if kinds[len(kinds)-1] != llm.EventTerminal || kinds[len(kinds)-2] != llm.EventUsage {
		t.Errorf("kinds %v, want usage and terminal at the end", kinds)
	}
	if !result.Streamed || result.Body != nil || !result.Usage.Known() || result.OutputBytes == 0 {
		t.Errorf("got %+v, want a stream with usage and text", result)
	}
	if result.FirstToken <= 0 || result.FirstToken > result.Latency {
		t.Errorf("first token after %v of %v", result.FirstToken, result.Latency)
	}
}

func streamsUsage(t *testing.T, open Open) {
	t.Parallel()
	client := open(t, Behaviour{Mode: Answers}, patience)
	var log Log
	if _, err := client.Send(t.Context(), Call(t, Counted), log.Emit); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(log.Raw.String(), `"prompt_tokens"`); got != 1 {
		t.Errorf("usage came %d times, want once", got)
	}
}

func refuses(t *testing.T, open Open) {
	t.Parallel()
	tests := map[int]struct {
		class  llm.FailureClass
		reason llm.Reason
	}{
		400: {llm.ClassClientError, llm.ReasonInvalidRequest},
		401: {llm.ClassAuth, llm.ReasonInvalidCredentials},
		402: {llm.ClassQuota, llm.ReasonQuotaExhausted},
		403: {llm.ClassAuth, llm.ReasonForbidden},
		404: {llm.ClassConfiguration, llm.ReasonModelNotFound},
		408: {llm.ClassConnection, llm.ReasonUpstreamStatus},
		409: {llm.ClassClientError, llm.ReasonInvalidRequest},
		422: {llm.ClassClientError, llm.ReasonInvalidRequest},
		425: {llm.ClassConnection, llm.ReasonUpstreamStatus},
		429: {llm.ClassRateLimit, llm.ReasonRateLimited},
		499: {llm.ClassUnknown, llm.ReasonUpstreamStatus},
		500: {llm.ClassServerError, llm.ReasonUpstreamStatus},
		501: {llm.ClassConfiguration, llm.ReasonUnsupported},
		503: {llm.ClassServerError, llm.ReasonUpstreamStatus},
		524: {llm.ClassServerError, llm.ReasonUpstreamStatus},
		529: {llm.ClassServerError, llm.ReasonOverloaded},
	}
	for status, want := range tests {
		client := open(t, Behaviour{Mode: Refuses, Status: status}, patience)
		for _, body := range []string{Plain, Streamed} {
			result, err := client.Send(t.Context(), Call(t, body), nothing(t))
			f := failure(t, err)
			if f.Class != want.class || f.Reason != want.reason || f.Status != status || f.Target != Target {
				t.Errorf("status %d gave %v, want %s (%s)", status, f, want.class, want.reason)
			}
			if result == nil || result.Status != status {
				t.Errorf("status %d gave the result %+v", status, result)
			}
			if (f.Upstream != nil) != (want.class == llm.ClassClientError) {
				t.Errorf("status %d: what the upstream said is %v; only a client error may tell it", status, f.Upstream)
			}
		}
	}
}

func waits(t *testing.T, open Open) {
	t.Parallel()
	client := open(t, Behaviour{Mode: Refuses, Status: 429, RetryAfter: 7 * time.Second}, patience)
	_, err := client.Send(t.Context(), Call(t, Plain), nil)
	if f := failure(t, err); f.Class != llm.ClassRateLimit || f.RetryAfter != 7*time.Second {
		t.Errorf("got %v after %v, want a rate limit of 7s", f, f.RetryAfter)
	}
}

func timesOut(t *testing.T, open Open) {
	t.Parallel()
	for body, want := range map[string]llm.Reason{Plain: llm.ReasonTotalTimeout, Streamed: llm.ReasonFirstTokenTimeout} {
		limit := hurry
		result, f := hung(t, open, body, limit)
		for f.Unsent && limit < patience.Total {
			limit *= 2
			result, f = hung(t, open, body, limit)
		}
		if f.Class != llm.ClassConnection || f.Reason != want || f.Unsent || f.Latency < limit {
			t.Errorf("got %v, unsent %v, after %v; want %s after %v", f, f.Unsent, f.Latency, want, limit)
		}
		if result != nil {
			t.Errorf("got the result %+v of a call without an answer", result)
		}
	}
}

// hung makes a call that is never answered, by a client with a limit.
func hung(t *testing.T, open Open, body string, limit time.Duration) (*llm.Result, *llm.Failure) {
	t.Helper()
	timeouts := llm.Timeouts{Connect: patience.Connect, FirstToken: limit, Idle: patience.Idle, Total: limit}
	result, err := open(t, Behaviour{Mode: Hangs}, timeouts).Send(t.Context(), Call(t, body), nothing(t))
	return result, failure(t, err)
}

func prefersTheCallsClocks(t *testing.T, open Open) {
	t.Parallel()
	client := open(t, Behaviour{Mode: Hangs}, patience)
	call := Call(t, Plain)
	call.Timeouts.Total = hurry
	_, err := client.Send(t.Context(), call, nil)
	if f := failure(t, err); f.Reason != llm.ReasonTotalTimeout {
		t.Errorf("got %v, want a total timeout", f)
	}
}

func drops(t *testing.T, open Open) {
	t.Parallel()
	client := open(t, Behaviour{Mode: Resets}, patience)
	for _, body := range []string{Plain, Streamed} {
		_, err := client.Send(t.Context(), Call(t, body), nothing(t))
		if f := failure(t, err); f.Class != llm.ClassConnection || f.Reason != llm.ReasonReset || f.Unsent {
			t.Errorf("got %v, unsent %v; want a reset of a call that was sent", f, f.Unsent)
		}
	}
}

func cuts(t *testing.T, open Open) {
	t.Parallel()
	client := open(t, Behaviour{Mode: Cuts}, patience)
	var log Log
	result, err := client.Send(t.Context(), Call(t, Streamed), log.Emit)
	f := failure(t, err)
	if f.Class != llm.ClassConnection || f.Reason != llm.ReasonTruncated || f.Status != http.StatusOK {
		t.Errorf("got %v, want a truncated stream inside a 200", f)
	}
	if strings.Contains(log.Raw.String(), "[DONE]") {
		t.Errorf("the cut stream was given an end: %q", log.Raw.String())
	}
	if result == nil || !result.Streamed || result.OutputBytes == 0 || result.FirstToken == 0 {
		t.Errorf("got the result %+v, want what had come so far", result)
	}
}

func endsWithItsCaller(t *testing.T, open Open) {
	t.Parallel()
	client := open(t, Behaviour{Mode: Hangs}, patience)
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(hurry, func() { cancel(llm.ErrRequestTimeout) })
	_, err := client.Send(ctx, Call(t, Plain), nil)
	if f := failure(t, err); f.Class != llm.ClassCancelled || f.Reason != llm.ReasonRequestTimeout || f.Target != Target {
		t.Errorf("got %v, want cancelled by the request's timeout", f)
	}
	_, err = client.Send(ctx, Call(t, Plain), nil)
	if f := failure(t, err); f.Class != llm.ClassCancelled || !f.Unsent {
		t.Errorf("got %v, unsent %v; want a call that was never sent", f, f.Unsent)
	}
}

func endsWithItsClient(t *testing.T, open Open) {
	t.Parallel()
	client := open(t, Behaviour{Mode: Answers}, patience)
	sent := 0
	_, err := client.Send(t.Context(), Call(t, Streamed), func(e llm.Event) error {
		if sent++; sent == 2 {
			return llm.ErrSlowReader
		}
		return nil
	})
	if f := failure(t, err); f.Class != llm.ClassCancelled || f.Reason != llm.ReasonSlowReader {
		t.Errorf("got %v, want cancelled by a slow reader", f)
	}
	if sent != 2 {
		t.Errorf("%d events after the client was gone", sent-2)
	}
}

// nothing is an Emit for streams that must not begin.
func nothing(t *testing.T) llm.Emit {
	return func(e llm.Event) error {
		t.Errorf("event %q of a stream that has no good one", e.Raw)
		return nil
	}
}

func failure(t *testing.T, err error) *llm.Failure {
	t.Helper()
	var f *llm.Failure
	if !errors.As(err, &f) {
		t.Fatalf("error %v (%T), want an *llm.Failure", err, err)
	}
	return f
}

// Equal fails the test unless got is want.
func Equal[T any](t testing.TB, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
