package apptest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Key is an API key with its text.
type Key struct {
	ID, Text string
	Prefix   string // of the text; public
}

// Authorization are the header pairs of a request with the key.
func (k Key) Authorization() []string { return []string{"Authorization", "Bearer " + k.Text} }

// MintKey mints an API key over the operator API; limits are the members of a
// JSON object.
func (g *Gateway) MintKey(t testing.TB, name, limits string) Key {
	t.Helper()
	return g.MintKeyWith(t, name, `"limits":{`+limits+`}`)
}

// MintKeyWith is MintKey with further members of the question, such as
// `"configurations":["chat"]`.
func (g *Gateway) MintKeyWith(t testing.TB, name string, more ...string) Key {
	t.Helper()
	members := append([]string{fmt.Sprintf(`"name":%q`, name)}, more...)
	var answer Answer
	Eventually(t, func() string { // the database may be away for a moment on a busy machine
		answer = g.Operator(t, http.MethodPost, "/api/v1/keys", "{"+strings.Join(members, ",")+"}")
		if answer.Status == http.StatusServiceUnavailable {
			return answer.Body
		}
		return ""
	})
	var minted struct{ ID, Key, Prefix string }
	if err := json.Unmarshal([]byte(answer.Body), &minted); err != nil || minted.Key == "" {
		t.Fatalf("mint key %s: status %d %s", name, answer.Status, answer.Body)
	}
	return Key{ID: minted.ID, Text: minted.Key, Prefix: minted.Prefix}
}

// Operator asks the operator API.
func (g *Gateway) Operator(t testing.TB, method, path, body string) Answer {
	t.Helper()
	answer, err := Do(t.Context(), method, g.AdminURL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}
