package pipeline

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Bulkheads count the calls in flight with each provider, so that a slow one
// cannot hold every connection. They outlive a reload of the configuration: a
// new limit applies to the calls already in flight. Create it with new.
type Bulkheads struct {
	compartments sync.Map // provider → *compartment
}

type compartment struct {
	inFlight atomic.Int64
}

func (b *Bulkheads) of(provider string) *compartment {
	if found, ok := b.compartments.Load(provider); ok {
		return found.(*compartment)
	}
	made, _ := b.compartments.LoadOrStore(provider, &compartment{})
	return made.(*compartment)
}

// enter takes a place and reports false when limit places are taken. It never
// takes one to give it back, which could turn away a neighbour.
func (c *compartment) enter(limit int) bool {
	for {
		taken := c.inFlight.Load()
		if limit > 0 && taken >= int64(limit) {
			return false
		}
		if c.inFlight.CompareAndSwap(taken, taken+1) {
			return true
		}
	}
}

func (c *compartment) leave() { c.inFlight.Add(-1) }

// bulkhead lets a send through while its provider has a place, and refuses it
// at once otherwise: a queue would only hide the overload.
func bulkhead(policies Policies, next Handler) Handler {
	return func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
		provider := call.Target.Provider
		places := policies.Bulkheads.of(provider)
		if !places.enter(policies.Providers[provider].MaxConcurrent) {
			return nil, &llm.Failure{Class: llm.ClassSaturated, Reason: llm.ReasonBulkheadFull, Target: call.Target}
		}
		defer places.leave()
		return next(ctx, call, emit)
	}
}
