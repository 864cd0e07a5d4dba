package app

import (
	"context"
	"sync/atomic"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// tenure counts the calls that a runtime serves, so that what only it needs is
// let go when it was replaced and the last of them has ended.
type tenure struct {
	calls    atomic.Int64
	replaced atomic.Bool
	// over lets go. A request that has taken the runtime before it was replaced
	// may begin its call late, so over can come once more when that has ended.
	over func()
}

// counting wraps the way that all calls of the runtime go.
func (t *tenure) counting(handle api.Handler) api.Handler {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		t.calls.Add(1)
		defer t.leave()
		return handle(ctx, call, emit)
	}
}

// during counts what the gateway asks on its own account.
func (t *tenure) during(asks func() error) error {
	t.calls.Add(1)
	defer t.leave()
	return asks()
}

func (t *tenure) leave() {
	if t.calls.Add(-1) == 0 && t.replaced.Load() {
		t.over()
	}
}

// replace says that no new request will take the runtime.
func (t *tenure) replace() {
	t.replaced.Store(true)
	if t.calls.Load() == 0 {
		t.over()
	}
}
