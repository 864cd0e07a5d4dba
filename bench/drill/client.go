package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// callLimit is how long a caller waits at most. No call of a drill takes that
// long.
const callLimit = 30 * time.Second

// end is how a call ended for its caller.
type end uint8

const (
	served  end = iota // a whole answer
	refused            // an error at once: no upstream was asked
	failed             // an error after an upstream was asked, or an answer that broke off
)

// call is one call as its caller saw it.
type call struct {
	phase    int
	fallback bool // of the configuration with a second target
	stream   bool
	end      end
	asked    int // upstreams
	took     time.Duration
}

// client calls a gateway.
type client struct {
	url  string
	http *http.Client
}

func newClient(api string) *client {
	return &client{
		url:  api + "/v1/chat/completions",
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}},
	}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// call makes one call and says how it ended and how many upstreams were asked.
// Whatever is not a whole answer is a failure: a caller does not care why.
func (c *client) call(ctx context.Context, configuration string, stream bool) (end, int) {
	ctx, leave := context.WithTimeout(ctx, callLimit)
	defer leave()
	body := fmt.Appendf(nil, `{"model":%q,"stream":%t,"messages":[{"role":"user","content":"How is the harbour?"}]}`, configuration, stream)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return failed, 0
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return failed, 0
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	asked, _ := strconv.Atoi(resp.Header.Get("X-Breakwater-Attempts")) // every answer has it
	switch {
	case resp.StatusCode != http.StatusOK && asked == 0:
		return refused, asked
	case resp.StatusCode != http.StatusOK, err != nil, !whole(answer, stream):
		return failed, asked
	default:
		return served, asked
	}
}

// whole reports whether an answer came to its end.
func whole(answer []byte, stream bool) bool {
	if stream {
		text := string(answer)
		return strings.Contains(text, `"finish_reason":"stop"`) && strings.HasSuffix(text, "data: [DONE]\n\n")
	}
	var parsed struct {
		Choices []struct {
			Finish string `json:"finish_reason"`
		}
	}
	return json.Unmarshal(answer, &parsed) == nil && len(parsed.Choices) == 1 && parsed.Choices[0].Finish == "stop"
}
