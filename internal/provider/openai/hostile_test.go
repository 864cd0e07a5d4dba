package openai_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/provider/openai"
	"github.com/breakwater-llm/breakwater/internal/provider/providertest"
)

// A switch of protocols hands over the bare connection, which no clock ends.
func TestASwitchOfProtocolsIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	left := make(chan struct{}, 2)
	upstream := providertest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err) // the server under test always allows it
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn) // until the gateway lets go
		left <- struct{}{}
	})
	client := open(t, openai.Config{BaseURL: upstream.URL, Timeouts: patient})
	for _, body := range []string{providertest.Plain, providertest.Streamed} {
		result, err := client.Send(t.Context(), providertest.Call(t, body), nil)
		f := llm.AsFailure(err)
		if f == nil || f.Class != llm.ClassUnknown || f.Reason != llm.ReasonUpstreamStatus || f.Status != http.StatusSwitchingProtocols {
			t.Fatalf("got %v, want an unknown status", f)
		}
		if result == nil || result.Status != http.StatusSwitchingProtocols {
			t.Errorf("result %+v, want the status that came", result)
		}
		<-left
	}
}

// deaf is a body that heeds nothing but Close. Its caller leaves as it reads.
type deaf struct {
	*io.PipeReader
	leave func()
}

func (d deaf) Read(p []byte) (int, error) {
	d.leave()
	return d.PipeReader.Read(p)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (rt roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return rt(req) }

// The end of an attempt ends every read of it, whatever the body does.
func TestNoReadOutlastsItsAttempt(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status  int
		request string
	}{
		"an answer": {http.StatusOK, providertest.Plain},
		"a stream":  {http.StatusOK, providertest.Streamed},
		"a refusal": {http.StatusServiceUnavailable, providertest.Plain},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			endless, _ := io.Pipe()
			body := deaf{endless, func() { cancel(llm.ErrClientLeft) }}
			transport := roundTrip(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: tt.status, Header: http.Header{}, Body: body, ContentLength: -1}, nil
			})
			client := open(t, openai.Config{BaseURL: "http://127.0.0.1/v1", Timeouts: patient, Transport: transport})

			_, err := client.Send(ctx, providertest.Call(t, tt.request), nil)

			if f := llm.AsFailure(err); f == nil || f.Class != llm.ClassCancelled || f.Reason != llm.ReasonClientLeft {
				t.Errorf("got %v, want cancelled by a client that left", f)
			}
		})
	}
}
