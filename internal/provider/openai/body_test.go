package openai_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/provider/openai"
	"github.com/breakwater-llm/breakwater/internal/provider/providertest"
)

// counted counts the writes to a connection.
type counted struct {
	net.Conn
	writes *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

func TestASmallRequestIsOneWrite(t *testing.T) {
	t.Parallel()
	var writes atomic.Int64
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return counted{conn, &writes}, err
	}}
	client := open(t, openai.Config{BaseURL: providertest.Serve(t, answer).URL, Timeouts: patient, Transport: transport})
	if _, err := client.Send(t.Context(), providertest.Call(t, providertest.Plain), nil); err != nil {
		t.Fatal(err)
	}
	providertest.Equal(t, "writes", int64(1), writes.Load())
}

func TestALargeRequestArrivesWhole(t *testing.T) {
	t.Parallel()
	upstream := providertest.Serve(t, answer)
	client := open(t, openai.Config{BaseURL: upstream.URL, Timeouts: patient})
	filler := strings.Repeat("x", 1<<20)
	body := func(model string) string {
		return `{"before":"` + filler + `","model":"` + model + `","messages":[],"after":"` + filler + `"}`
	}
	if _, err := client.Send(t.Context(), providertest.Call(t, body("chat")), nil); err != nil {
		t.Fatal(err)
	}
	if got := upstream.Requests()[0]; got.Sent != body("m1") {
		t.Errorf("the upstream got %d bytes, want the %d of the request with its model", len(got.Sent), len(body("m1")))
	}
}
