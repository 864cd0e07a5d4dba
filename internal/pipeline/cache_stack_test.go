package pipeline_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/pipeline"
	"github.com/breakwater-llm/breakwater/internal/wire/openai"
)

// shelf is a Responses in a map. Nothing in it expires: that is the store's matter.
type shelf struct {
	mu   sync.Mutex
	kept map[llm.KeptKey]llm.Kept
	ttls []time.Duration
}

func (s *shelf) Find(_ context.Context, key llm.KeptKey) (llm.Kept, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.kept[key]
	return k, ok
}

func (s *shelf) Keep(key llm.KeptKey, answer llm.Kept, ttl time.Duration, kept func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[key] = answer
	s.ttls = append(s.ttls, ttl)
	go kept()
}

// tally is a CacheResults.
type tally struct {
	mu sync.Mutex
	n  map[llm.CacheResult]int
}

func (t *tally) Cached(result llm.CacheResult) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n[result]++
}

// said is a whole answer of some text, after a time.
func said(text string, took time.Duration) behaviour {
	return func(ctx context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
		if err := spend(ctx, call, took); err != nil {
			return nil, err
		}
		return &llm.Result{Target: call.Target, Status: 200, Body: []byte(completion(text)), Usage: llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(2)}}, nil
	}
}

func completion(text string) string {
	return fmt.Sprintf(`{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}`, text)
}

// spoken is the same as a stream, each word after a time.
func spoken(end *llm.Failure, took time.Duration, words ...string) behaviour {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		var events []llm.Event
		for _, word := range words {
			events = append(events, content(fmt.Sprintf("data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":null}]}\n\n", word)))
		}
		if end == nil {
			events = append(events, preamble("data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"),
				usage(llm.Usage{Input: llm.Tokens(10), Output: llm.Tokens(2)}), done("data: [DONE]\n\n"))
		}
		return streams(end, events...)(ctx, call, func(e llm.Event) error {
			if err := spend(ctx, call, took); err != nil {
				return context.Cause(ctx)
			}
			return emit(e)
		})
	}
}

// cached is a stack with a cache in it.
type cached struct {
	*upstreams
	policy  pipeline.CachePolicy
	shelf   *shelf
	tally   *tally
	records *records
	handle  pipeline.Handler
}

func newCached(t *testing.T, policy pipeline.CachePolicy, u *upstreams) *cached {
	t.Helper()
	c := &cached{upstreams: u, policy: policy, shelf: &shelf{kept: map[llm.KeptKey]llm.Kept{}}, tally: &tally{n: map[llm.CacheResult]int{}}, records: &records{}}
	c.wrap(t, c.shelf)
	return c
}

// wrap puts the stack around a store of its own.
func (c *cached) wrap(t *testing.T, responses pipeline.Responses) {
	t.Helper()
	policies := pipeline.CachePolicies{Configurations: map[string]pipeline.CachePolicy{"chat": c.policy}, MaxEntry: 4 << 10}
	c.handle = wrap(t, terminal(c.upstreams, pipeline.Policy{}).Handle,
		pipeline.NewTelemetry(c.records),
		pipeline.NewCache(policies, responses, c.tally),
		pipeline.NewFallback(nil, nil),
		pipeline.NewUsage(prices{"m1": {"1", "1"}}),
	)
}

var anHour = pipeline.CachePolicy{TTL: time.Hour}

// got is what a client has of a call.
type got struct {
	text   string // of the answer, whatever its shape
	cache  llm.CacheResult
	err    error
	events []string
	body   string
	run    *llm.Signals
}

func (c *cached) ask(ctx context.Context, changes ...func(*llm.Call)) got {
	call := newCall(alpha)
	call.Codec, call.Body = openai.Codec{}, []byte(`{"model":"chat","messages":[{"role":"user","content":"hi"}]}`)
	for _, change := range changes {
		change(call)
	}
	var at client
	result, err := c.handle(ctx, call, at.emit)
	g := got{err: err, cache: call.Signals.CacheResult, events: at.events, run: call.Signals}
	if result != nil && result.Body != nil {
		g.body = string(result.Body)
	}
	if call.Facts.Stream {
		var raw [][]byte
		for _, event := range at.events {
			raw = append(raw, []byte(event))
		}
		body, _ := openai.Codec{}.Whole(raw, llm.Usage{})
		g.text = openai.ReadReply(body).Text
		return g
	}
	g.text = openai.ReadReply([]byte(g.body)).Text
	return g
}

func (g got) is(t *testing.T, text string, cache llm.CacheResult) {
	t.Helper()
	if g.err != nil || g.text != text || g.cache != cache {
		t.Errorf("got %q, cache %q, error %v; want %q, cache %q", g.text, g.cache, g.err, text, cache)
	}
}

func streamed(call *llm.Call) { call.Facts.Stream = true }

func body(text string) func(*llm.Call) { return func(c *llm.Call) { c.Body = []byte(text) } }

func caller(id string) func(*llm.Call) { return func(c *llm.Call) { c.Caller.KeyID = id } }

func control(how llm.CacheControl) func(*llm.Call) {
	return func(c *llm.Call) { c.CacheControl = how }
}
