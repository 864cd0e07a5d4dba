// Package pipeline runs one call through its middlewares to a provider and
// back. Each middleware is ordinary code before and after next, in one file,
// knowing nothing of its neighbours; the whole order is Stack. The package
// knows neither HTTP nor any dialect, and reaches providers, the recorder, the
// prices and the health order through the small interfaces it declares itself.
package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Handler runs a call. A stream is handed upward event by event through emit,
// and the function returns when it has ended, so usage is final in the Result.
// An error comes with a Result whenever an upstream was reached.
type Handler func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error)

// Middleware wraps a Handler. The one with the highest priority is outermost.
type Middleware interface {
	Name() string
	Priority() int
	Wrap(next Handler) Handler
}

// The priorities of the stack; gaps are left for what comes later.
const (
	priorityTelemetry      = 110
	priorityIdempotency    = 105
	priorityCache          = 100
	priorityContext        = 80
	priorityBudget         = 75
	priorityFallback       = 50
	priorityUsage          = 25
	priorityCircuitBreaker = 20
)

// Stack is a sorted set of middlewares around a terminal handler.
type Stack struct {
	middlewares []Middleware
	handler     Handler
}

// New sorts the middlewares by priority, highest outermost, and wraps terminal
// with them. It refuses two with the same name or priority, since their order
// would be a matter of chance.
func New(terminal Handler, middlewares ...Middleware) (*Stack, error) {
	sorted := slices.Clone(middlewares)
	slices.SortStableFunc(sorted, func(a, b Middleware) int { return cmp.Compare(b.Priority(), a.Priority()) })

	names := map[string]bool{}
	for i, m := range sorted {
		if names[m.Name()] {
			return nil, fmt.Errorf("middleware %q is in the stack twice", m.Name())
		}
		names[m.Name()] = true
		if i > 0 && sorted[i-1].Priority() == m.Priority() {
			return nil, fmt.Errorf("middlewares %q and %q share priority %d", sorted[i-1].Name(), m.Name(), m.Priority())
		}
	}

	handler := terminal
	for _, m := range slices.Backward(sorted) {
		handler = m.Wrap(handler)
	}
	return &Stack{middlewares: sorted, handler: handler}, nil
}

// Handle runs a call through the whole stack.
func (s *Stack) Handle(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
	return s.handler(ctx, call, emit)
}

// Middlewares lists the stack from the outside in.
func (s *Stack) Middlewares() []Middleware { return slices.Clone(s.middlewares) }
