package openai_test

import (
	"compress/gzip"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/provider"
	"github.com/breakwater-llm/breakwater/internal/provider/openai"
	"github.com/breakwater-llm/breakwater/internal/provider/providertest"
)

// stream sends a streamed call to an upstream that behaves as handler does.
func stream(t *testing.T, body string, handler http.HandlerFunc) (*providertest.Log, *llm.Result, *llm.Failure) {
	t.Helper()
	client := open(t, openai.Config{BaseURL: providertest.Serve(t, handler).URL + "/v1", Keys: provider.NewKeys([]string{"sk-secret"}, nil), Timeouts: patient})
	log := &providertest.Log{}
	result, err := client.Send(t.Context(), providertest.Call(t, body), log.Emit)
	if err == nil {
		return log, result, nil
	}
	return log, result, llm.AsFailure(err)
}

// patient is for tests of anything but time: a busy machine takes long for the
// largest answers.
var patient = llm.Timeouts{Connect: time.Minute, FirstToken: time.Minute, Idle: time.Minute, Total: time.Minute}

func pieces(p ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { providertest.Stream(w, p...) }
}

func TestStreamsPassUnchanged(t *testing.T) {
	t.Parallel()
	long := textEvent(strings.Repeat("x", 200<<10))
	filter := `data: {"id":"","choices":[],"prompt_filter_results":[{"prompt_index":0}]}` + "\n\n"
	tests := map[string]struct {
		body string
		sent []string
		want string
	}{
		"a character cut in two (SSE-01)": {
			body: providertest.Streamed,
			sent: []string{roleEvent, `data: {"choices":[{"delta":{"content":"` + "\xE4\xBD", "\xA0" + `"}}]}` + "\n\n", finishEvent, doneEvent},
			want: roleEvent + `data: {"choices":[{"delta":{"content":"你"}}]}` + "\n\n" + finishEvent + doneEvent,
		},
		"comments dropped (SSE-03)": {
			body: providertest.Streamed,
			sent: []string{": PROCESSING\n\n", ": PROCESSING\n\n", roleEvent + ": x\n\n" + textEvent("a"), finishEvent, doneEvent},
			want: roleEvent + textEvent("a") + finishEvent + doneEvent,
		},
		"a long line (SSE-07)": {
			body: providertest.Streamed,
			sent: []string{long, finishEvent, doneEvent},
			want: long + finishEvent + doneEvent,
		},
		"empty choices (SSE-09)": {
			body: providertest.Counted,
			sent: []string{filter, textEvent("a"), finishEvent, usageEvent, doneEvent},
			want: filter + textEvent("a") + finishEvent + usageEvent + doneEvent,
		},
		"usage nobody asked for (SSE-11)": {
			body: providertest.Streamed,
			sent: []string{textEvent("a"), finishEvent, usageEvent, doneEvent},
			want: textEvent("a") + finishEvent + doneEvent,
		},
		"useless usage nobody asked for": {
			body: providertest.Streamed,
			sent: []string{textEvent("a"), finishEvent, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":-1,\"completion_tokens\":1e18}}\n\n", doneEvent},
			want: textEvent("a") + finishEvent + doneEvent,
		},
		"no end mark": {
			body: providertest.Streamed,
			sent: []string{textEvent("a"), finishEvent},
			want: textEvent("a") + finishEvent + doneEvent,
		},
		"an end mark without its blank line": {
			body: providertest.Streamed,
			sent: []string{textEvent("a"), finishEvent, "data: [DONE]\n"},
			want: textEvent("a") + finishEvent + doneEvent,
		},
		"an end mark without a finish reason": {
			body: providertest.Streamed,
			sent: []string{textEvent("a"), doneEvent},
			want: textEvent("a") + doneEvent,
		},
		"CRLF": {
			body: providertest.Streamed,
			sent: []string{"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r", "\ndata: [DONE]\r\n\r\n"},
			want: "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\ndata: [DONE]\r\n\r\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, result, failure := stream(t, tt.body, pieces(tt.sent...))
			if failure != nil {
				t.Fatal(failure)
			}
			providertest.Equal(t, "stream", tt.want, log.Raw.String())
			if told := strings.Contains(strings.Join(tt.sent, ""), "usage"); told != (result.Usage.Known() || result.Usage.Anomaly) {
				t.Errorf("usage %+v, told should be %v", result.Usage, told)
			}
		})
	}
}

func TestStreamsOfRealServersPass(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../wire/openai/testdata/*.sse")
	if err != nil || len(files) == 0 {
		t.Fatalf("no streams: %v", err)
	}
	broken := map[string]llm.Reason{
		"openai_chat_stream_midstream_error.sse": llm.ReasonStreamError,
		"openai_chat_stream_truncated.sse":       llm.ReasonTruncated,
		"openrouter_stream_error.sse":            llm.ReasonStreamError,
		"vllm_stream_error.sse":                  llm.ReasonUpstreamStatus,
		"ollama_runner_killed_mid_stream.sse":    llm.ReasonTruncated,
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			log, _, failure := stream(t, providertest.Counted, pieces(string(raw)))
			if want := broken[name]; want != "" {
				if failure == nil || failure.Reason != want || !failure.Trips() {
					t.Errorf("got %v, want a failure (%s)", failure, want)
				}
				if strings.Contains(log.Raw.String(), "error") {
					t.Errorf("the error went to the client: %q", log.Raw.String())
				}
				return
			}
			if failure != nil {
				t.Fatal(failure)
			}
			want := string(raw[strings.Index(string(raw), "data:"):])
			providertest.Equal(t, "stream", strings.TrimRight(want, "\n")+"\n\n", log.Raw.String())
		})
	}
}

func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		handler http.HandlerFunc
		class   llm.FailureClass
		reason  llm.Reason
		want    string // what had gone up before
	}{
		"no end (END-01)": {
			pieces(textEvent("Hel"), textEvent("lo")),
			llm.ClassConnection, llm.ReasonTruncated, textEvent("Hel") + textEvent("lo"),
		},
		"an error first (END-03)": {
			pieces(": ping\n\n", `data: {"error":{"type":"overloaded_error","message":"Overloaded"}}`+"\n\n"),
			llm.ClassServerError, llm.ReasonOverloaded, "",
		},
		"an error later (END-04)": {
			pieces(textEvent("Hel"), `data: {"error":{"message":"boom","type":"server_error","code":null}}`+"\n\n"),
			llm.ClassServerError, llm.ReasonStreamError, textEvent("Hel"),
		},
		"an error without its blank line": {
			pieces(textEvent("Hel"), `data: {"error":{"code":503,"message":"x"}}`+"\n"),
			llm.ClassServerError, llm.ReasonUpstreamStatus, textEvent("Hel"),
		},
		"an event named error, nothing of it inside": {
			pieces(textEvent("Hel"), "event: error\ndata: {\"message\":\"boom\"}\n\n", doneEvent),
			llm.ClassServerError, llm.ReasonStreamError, textEvent("Hel"),
		},
		"an event named error, plain text inside": {
			pieces("event: error\ndata: overloaded, try later\n\n"),
			llm.ClassServerError, llm.ReasonOverloaded, "",
		},
		"a rate limit inside": {
			pieces(`data: {"error":{"code":429,"message":"slow down"}}` + "\n\n"),
			llm.ClassRateLimit, llm.ReasonRateLimited, "",
		},
		"a cut line": {
			pieces(textEvent("Hel"), `data: {"choices":[{"del`),
			llm.ClassConnection, llm.ReasonTruncated, textEvent("Hel"),
		},
		"no JSON": {
			pieces(textEvent("Hel"), "data: <html>\n\n"),
			llm.ClassConnection, llm.ReasonMalformed, textEvent("Hel"),
		},
		"bytes that are no text": {
			pieces(textEvent("Hel"), strings.Replace(textEvent("?"), "?", "\xff", 1), finishEvent, doneEvent),
			llm.ClassConnection, llm.ReasonMalformed, textEvent("Hel"),
		},
		"nothing": {pieces(), llm.ClassServerError, llm.ReasonEmptyBody, ""},
		"only usage and the end mark": {
			pieces(usageEvent, doneEvent), llm.ClassServerError, llm.ReasonEmptyBody, "",
		},
		"an error of a choice": {
			pieces(textEvent("Hel"), `data: {"choices":[{"index":0,"delta":{},"error":{"code":502,"message":"x"},"finish_reason":"stop"}]}`+"\n\n", doneEvent),
			llm.ClassServerError, llm.ReasonStreamError, textEvent("Hel"),
		},
		"an error of no known shape": {
			pieces(textEvent("Hel"), `data: {"detail":"engine died"}`+"\n\n", doneEvent),
			llm.ClassServerError, llm.ReasonStreamError, textEvent("Hel"),
		},
		"an event named Error": {
			pieces("event: Error\ndata: {}\n\n", doneEvent),
			llm.ClassServerError, llm.ReasonStreamError, "",
		},
		"the end of one choice of two": {
			pieces(textEvent("Hel"), secondChoice, finishEvent),
			llm.ClassConnection, llm.ReasonTruncated, textEvent("Hel") + secondChoice + finishEvent,
		},
		"only comments": {
			pieces(": ping\n\n", ": ping\n\n"),
			llm.ClassServerError, llm.ReasonEmptyBody, "",
		},
		"only the end mark": {
			pieces("data: [DONE]\n\n"), llm.ClassServerError, llm.ReasonEmptyBody, "",
		},
		"a reset": {
			func(w http.ResponseWriter, _ *http.Request) {
				providertest.Stream(w, textEvent("Hel"))
				providertest.Reset(w)
			},
			llm.ClassConnection, llm.ReasonReset, "",
		},
		"an event without end": {
			func(w http.ResponseWriter, _ *http.Request) {
				providertest.Stream(w, textEvent("Hel"), "data: ")
				for range 33 {
					providertest.Write(w, strings.Repeat("x", 1<<20))
				}
			},
			llm.ClassConnection, llm.ReasonOversizedEvent, textEvent("Hel"),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, result, failure := stream(t, providertest.Streamed, tt.handler)
			if failure == nil || failure.Class != tt.class || failure.Reason != tt.reason || failure.Status != http.StatusOK {
				t.Fatalf("got %v, want %s (%s) inside a 200", failure, tt.class, tt.reason)
			}
			if result == nil || !result.Streamed {
				t.Errorf("result %+v, want what had come", result)
			}
			if tt.want != "" || tt.reason != llm.ReasonReset { // a reset may overtake what was sent before it
				providertest.Equal(t, "stream", tt.want, log.Raw.String())
			}
		})
	}
}

const secondChoice = `data: {"id":"c1","choices":[{"index":1,"delta":{"content":"two"},"finish_reason":null}]}` + "\n\n"

// Without the end mark an answer is whole when every choice that was asked for has
// had its end.
func TestAStreamOfSeveralChoicesEnds(t *testing.T) {
	t.Parallel()
	two := strings.Replace(providertest.Streamed, `"stream":true`, `"stream":true,"n":2`, 1)
	secondEnd := `data: {"id":"c1","choices":[{"index":1,"delta":{},"finish_reason":"length"}]}` + "\n\n"
	for name, tt := range map[string]struct {
		body  string
		sent  []string
		whole bool
	}{
		"both":                   {two, []string{textEvent("a"), secondChoice, secondEnd, finishEvent}, true},
		"one never began":        {two, []string{textEvent("a"), finishEvent}, false},
		"one is cut":             {two, []string{secondChoice, textEvent("a"), finishEvent}, false},
		"more than were asked":   {providertest.Streamed, []string{textEvent("a"), secondChoice, secondEnd, finishEvent}, true},
		"one more, which is cut": {providertest.Streamed, []string{textEvent("a"), secondChoice, finishEvent}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, _, failure := stream(t, tt.body, pieces(tt.sent...))
			if whole := failure == nil; whole != tt.whole || strings.HasSuffix(log.Raw.String(), doneEvent) != tt.whole {
				t.Errorf("failure %v after %q, want a whole answer: %t", failure, log.Raw.String(), tt.whole)
			}
			if failure != nil && failure.Reason != llm.ReasonTruncated {
				t.Errorf("failure %v, want %s", failure, llm.ReasonTruncated)
			}
		})
	}
}

// A report counts what came before it, and no more.
func TestTextAfterAReportIsTold(t *testing.T) {
	t.Parallel()
	early := `data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":0}}` + "\n\n"
	input := `data: {"choices":[],"usage":{"prompt_tokens":10}}` + "\n\n"
	beside := `data: {"choices":[{"index":0,"delta":{"content":"abc"}}],"usage":{"prompt_tokens":10,"completion_tokens":1}}` + "\n\n"
	for name, tt := range map[string]struct {
		sent []string
		want int
	}{
		"a report at the end":    {[]string{textEvent("abcd"), finishEvent, usageEvent, doneEvent}, 0},
		"a report at the start":  {[]string{early, textEvent("abcd"), finishEvent, doneEvent}, 4},
		"the same, then a cut":   {[]string{early, textEvent("abcd")}, 4},
		"one of the input alone": {[]string{textEvent("ab"), input, textEvent("abcd"), finishEvent, doneEvent}, 6},
		"a report beside text":   {[]string{textEvent("ab"), beside, textEvent("x")}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, result, _ := stream(t, providertest.Counted, pieces(tt.sent...)); result.AfterReport != tt.want {
				t.Errorf("%d bytes after the last report, want %d", result.AfterReport, tt.want)
			}
		})
	}
}

func TestABodyInsteadOfAStream(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status int
		body   string
		class  llm.FailureClass
		reason llm.Reason
	}{
		"a refusal (END-08)": {400, `{"error":{"message":"no","type":"invalid_request_error","param":"top_p","code":"invalid_value"}}`, llm.ClassClientError, llm.ReasonInvalidRequest},
		"an error in a 200":  {200, `{"error":{"code":502,"message":"x"},"choices":[]}`, llm.ClassServerError, llm.ReasonUpstreamStatus},
		"a whole answer":     {200, completion, llm.ClassServerError, llm.ReasonInvalidBody},
		"nothing":            {200, "", llm.ClassServerError, llm.ReasonEmptyBody},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, _, failure := stream(t, providertest.Streamed, func(w http.ResponseWriter, _ *http.Request) {
				providertest.JSON(w, tt.status, tt.body)
			})
			if failure == nil || failure.Class != tt.class || failure.Reason != tt.reason || failure.Status != tt.status {
				t.Fatalf("got %v, want %s (%s)", failure, tt.class, tt.reason)
			}
			if len(log.Events) != 0 {
				t.Errorf("%d events of no stream", len(log.Events))
			}
			if tt.class == llm.ClassClientError {
				providertest.Equal(t, "what the client is told", tt.body, string(failure.Upstream.Body))
			}
		})
	}
}

func TestAStreamWithoutAName(t *testing.T) {
	t.Parallel()
	log, _, failure := stream(t, providertest.Streamed, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		providertest.Write(w, textEvent("a"), finishEvent, doneEvent)
	})
	if failure != nil {
		t.Fatal(failure)
	}
	providertest.Equal(t, "stream", textEvent("a")+finishEvent+doneEvent, log.Raw.String())
}

func TestACompressedStream(t *testing.T) {
	t.Parallel()
	log, _, failure := stream(t, providertest.Streamed, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		zip := gzip.NewWriter(w)
		for _, event := range []string{textEvent("a"), finishEvent, doneEvent} {
			if _, err := zip.Write([]byte(event)); err != nil {
				t.Error(err)
			}
			if err := zip.Flush(); err != nil {
				t.Error(err)
			}
			providertest.Stream(w)
		}
	})
	if failure != nil {
		t.Fatal(failure)
	}
	providertest.Equal(t, "stream", textEvent("a")+finishEvent+doneEvent, log.Raw.String())
}

func TestEventsSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	log, _, failure := stream(t, providertest.Streamed, pieces(roleEvent+textEvent("ab")+textEvent("c"), finishEvent+usageEvent+doneEvent))
	if failure != nil {
		t.Fatal(failure)
	}
	usage := &llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(2)}
	want := []llm.Event{
		{Kind: llm.EventPreamble},
		{Kind: llm.EventContent, TextBytes: 2},
		{Kind: llm.EventContent, TextBytes: 1},
		{Kind: llm.EventPreamble},
		{Kind: llm.EventUsage, Usage: usage},
		{Kind: llm.EventTerminal},
	}
	last := log.Events[len(log.Events)-1]
	if !log.Events[0].More || last.More {
		t.Errorf("more after the first event: %v, after the last: %v; want true, false", log.Events[0].More, last.More)
	}
	for i := range log.Events {
		log.Events[i].More = false
	}
	providertest.Equal(t, "events", want, log.Events)
}

// An upstream may keep its connection open after [DONE]; nobody waits for it
// (END-06). One that ends properly is used again.
func TestTheEndMarkEndsTheStream(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	upstream := providertest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		providertest.Stream(w, textEvent("a"), finishEvent, doneEvent)
		<-r.Context().Done()
		close(held)
	})
	client := open(t, openai.Config{BaseURL: upstream.URL, Timeouts: patient})
	result, err := client.Send(t.Context(), providertest.Call(t, providertest.Streamed), (&providertest.Log{}).Emit)
	if err != nil {
		t.Fatal(err)
	}
	if result.Latency >= patient.Idle {
		t.Errorf("the stream took %v", result.Latency)
	}
	select {
	case <-held:
	case <-time.After(time.Minute):
		t.Error("the upstream's connection was not let go")
	}
}

func TestConnectionsServeManyStreams(t *testing.T) {
	t.Parallel()
	upstream := providertest.Serve(t, answer)
	client := open(t, openai.Config{BaseURL: upstream.URL, Timeouts: patient})
	connections := map[string]bool{}
	const most = 100 // the rest of a stream is read in the background: the very next one may come too soon
	for n := range most {
		if _, err := client.Send(t.Context(), providertest.Call(t, providertest.Streamed), (&providertest.Log{}).Emit); err != nil {
			t.Fatal(err)
		}
		connections[upstream.Requests()[n].RemoteAddr] = true
		if len(connections) <= n {
			return
		}
	}
	t.Errorf("%d streams took %d connections", most, len(connections))
}
