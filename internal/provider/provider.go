// Package provider sends calls to upstream models. It owns what every kind of
// provider has in common: the registry that the pipeline dispatches to, the
// HTTP transport, the clocks of an attempt, and the one place where an
// upstream's failure is given its class. Each kind has a folder of its own. A
// provider makes one send per call; it must not know of retries, fallback,
// circuits or the HTTP answer to the client.
package provider

import (
	"context"
	"fmt"
	"maps"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Client is one configured provider.
type Client interface {
	// Send makes one request for the call's target. It emits the events of a
	// stream as they come and returns when the stream has ended. A Result comes
	// whenever a response was received; an error is an *llm.Failure.
	Send(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error)
	// Close lets go of idle connections. Calls in flight are not disturbed.
	Close()
}

// Registry finds the client for a target. It does not change: another
// configuration has another registry.
type Registry struct {
	clients map[string]Client
}

// New returns a registry of the clients, keyed by the provider's name.
func New(clients map[string]Client) *Registry {
	return &Registry{clients: maps.Clone(clients)}
}

// Dispatch makes one send to the call's target.
func (r *Registry) Dispatch(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
	client, ok := r.clients[call.Target.Provider]
	if !ok {
		return nil, &llm.Failure{
			Class: llm.ClassConfiguration, Reason: llm.ReasonUnsupported, Target: call.Target, Unsent: true,
			Err: fmt.Errorf("no provider is named %q", call.Target.Provider),
		}
	}
	return client.Send(ctx, call, emit)
}
