package pipeline

import (
	"context"
	"time"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Assembler finds what a model should know before it answers, by the text of the
// last message of the user: texts for as many system messages, the most important
// first, or none. It bounds its own time.
type Assembler interface {
	Assemble(ctx context.Context, call *llm.Call, text string) ([]string, error)
}

// ContextSource is where a configuration's context comes from.
type ContextSource struct {
	Assembler Assembler
	MaxTokens int // all of it together; messages beyond are left out
}

// Context gives calls the extra messages that their configurations ask for.
type Context struct {
	sources map[string]ContextSource
}

// NewContext returns the middleware; sources are by configuration, and a
// configuration without one is left alone.
func NewContext(sources map[string]ContextSource) *Context { return &Context{sources: sources} }

// Name is "context".
func (c *Context) Name() string { return "context" }

// Priority puts it outside everything that reads how long a request is.
func (c *Context) Priority() int { return priorityContext }

// Wrap asks for the extra messages and passes on the call with them. It never
// costs a call its answer: when they cannot be had in time, the call goes on
// without them and is marked as degraded.
func (c *Context) Wrap(next Handler) Handler {
	if len(c.sources) == 0 {
		return next
	}
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		source, asked := c.sources[call.Configuration]
		if !asked {
			return next(ctx, call, emit)
		}
		text := call.Codec.UserText(call.Body)
		if text == "" { // there is nothing to ask about, and no place to put an answer
			return next(ctx, call, emit)
		}
		begun := time.Now()
		found, ok := source.ask(ctx, call, text)
		call.Signals.UpstreamTime += time.Since(begun)
		if ctx.Err() != nil { // nobody waits for an answer of any kind
			return nil, llm.Cancelled(ctx, llm.Target{})
		}
		kept, size, over := fitting(found, source.MaxTokens)
		if !ok || over && len(kept) == 0 {
			call.Signals.Degraded = llm.DegradedContext
		}
		return next(ctx, withContext(call, kept, size), emit)
	}
}

// ask reports false when there is no answer. An assembler that panics has none:
// the call goes on.
func (s ContextSource) ask(ctx context.Context, call *llm.Call, text string) (found []string, ok bool) {
	defer func() {
		if recover() != nil {
			found, ok = nil, false
		}
	}()
	found, err := s.Assembler.Assemble(ctx, call, text)
	if err != nil {
		return nil, false
	}
	return found, true
}

// fitting returns as many of the first texts as fit, the bytes they have
// together, and whether there is more. Whole messages are left out: half of one
// may say the opposite.
func fitting(texts []string, maxTokens int) (kept []string, size int, over bool) {
	for _, text := range texts {
		if tokensOf(size+len(text)).N > int64(maxTokens) {
			return kept, size, true
		}
		if text != "" {
			kept, size = append(kept, text), size+len(text)
		}
	}
	return kept, size, false
}

// withContext returns a copy of the call that says more. Its own body stays as it
// came.
func withContext(call *llm.Call, texts []string, size int) *llm.Call {
	if len(texts) == 0 {
		return call
	}
	next := *call
	next.Insert = call.Codec.SystemMessages(call.Body, texts)
	next.Facts.TextBytes += size
	return &next
}
