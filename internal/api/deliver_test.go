package api_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// delivering returns a handler that answers every call from alpha and, as
// telemetry does, wants to know whether the client got it.
func delivering(body string, ends chan<- error) api.Handler {
	return func(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
		reach(call, targetA)
		result := &llm.Result{Target: targetA, Status: 200, Body: []byte(body)}
		err := call.Deliver(result)
		ends <- err
		return result, err
	}
}

// reasonOf names why an answer was not delivered.
func reasonOf(t *testing.T, err error) llm.Reason {
	t.Helper()
	f := llm.AsFailure(err)
	if f.Class != llm.ClassCancelled || f.Target != targetA {
		t.Errorf("the call ended with %v, want it cancelled on alpha", err)
	}
	return f.Reason
}

func TestAWholeAnswerIsDeliveredOnce(t *testing.T) {
	t.Parallel()
	ends := make(chan error, 1)
	body := strings.Repeat("x", 1<<20)
	got := setup(t, delivering(body, ends)).chat(t, nil)
	if err := <-ends; err != nil || got.status != 200 || got.body != body {
		t.Errorf("%v, status %d, %d bytes; want the answer, once", err, got.status, len(got.body))
	}
}

// A whole answer that the client does not take is no success.
func TestAWholeAnswerThatIsNotTakenEndsTheCall(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		limits func(*api.Snapshot)
		client func(g *gateway, resp *http.Response)
		want   llm.Reason
		after  time.Duration
	}{
		"slow reader":      {func(*api.Snapshot) {}, func(*gateway, *http.Response) {}, llm.ReasonSlowReader, 30 * time.Second},
		"client left":      {func(*api.Snapshot) {}, func(_ *gateway, resp *http.Response) { _ = resp.Body.Close() }, llm.ReasonClientLeft, 0},
		"end of draining":  {func(*api.Snapshot) {}, drained, llm.ReasonShutdown, 0},
		"over max_stream":  {func(s *api.Snapshot) { s.Limits.MaxStream = 70 * time.Second }, sip, llm.ReasonMaxStream, 80 * time.Second},
		"but not too long": {func(s *api.Snapshot) { s.Limits.RequestTimeout = time.Minute }, sip, "", 320 * time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ends := make(chan error, 1)
				g := setup(t, delivering(strings.Repeat("x", 1<<20), ends), tc.limits)
				began := time.Now()
				resp := g.start(t, t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(chatBody), nil)
				defer func() { _ = resp.Body.Close() }()
				var reading sync.WaitGroup
				defer reading.Wait()
				reading.Go(func() { tc.client(g, resp) })
				err := <-ends
				var got llm.Reason
				if err != nil {
					got = reasonOf(t, err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("reason (-want +got):\n%s", diff)
				}
				if took := time.Since(began); took != tc.after {
					t.Errorf("ended after %v, want %v", took, tc.after)
				}
			})
		})
	}
}

// drained takes an answer up to where the gateway cuts it off at its own end.
func drained(g *gateway, resp *http.Response) {
	g.gate.Abort()
	_, _ = io.Copy(io.Discard, resp.Body)
}

// sip takes an answer of 1 MiB in pieces, one every 20 s, as far as it comes.
func sip(_ *gateway, resp *http.Response) {
	for buf := make([]byte, 1<<16); ; {
		<-time.After(20 * time.Second)
		if _, err := io.ReadFull(resp.Body, buf); err != nil {
			return
		}
	}
}
