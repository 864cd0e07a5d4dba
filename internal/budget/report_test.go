package budget_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// TestAStoreThatRefusesWorkInTheBackgroundIsLoggedOnce, since nobody waits for that
// work; one that is away is not logged by it.
func TestAStoreThatRefusesWorkInTheBackgroundIsLoggedOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store, err := cache.OpenValkey(server.URL(), cache.ValkeyConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	var logged bytes.Buffer
	l := budget.NewLedger(budget.LedgerConfig{}, store, nil, slog.New(slog.NewTextHandler(&logged, nil)))
	t.Cleanup(func() { stop(l) })
	eventually(t, "the store is there", func() bool { budget.Beat(l); return len(server.Keys()) == 1 })
	if _, err := server.Do("SET", server.Keys()[0], "a text"); err != nil {
		t.Fatal(err)
	}
	if logged.Len() > 0 {
		t.Errorf("before it refuses anything there is logged:\n%s", &logged)
	}

	eventually(t, "it is refused", func() bool { budget.Beat(l); return logged.Len() > 0 })
	for range 3 {
		budget.Beat(l)
	}
	server.Kill()
	for range 3 {
		budget.Beat(l)
	}

	if text := logged.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "show that this gateway lives") || !strings.Contains(text, "another kind of value") {
		t.Errorf("logged is, want one line with what and why:\n%s", text)
	}
}
