package provider_test

import (
	"context"
	"errors"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/provider"
)

// named is a client that answers with its own name.
type named struct {
	name string
}

func (n *named) Send(_ context.Context, call *llm.Call, _ llm.Emit) (*llm.Result, error) {
	return &llm.Result{Target: call.Target, Body: []byte(n.name)}, nil
}

func (n *named) Close() {}

func TestDispatchFindsTheProvider(t *testing.T) {
	t.Parallel()
	alpha, beta := &named{name: "alpha"}, &named{name: "beta"}
	clients := map[string]provider.Client{"alpha": alpha, "beta": beta}
	registry := provider.New(clients)
	delete(clients, "alpha") // the registry keeps what it was given

	for _, name := range []string{"alpha", "beta"} {
		result, err := registry.Dispatch(t.Context(), &llm.Call{Target: llm.Target{Provider: name}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if string(result.Body) != name {
			t.Errorf("%s was answered by %s", name, result.Body)
		}
	}
}

func TestDispatchToNobody(t *testing.T) {
	t.Parallel()
	_, err := provider.New(nil).Dispatch(t.Context(), &llm.Call{Target: llm.Target{Provider: "gone", Model: "m", Region: "r"}}, nil)
	var f *llm.Failure
	if !errors.As(err, &f) || f.Class != llm.ClassConfiguration || !f.Unsent || f.Target.Provider != "gone" {
		t.Errorf("got %v, want a fault of the configuration", err)
	}
}
