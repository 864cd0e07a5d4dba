package app

import (
	"context"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/provider"
)

// closing is a client that counts how often it is closed.
type closing struct {
	provider.Client
	closed int
}

func (c *closing) Close() { c.closed++ }

// What only an old runtime needs is let go when its last call has ended; what
// the running one has, too, stays open.
func TestClientsCloseAfterTheirLastCall(t *testing.T) {
	t.Parallel()
	shared, old := &closing{}, &closing{}
	g := &gateway{}
	g.runtime.Store(&runtime{clients: clients{"shared": shared, "changed": &closing{}}})
	replaced := &runtime{clients: clients{"shared": shared, "changed": old}}
	replaced.calls.over = func() { replaced.clients.closeUnshared(g.runtime.Load().clients) }

	leave := make(chan struct{})
	inside := make(chan struct{})
	handle := replaced.calls.counting(func(context.Context, *llm.Call, llm.Emit) (*llm.Result, error) {
		inside <- struct{}{}
		<-leave
		return nil, nil
	})
	done := make(chan struct{})
	call := func() {
		defer func() { done <- struct{}{} }()
		_, _ = handle(t.Context(), nil, nil)
	}
	go call()
	go call()
	<-inside
	<-inside

	replaced.calls.replace()
	if old.closed != 0 {
		t.Error("a client was closed under its calls")
	}
	leave <- struct{}{}
	<-done
	if old.closed != 0 {
		t.Error("a client was closed under its last call")
	}
	leave <- struct{}{}
	<-done
	if old.closed != 1 {
		t.Errorf("after the last call the client was closed %d times, want once", old.closed)
	}

	// A request that had taken the runtime before it was replaced.
	go call()
	<-inside
	leave <- struct{}{}
	<-done
	if old.closed != 2 {
		t.Error("what a late call has opened stays open")
	}
	if shared.closed != 0 {
		t.Error("a client that the running configuration has was closed")
	}
}

func TestARuntimeWithoutCallsIsOverAtOnce(t *testing.T) {
	t.Parallel()
	over := false
	idle := tenure{over: func() { over = true }}
	idle.replace()
	if !over {
		t.Error("a runtime without calls is kept")
	}
}

func TestAProviderThatIsCalledAsBeforeKeepsItsClient(t *testing.T) {
	t.Parallel()
	base := config.Provider{Kind: config.KindOpenAI, BaseURL: "http://127.0.0.1:1/v1", APIKey: config.NewSecret("one"), Region: "r1"}
	kept := &closing{}
	running := &runtime{cfg: &config.Config{Providers: map[string]config.Provider{"alpha": base}}, clients: clients{"alpha": kept}}
	tests := map[string]struct {
		change func(p *config.Provider)
		keeps  bool
	}{
		"nothing":        {func(*config.Provider) {}, true},
		"a price":        {func(p *config.Provider) { p.Models = map[string]config.Model{"m1": {}} }, true},
		"retries":        {func(p *config.Provider) { p.Retry.Max = 7 }, true},
		"the bulkhead":   {func(p *config.Provider) { p.MaxConcurrent = 7 }, true},
		"the key":        {func(p *config.Provider) { p.APIKey = config.NewSecret("two") }, false},
		"the address":    {func(p *config.Provider) { p.BaseURL = "http://127.0.0.1:2/v1" }, false},
		"the clocks":     {func(p *config.Provider) { p.Timeouts.Total = 1 }, false},
		"the kind":       {func(p *config.Provider) { p.Kind, p.Simulated = config.KindSimulated, &config.Simulated{} }, false},
		"what it plays":  {func(p *config.Provider) { p.Simulated = &config.Simulated{} }, false},
		"another region": {func(p *config.Provider) { p.Region = "r2" }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := base
			tt.change(&p)
			client, keeps := running.client("alpha", p)
			if keeps != tt.keeps || (keeps && client != provider.Client(kept)) {
				t.Errorf("the client is kept: %t, want %t", keeps, tt.keeps)
			}
		})
	}
	if _, keeps := running.client("beta", base); keeps {
		t.Error("a new provider has a client")
	}
	if _, keeps := (*runtime)(nil).client("alpha", base); keeps {
		t.Error("at the start there is a client")
	}
}
