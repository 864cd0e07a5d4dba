// Package openai sends calls to any server that speaks OpenAI's chat
// completions API. The client's bytes go up and the server's come down as they
// are, but for the model and the request for usage. It must not know which
// vendor the server is: what they do differently is read off their answers.
package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/provider"
	"github.com/breakwater-llm/breakwater/internal/sse"
	wire "github.com/breakwater-llm/breakwater/internal/wire/openai"
)

// maxAnswer and maxRefusal bound a body that is read as a whole, in bytes.
const (
	maxAnswer  = 32 << 20
	maxRefusal = 64 << 10
)

// Config is what a server needs.
type Config struct {
	BaseURL  string         // up to and with the version, as in https://host/v1
	Keys     *provider.Keys // nil = none is sent
	Timeouts llm.Timeouts   // where the call does not set its own
	Health   string         // under BaseURL: what a health check gets
	// OutputField is where the server looks for the limit of an answer; empty = what
	// its host is known for.
	OutputField wire.OutputField
	Transport   http.RoundTripper // nil = one of provider.NewTransport
}

// Client is one server.
type Client struct {
	endpoint *url.URL
	health   *url.URL
	// outputField is where a limit goes that the gateway adds.
	outputField wire.OutputField

	keys     *provider.Keys
	plain    []http.Header // by key, of a request that is no stream
	streamed []http.Header // by key
	upstream *provider.Upstream
	readers  sync.Pool // *sse.Reader
}

// New returns a client for a server. It fails for a base URL that is none.
func New(cfg Config) (*Client, error) {
	base, err := parseBase(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	health, err := under(base, cfg.Health)
	if err != nil {
		return nil, err
	}
	transport := cfg.Transport
	if transport == nil {
		transport = provider.NewTransport()
	}
	keys := cfg.Keys
	if keys == nil {
		keys = provider.NewKeys(nil, nil)
	}
	c := &Client{
		endpoint: base.JoinPath("chat", "completions"),
		health:   health,

		outputField: cmp.Or(cfg.OutputField, outputFieldOf(base)),

		keys:     keys,
		upstream: provider.NewUpstream(transport, cfg.Timeouts, keys.Texts()),
		readers:  sync.Pool{New: func() any { return sse.NewReader(nil) }},
	}
	for _, key := range keys.Texts() {
		c.plain = append(c.plain, header(key, "application/json"))
		c.streamed = append(c.streamed, header(key, "text/event-stream"))
	}
	return c, nil
}

// parseBase parses a base URL. Its errors do not repeat the URL, which may hold
// what should not be in it.
func parseBase(text string) (*url.URL, error) {
	base, err := url.Parse(text)
	var fault *url.Error
	switch {
	case errors.As(err, &fault):
		return nil, fmt.Errorf("parse base_url: %w", fault.Err)
	case base.Scheme != "http" && base.Scheme != "https", base.Host == "":
		return nil, errors.New("base_url is no http or https URL")
	case base.User != nil:
		return nil, errors.New("base_url holds a user name or password; give the key as api_key")
	}
	if base.Path == "" {
		base.Path = "/"
	}
	return base, nil
}

// outputFieldOf is where the server at an address looks for the limit of an
// answer: OpenAI's own API and Azure's in the newer field, which some of their
// models insist on; all others in the one that they began with.
func outputFieldOf(base *url.URL) wire.OutputField {
	host := strings.ToLower(base.Hostname())
	if host == "api.openai.com" || strings.HasSuffix(host, ".api.openai.com") ||
		strings.HasSuffix(host, ".openai.azure.com") || strings.HasSuffix(host, ".cognitiveservices.azure.com") || strings.HasSuffix(host, ".services.ai.azure.com") {
		return wire.MaxCompletionTokens
	}
	return wire.MaxTokens
}

// header returns all that is sent beside the body. Nothing of the client's own
// headers is among it.
func header(key, accept string) http.Header {
	h := http.Header{
		"Content-Type":    {"application/json"},
		"Accept":          {accept},
		"Accept-Encoding": {"identity"},
		"User-Agent":      {"breakwater"},
	}
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
	return h
}

// Close lets go of idle connections.
func (c *Client) Close() { c.upstream.Close() }

// Send makes one request, under one key.
func (c *Client) Send(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
	key := c.keys.Choose(call.Target, time.Now())
	result, err := c.send(ctx, call, emit, key)
	c.keys.Used(key, call.Target, result, err, time.Now())
	return result, err
}

// send decides by the answer which way it is read: a stream may have been asked
// for and a JSON body come.
func (c *Client) send(ctx context.Context, call *llm.Call, emit llm.Emit, key int) (*llm.Result, error) {
	x := c.upstream.Begin(ctx, call)
	defer x.End()

	if call.Operation == llm.OperationHealthCheck {
		return c.check(x, key)
	}
	resp, err := x.Do(c.request(call, key))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return refused(x)
	case call.Facts.Stream && mayStream(resp.Header):
		return c.relay(x, call, emit)
	default:
		return whole(x, call.Facts.Stream, resp.Header)
	}
}

func (c *Client) request(call *llm.Call, key int) *http.Request {
	body := newBody(wire.Splice(call.Body, call.Facts, wire.Changes{
		Model: call.Target.Model, Insert: call.Insert,
		OutputLimit: call.OutputLimit, OutputField: c.outputField,
	}))
	first, _ := body.open()
	req := &http.Request{
		Method: http.MethodPost, URL: c.endpoint, Host: c.endpoint.Host,
		Header: c.plain[key], Body: first, GetBody: body.open,
		ContentLength: int64(body.length),
	}
	if call.Facts.Stream {
		req.Header = c.streamed[key]
	}
	if call.Traceparent != "" {
		req.Header = req.Header.Clone()
		req.Header["Traceparent"] = []string{call.Traceparent}
	}
	return req
}

// mayStream reports whether a response can be an event stream. Some servers
// forget to say so; none calls a stream JSON or HTML.
func mayStream(h http.Header) bool {
	switch mediaType(h) {
	case "application/json", "text/html":
		return false
	default:
		return true
	}
}

func mediaType(h http.Header) string {
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		t, _, _ = strings.Cut(h.Get("Content-Type"), ";")
	}
	return strings.ToLower(strings.TrimSpace(t))
}
