package openai_test

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/provider/openai"
	"github.com/breakwater-llm/breakwater/internal/provider/providertest"
)

// The connection on which a request goes out once more is made under the clock
// of connections; while there is none, nothing has been sent.
func TestTheConnectionInPlaceOfAStaleOneHasItsClock(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	var dials atomic.Int64
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials.Add(1) > 1 {
			<-over // net/http lets a dial go on without its request
			return nil, net.ErrClosed
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	var requests atomic.Int64
	upstream := providertest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > 1 {
			providertest.Reset(w)
			return
		}
		answer(w, r)
	})
	const limit = 300 * time.Millisecond
	client := open(t, openai.Config{BaseURL: upstream.URL, Timeouts: patient, Transport: transport})
	call := providertest.Call(t, providertest.Plain)
	if _, err := client.Send(t.Context(), call, nil); err != nil { // as long as it takes
		t.Fatal(err)
	}

	call.Timeouts.Connect = limit
	_, err := client.Send(t.Context(), call, nil)

	f := llm.AsFailure(err)
	if f == nil || f.Reason != llm.ReasonConnectTimeout || !f.Unsent || f.Latency < limit {
		t.Fatalf("got %v, want a connection that took longer than %v", f, limit)
	}
}
