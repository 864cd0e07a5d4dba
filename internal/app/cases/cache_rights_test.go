package cases

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
)

// TestTheRightsOfTheCacheUser gives the gateway's user on Redis the rights that
// docs/operations.md prints, uses whatever needs the cache, and looks whether the
// server has refused anything.
func TestTheRightsOfTheCacheUser(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	order(t, server, printedRights(t)...)
	url := "redis://breakwater:PASSWORD@" + server.Addr()
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, fmt.Sprintf(`
providers:
  alpha: {kind: openai, base_url: %q, region: r1, api_key: sk-1, models: {m1: {input: 1, output: 1}}}
configurations:
  chat: {targets: [{provider: alpha, model: m1}], limits: {requests_per_minute: 100, cost_per_day: 100, concurrent: 9}}
response_cache: {ttl: 1h}
cache: {url: %q, timeout: 10s}
`, a.URL, url))

	cached(t, g, apptest.ChatBody, "miss")
	equal(t, "kept under a key", g.Post(t, apptest.ChatBody, "X-Breakwater-Cache", "no-store", "Idempotency-Key", "k1").Status, http.StatusOK)
	equal(t, "replayed", g.Post(t, apptest.ChatBody, "X-Breakwater-Cache", "no-store", "Idempotency-Key", "k1").Header.Get("Idempotent-Replayed"), "true")
	apptest.Eventually(t, func() string {
		for _, kind := range []string{"cb:", "budget:{configuration:chat}", "budget:{fleet}", "ik:", "breakwater:responses:"} {
			if !strings.Contains(strings.Join(server.Keys(), " "), kind) {
				return kind + " is not there yet"
			}
		}
		return ""
	})
	equal(t, "calls", a.Calls(), 2)
	forget, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, g.AdminURL+"/api/v1/response-cache", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(forget)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	equal(t, "forgetting answers", answer.StatusCode, http.StatusOK)

	if refused := fmt.Sprint(order(t, server, "ACL", "LOG")); refused != "[]" {
		t.Errorf("the server has refused: %s", refused)
	}
}

// printedRights are the words of the command in docs/operations.md.
func printedRights(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "ACL SETUSER ") {
			return strings.Fields(line)
		}
	}
	t.Fatal("docs/operations.md prints no ACL SETUSER")
	return nil
}

func order(t *testing.T, server *redistest.Server, words ...string) any {
	t.Helper()
	answer, err := server.Do(words...)
	if err != nil {
		t.Fatalf("%s: %v", words[0], err)
	}
	return answer
}
