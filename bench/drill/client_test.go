package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestACallerSeesHowACallEnds(t *testing.T) {
	t.Parallel()
	const (
		body   = `{"choices":[{"message":{"content":"still"},"finish_reason":"stop"}]}`
		stream = "data: {\"choices\":[{\"delta\":{\"content\":\"still\"},\"finish_reason\":null}]}\n\n"
		finish = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
		broken = "data: {\"error\":{\"message\":\"cut\",\"type\":\"server_error\"}}\n\n"
		done   = "data: [DONE]\n\n"
	)
	for name, tt := range map[string]struct {
		status       int
		asked, body  string
		stream       bool
		want         end
		wantUpstream int
	}{
		"whole":                    {200, "1", body, false, served, 1},
		"whole by the second":      {200, "2", body, false, served, 2},
		"stream":                   {200, "1", stream + finish + done, true, served, 1},
		"stream with an error":     {200, "1", stream + broken, true, failed, 1},
		"stream without its end":   {200, "1", stream + finish, true, failed, 1},
		"stream without a reason":  {200, "1", stream + done, true, failed, 1},
		"no answer in it":          {200, "1", `{}`, false, failed, 1},
		"no JSON":                  {200, "1", body[:20], false, failed, 1},
		"an error":                 {502, "1", `{"error":{}}`, false, failed, 1},
		"an error at once":         {503, "0", `{"error":{}}`, false, refused, 0},
		"a limit that was met":     {429, "1", `{"error":{}}`, true, failed, 1},
		"a limit that is known of": {429, "0", `{"error":{}}`, true, refused, 0},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Breakwater-Attempts", tt.asked)
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.body)
		}))
		c := newClient(server.URL)
		got, asked := c.call(t.Context(), "chat", tt.stream)
		if got != tt.want || asked != tt.wantUpstream {
			t.Errorf("%s: ends as %d after %d upstreams, want %d after %d", name, got, asked, tt.want, tt.wantUpstream)
		}
		c.close()
		server.Close()
		if got, _ := c.call(t.Context(), "chat", tt.stream); got != failed {
			t.Errorf("%s: without a gateway a call ends as %d, want %d", name, got, failed)
		}
	}
}
