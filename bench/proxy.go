package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// proxyCmd is the yardstick: the standard library's reverse proxy, as plain as
// it can be while every answer arrives.
type proxyCmd struct {
	To string `arg:"" help:"URL of the upstream."`
}

// Run serves until standard input ends.
func (p *proxyCmd) Run(ctx context.Context) error {
	to, err := url.Parse(p.To)
	if err != nil {
		return err
	}
	return serve(ctx, newProxy(to))
}

func newProxy(to *url.URL) http.Handler {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.DisableCompression = true
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 256, 256 // the default of 2 would measure dialing
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
	}
	return readFirst(proxy)
}

// readFirst gives the proxy its request body in memory. Handed the body of the
// connection, the transport may read it once more after the server has closed
// it, and cut the answer that is on its way.
func readFirst(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Body, _ = r.GetBody() // it cannot fail
		r.ContentLength = int64(len(body))
		next.ServeHTTP(w, r)
	}
}
