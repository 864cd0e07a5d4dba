package budget_test

import (
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// everywhere holds a behaviour to every store that ledgers can share.
func everywhere(t *testing.T, behave func(t *testing.T, open func() *budget.Ledger)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		memory := cache.NewMemory(cache.MemoryConfig{})
		t.Cleanup(func() { _ = memory.Close() })
		behave(t, func() *budget.Ledger { return opened(t, memory, budget.LedgerConfig{}, nil) })
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		behave(t, func() *budget.Ledger { return opened(t, shared(t, server), budget.LedgerConfig{}, nil) })
	})
}

// shared is a connection of its own to a server.
func shared(t *testing.T, server *redistest.Server) cache.Cache {
	t.Helper()
	store, err := cache.OpenValkey(server.URL(), cache.ValkeyConfig{Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func opened(t *testing.T, store cache.Cache, cfg budget.LedgerConfig, books budget.Books) *budget.Ledger {
	t.Helper()
	l := budget.NewLedger(cfg, store, books, nil)
	l.Start()
	t.Cleanup(func() { stop(l) })
	return l
}
