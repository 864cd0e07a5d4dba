package openai_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/provider"
	"github.com/breakwater-llm/breakwater/internal/provider/openai"
	"github.com/breakwater-llm/breakwater/internal/provider/providertest"
)

// overHTTP2 returns a client of an upstream that speaks HTTP/2.
func overHTTP2(t *testing.T, handler http.HandlerFunc) *openai.Client {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)

	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	transport := provider.NewTransport()
	transport.TLSClientConfig = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	return open(t, openai.Config{BaseURL: server.URL, Timeouts: patient, Transport: transport})
}

func TestStreamsOverHTTP2(t *testing.T) {
	t.Parallel()
	var old atomic.Int32
	client := overHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			old.Add(1)
		}
		answer(w, r)
	})
	for range 3 {
		var log providertest.Log
		if _, err := client.Send(t.Context(), providertest.Call(t, providertest.Counted), log.Emit); err != nil {
			t.Fatal(err)
		}
		providertest.Equal(t, "stream", roleEvent+textEvent("o")+textEvent("k")+finishEvent+usageEvent+doneEvent, log.Raw.String())
	}
	providertest.Equal(t, "requests over an older protocol", 0, old.Load())
}

func TestACutOverHTTP2(t *testing.T) {
	t.Parallel()
	client := overHTTP2(t, func(w http.ResponseWriter, _ *http.Request) {
		providertest.Stream(w, textEvent("Hel"))
		providertest.Abort()
	})
	var log providertest.Log
	_, err := client.Send(t.Context(), providertest.Call(t, providertest.Streamed), log.Emit)
	if f := llm.AsFailure(err); f == nil || f.Class != llm.ClassConnection || f.Reason != llm.ReasonReset {
		t.Errorf("got %v, want a reset", f)
	}
}

// HTTP/2 says itself which requests a server has not taken.
func TestAStreamResetOverHTTP2IsNotSentAgain(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	client := overHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > 1 {
			providertest.Abort()
		}
		answer(w, r)
	})
	call := providertest.Call(t, providertest.Plain)
	if _, err := client.Send(t.Context(), call, nil); err != nil {
		t.Fatal(err)
	}
	_, err := client.Send(t.Context(), call, nil)
	if f := llm.AsFailure(err); f == nil || f.Reason != llm.ReasonReset {
		t.Errorf("got %v, want a reset", f)
	}
	providertest.Equal(t, "requests", 2, requests.Load())
}
