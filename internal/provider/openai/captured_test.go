package openai_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/provider/openai"
	"github.com/breakwater-llm/breakwater/internal/provider/providertest"
)

// What a real server (Ollama 0.12.6, its /v1) answered, and what it is to us.
// The words of its model are noise; status, shape, usage and cuts are its own.
func TestCapturedAnswers(t *testing.T) {
	t.Parallel()
	type verdict struct {
		class  llm.FailureClass
		reason llm.Reason
	}
	var (
		answered  = verdict{}
		noModel   = verdict{llm.ClassConfiguration, llm.ReasonModelNotFound}
		refused   = verdict{llm.ClassClientError, llm.ReasonInvalidRequest}
		truncated = verdict{llm.ClassConnection, llm.ReasonTruncated}
	)
	tests := map[string]struct {
		want   verdict
		output llm.Count
	}{
		"01-chat":                     {answered, llm.Tokens(24)},
		"02-chat-stream":              {answered, llm.Count{}},
		"03-chat-stream-usage":        {answered, llm.Tokens(24)},
		"04-chat-natural-stop":        {answered, llm.Count{}},
		"05-chat-stop-word":           {answered, llm.Tokens(2)},
		"06-chat-json-format":         {answered, llm.Tokens(3)},
		"07-chat-one-token":           {answered, llm.Tokens(1)},
		"30-err-unknown-model":        {noModel, llm.Count{}},
		"31-err-unknown-model-stream": {noModel, llm.Count{}},
		"33-err-bad-json":             {refused, llm.Count{}},
		"35-err-empty-body":           {refused, llm.Count{}},
		"36-err-no-model":             {refused, llm.Count{}},
		"37-err-messages-a-string":    {refused, llm.Count{}},
		"38-err-no-messages":          {refused, llm.Count{}},
		"39-err-temperature-a-string": {refused, llm.Count{}},
		"40-too-long-chat":            {answered, llm.Tokens(8)}, // the prompt was cut in silence
		"45-err-tools-unsupported":    {refused, llm.Count{}},
		"46-err-image-unsupported":    {answered, llm.Tokens(8)}, // the image was ignored
		"47-err-bad-image":            {refused, llm.Count{}},
		"48-err-no-such-path":         {noModel, llm.Count{}},
		"49-err-wrong-method":         {refused, llm.Count{}},
		"50-abort-mid-stream":         {truncated, llm.Count{}},
		"53-err-queue-full":           {answered, llm.Count{}}, // who had a place in the queue
		"54-runner-killed-mid-stream": {truncated, llm.Count{}},
	}
	files, err := filepath.Glob("testdata/ollama/*.http")
	if err != nil || len(files) != len(tests) {
		t.Fatalf("%d captures, want %d: %v", len(files), len(tests), err)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			captured := readCapture(t, name)
			request := providertest.Plain
			if strings.Contains(captured.header.Get("Content-Type"), "event-stream") || strings.HasSuffix(name, "stream") {
				request = providertest.Counted
			}
			client := open(t, openai.Config{BaseURL: providertest.Serve(t, captured.serve).URL + "/v1", Timeouts: patient})
			log := &providertest.Log{}

			result, err := client.Send(t.Context(), providertest.Call(t, request), log.Emit)

			got := verdict{}
			if f := llm.AsFailure(err); f != nil {
				got = verdict{f.Class, f.Reason}
				captured.checkRelayed(t, f)
			}
			if got != tt.want {
				t.Fatalf("it is %v, want %v", got, tt.want)
			}
			if result.Usage.Output != tt.output {
				t.Errorf("%v output tokens, want %v", result.Usage.Output, tt.output)
			}
			if passed := string(result.Body) + log.Raw.String(); got == answered && passed != captured.body {
				t.Errorf("passed on as\n%q\nwant\n%q", passed, captured.body)
			}
		})
	}
}

// capture is one answer as it came.
type capture struct {
	status int
	header http.Header
	body   string
}

func readCapture(t *testing.T, name string) capture {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "ollama", name+".http"))
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := bytes.Cut(data, []byte("\r\n\r\n"))
	// The tool that captured it took the chunks of the transfer apart.
	head = bytes.ReplaceAll(head, []byte("\r\nTransfer-Encoding: chunked"), nil)
	resp, err := http.ReadResponse(bufio.NewReader(io.MultiReader(bytes.NewReader(head), strings.NewReader("\r\n\r\n"))), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return capture{status: resp.StatusCode, header: resp.Header, body: string(body)}
}

func (c capture) serve(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", c.header.Get("Content-Type"))
	w.WriteHeader(c.status)
	providertest.Write(w, c.body)
}

// checkRelayed holds a refusal of the request to CONTRACT's rule: JSON in the
// client's dialect passes as it came, anything else does not.
func (c capture) checkRelayed(t *testing.T, f *llm.Failure) {
	t.Helper()
	if f.Class != llm.ClassClientError {
		if f.Upstream != nil {
			t.Errorf("the upstream's words %+v are kept although nobody may see them", f.Upstream)
		}
		return
	}
	want := c.body
	if !strings.HasPrefix(c.header.Get("Content-Type"), "application/json") {
		want = ""
	}
	if got := string(f.Upstream.Body); got != want || f.Status != c.status {
		t.Errorf("relayed with %d as %q, want %d and %q", f.Status, got, c.status, want)
	}
}
