package api

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Gate lets calls in, counts those that are inside and empties the house at the
// end: app opens it when requests can be served, closes it on SIGTERM, drains
// it, and aborts what is left. No lock is shared by the calls that pass.
type Gate struct {
	phase   atomic.Int32
	inside  atomic.Int64
	aborted atomic.Bool
	calls   sync.Map      // *visit, every call inside
	idle    chan struct{} // holds a token after the last call left
}

// visit is one call inside the gate.
type visit struct{ cancel context.CancelCauseFunc }

// The phases of the process.
const (
	phaseStarting int32 = iota
	phaseReady
	phaseDraining
)

// phaseNames are the words that readiness answers.
var phaseNames = [...]string{phaseStarting: "starting", phaseReady: "ready", phaseDraining: "draining"}

// NewGate returns a gate of a process that is starting: calls may enter, but
// readiness says that the process is not yet ready.
func NewGate() *Gate { return &Gate{idle: make(chan struct{}, 1)} }

// Open says that requests can be served. It does nothing once the gate is
// closed.
func (g *Gate) Open() { g.phase.CompareAndSwap(phaseStarting, phaseReady) }

// Close refuses every call from now on; those inside go on.
func (g *Gate) Close() { g.phase.Store(phaseDraining) }

// Inside counts the calls in flight.
func (g *Gate) Inside() int { return int(g.inside.Load()) }

// Drain waits until no call is inside. Returns the cause of ctx when that ends
// first. Only one may wait at a time.
func (g *Gate) Drain(ctx context.Context) error {
	for g.inside.Load() > 0 {
		select {
		case <-g.idle:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Abort ends every call inside with llm.ErrShutdown, so that streams can say so
// before they end. Wait for them with another Drain.
func (g *Gate) Abort() {
	g.aborted.Store(true)
	g.calls.Range(func(v, _ any) bool {
		v.(*visit).cancel(llm.ErrShutdown)
		return true
	})
}

// enter lets a call in, unless the gate is closed. The call leaves by the
// returned function, once.
func (g *Gate) enter(cancel context.CancelCauseFunc) (leave func(), ok bool) {
	g.inside.Add(1)
	if g.phase.Load() == phaseDraining {
		g.left()
		return nil, false
	}
	v := &visit{cancel: cancel}
	g.calls.Store(v, nil)
	if g.aborted.Load() { // it may have looked before this call stood in the list
		cancel(llm.ErrShutdown)
	}
	return func() {
		g.calls.Delete(v)
		g.left()
	}, true
}

func (g *Gate) left() {
	if g.inside.Add(-1) > 0 {
		return
	}
	select {
	case g.idle <- struct{}{}:
	default:
	}
}
