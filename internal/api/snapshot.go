package api

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Handler runs a call, as pipeline.Handler does: a stream is handed up event by
// event through emit, anything else comes whole in the Result.
type Handler func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error)

// Snapshot is what one request sees of the running configuration. It is built
// once per load and never changes, so a request that began before a reload ends
// by the rules it began with.
type Snapshot struct {
	Handle      Handler
	Middlewares []Middleware // from the outside in
	Routes      map[string]Route
	Limits      Limits
	LoadedAt    time.Time
	// Policy returns what governs a circuit.
	Policy func(key string) Policy
	// MetricsToken is asked for on /metrics; empty = open.
	MetricsToken string
}

// Middleware is one entry of the pipeline as operators see it.
type Middleware struct {
	Name     string `json:"name"`
	Priority int    `json:"priority"`
}

// Route is where a name in "model" leads. A route under a configuration's name
// carries that name; a direct target, under `provider/model`, has none.
type Route struct {
	Configuration string
	Targets       []llm.Target
	FallbackOn    llm.ClassSet
	Timeouts      llm.Timeouts
}

// Limits bound what one request, and all of them together, may hold and take.
type Limits struct {
	MaxBody          int64         // bytes of one request body
	MaxInflightBytes int64         // bytes of all bodies held at once
	RequestTimeout   time.Duration // from receipt until the answer, or until a stream commits
	MaxStream        time.Duration // from receipt until a stream ends
	WriteTimeout     time.Duration // one flush to a slow client
	// StreamKeepalive is how long a stream may be silent before a comment is
	// sent; 0 = for ever.
	StreamKeepalive time.Duration
	// StreamCommitAfter is how long a stream may wait for its first content
	// before its headers are sent without it; 0 = for ever.
	StreamCommitAfter time.Duration
}

// names lists what clients may name, configurations first, each sorted.
func (s *Snapshot) names() []string {
	names := make([]string, 0, len(s.Routes))
	for name := range s.Routes {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		direct := func(name string) int {
			if s.Routes[name].Configuration == "" {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(direct(a), direct(b)), cmp.Compare(a, b))
	})
	return names
}

// targets lists every target that a route leads to, sorted by key.
func (s *Snapshot) targets() []llm.Target {
	seen := map[llm.Target]bool{}
	var targets []llm.Target
	for _, route := range s.Routes {
		for _, target := range route.Targets {
			if !seen[target] {
				seen[target] = true
				targets = append(targets, target)
			}
		}
	}
	slices.SortFunc(targets, func(a, b llm.Target) int { return cmp.Compare(a.Key(), b.Key()) })
	return targets
}
