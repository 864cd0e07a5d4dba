package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/keys"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Keys as they are minted; ring knows the first two.
var (
	shopKey  = "bw_shopshopsh_" + strings.Repeat("s", 43)
	chatKey  = "bw_chatchatch_" + strings.Repeat("c", 43)
	wrongKey = "bw_wrongwrong_" + strings.Repeat("w", 43)
)

// ring are keys by their text.
type ring map[string]*keys.Identity

func (r ring) Verify(_ context.Context, key string, _ netip.Addr) (*keys.Identity, error) {
	switch key {
	case "unchecked":
		return nil, fmt.Errorf("%w: %w", keys.ErrUnchecked, errAway)
	case "throttled":
		return nil, &keys.ThrottledError{RetryAfter: 300 * time.Millisecond}
	case "broken":
		return nil, errors.New("a bug with a secret in it")
	}
	if who, ok := r[key]; ok {
		return who, nil
	}
	return nil, keys.ErrInvalid
}

var (
	shop     = llm.Caller{KeyID: "k-1", Name: "shop", Limits: llm.Limits{Concurrent: new(int64(3))}}
	chatOnly = llm.Caller{KeyID: "k-2", Name: "chat-only"}
)

// setupKeys serves the data plane to those who have a key: shop may name
// everything, chat-only the configuration chat.
func setupKeys(t *testing.T, handle api.Handler) *gateway {
	t.Helper()
	g := &gateway{gate: api.NewGate(), refusals: &counter{}, log: &logBuffer{}, snapshot: snapshot(handle)}
	g.gate.Open()
	g.network = serve(t, api.NewData(api.Data{
		Snapshot: func() *api.Snapshot { return g.snapshot },
		Gate:     g.gate,
		Degraded: func() []string { return nil },
		Refusals: g.refusals,
		Keys:     ring{shopKey: keys.NewIdentity(shop, nil), chatKey: keys.NewIdentity(chatOnly, []string{"chat", "gone"})},
		Log:      g.log.logger(),
	}))
	return g
}

func TestAKeyIsReadFromWhereClientsPutIt(t *testing.T) {
	t.Parallel()
	bearer := func(key string) string { return "Bearer " + key }
	for name, tc := range map[string]struct {
		header http.Header
		want   int
	}{
		"authorization":        {http.Header{"Authorization": {bearer(shopKey)}}, 200},
		"x-api-key":            {http.Header{"X-Api-Key": {shopKey}}, 200},
		"the scheme in small":  {http.Header{"Authorization": {"bearer " + shopKey}}, 200},
		"both, the same":       {http.Header{"Authorization": {bearer(shopKey)}, "X-Api-Key": {shopKey}}, 200},
		"any host":             {http.Header{"X-Api-Key": {shopKey}, "Host": {"gateway.example"}}, 200},
		"an origin":            {http.Header{"X-Api-Key": {shopKey}, "Origin": {"https://app.example"}}, 200},
		"neither":              {nil, 401},
		"both, different":      {http.Header{"Authorization": {bearer(shopKey)}, "X-Api-Key": {chatKey}}, 401},
		"two authorizations":   {http.Header{"Authorization": {bearer(shopKey), bearer(shopKey)}}, 401},
		"two x-api-keys":       {http.Header{"X-Api-Key": {shopKey, shopKey}}, 401},
		"another scheme":       {http.Header{"Authorization": {"Basic " + shopKey}}, 401},
		"another, and the key": {http.Header{"Authorization": {"Basic " + shopKey}, "X-Api-Key": {shopKey}}, 401},
		"no scheme":            {http.Header{"Authorization": {shopKey}}, 401},
		"an empty one":         {http.Header{"Authorization": {""}}, 401},
		"an empty key":         {http.Header{"X-Api-Key": {""}}, 401},
		"an unknown key":       {http.Header{"X-Api-Key": {wrongKey}}, 401},
		"a part of a key":      {http.Header{"X-Api-Key": {shopKey[:20]}}, 401},
		"another provider's":   {http.Header{"Api-Key": {shopKey}, "X-Goog-Api-Key": {shopKey}}, 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen []llm.Caller
			g := setupKeys(t, func(ctx context.Context, call *llm.Call, emit llm.Emit) (*llm.Result, error) {
				seen = append(seen, call.Caller)
				return answering(`{}`)(ctx, call, emit)
			})
			got := g.chat(t, tc.header)
			if got.status != tc.want {
				t.Fatalf("status %d, want %d: %s", got.status, tc.want, got.body)
			}
			if tc.want == 200 {
				if diff := cmp.Diff([]llm.Caller{shop}, seen); diff != "" {
					t.Errorf("callers (-want +got):\n%s", diff)
				}
				return
			}
			p := problemOf(t, got.body)
			if p.Type != "authentication_error" || p.code() != "invalid_api_key" || len(seen) != 0 || got.header.Get("WWW-Authenticate") == "" {
				t.Errorf("refused with %s after the calls %v", got.body, seen)
			}
			checkIDs(t, got.header)
		})
	}
}

// Covers SEC-05: of what was given as a key nothing is shown but what is public.
func TestARejectedKeyIsNotShown(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ key, shown string }{
		"of ours":         {wrongKey, "bw_wrongwrong…"},
		"of another make": {"gk-UNKNOWN-0123456789", "begin with bw_"},
		"of a provider":   {"sk-proj-verysecret0123456789", "begin with bw_"},
		"almost of ours":  {wrongKey[:30], "not known here; check that it was copied whole"},
	} {
		g := setupKeys(t, uncalled(t))
		got := g.chat(t, http.Header{"Authorization": {"Bearer " + tc.key}})
		if message := problemOf(t, got.body).Message; got.status != 401 || !strings.Contains(message, tc.shown) {
			t.Errorf("%s: status %d, %q, want 401 and %q", name, got.status, message, tc.shown)
		}
		for what, text := range map[string]string{"the answer": got.body, "the log": g.log.String(), "a header": fmt.Sprint(got.header)} {
			if secret := tc.key[len(tc.key)-8:]; strings.Contains(text, secret) {
				t.Errorf("%s: %s shows %s", name, what, secret)
			}
		}
	}
}

func TestWhatCannotBeCheckedIsNoWrongKey(t *testing.T) {
	t.Parallel()
	for key, tc := range map[string]struct {
		status           int
		kind, code       string
		retry, retrySoon string
	}{
		"unchecked": {503, "service_unavailable_error", "key_store_unavailable", "1", ""},
		"throttled": {429, "rate_limit_error", "rate_limit_exceeded", "1", ""},
		"broken":    {500, "server_error", "internal_error", "", ""},
	} {
		g := setupKeys(t, uncalled(t))
		got := g.chat(t, http.Header{"X-Api-Key": {key}})
		p := problemOf(t, got.body)
		if got.status != tc.status || p.Type != tc.kind || p.code() != tc.code || got.header.Get("Retry-After") != tc.retry || got.header.Get("X-Should-Retry") != tc.retrySoon {
			t.Errorf("%s: status %d, %v, %s", key, got.status, got.header, got.body)
		}
		if diff := cmp.Diff(map[string]int{tc.code: 1}, g.refusals.counts()); diff != "" || !slices.Contains(api.RefusalCodes(), tc.code) {
			t.Errorf("%s: counted (-want +got):\n%s", key, diff)
		}
		if strings.Contains(got.body, "secret") || strings.Contains(got.body, errAway.Error()) {
			t.Errorf("%s: the answer shows the cause: %s", key, got.body)
		}
	}
}

// A caller without a key is answered before it has sent its body.
func TestNobodyIsReadBeforeTheirKey(t *testing.T) {
	t.Parallel()
	g := setupKeys(t, uncalled(t))
	body, never := io.Pipe()
	t.Cleanup(func() { _ = never.Close() })
	resp := g.start(t, t.Context(), http.MethodPost, "/v1/chat/completions", body, nil)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("status %d, want 401", resp.StatusCode)
	}
}

func TestAKeyNamesOnlyWhatItMay(t *testing.T) {
	t.Parallel()
	g := setupKeys(t, answering(`{}`))
	const direct = `{"model":"beta/vendor/m2","messages":[{"role":"user","content":"hello"}]}`
	for name, tc := range map[string]struct {
		key, method, path, body string
		status                  int
		code                    string
	}{
		"allowed":            {chatKey, "POST", "/v1/chat/completions", chatBody, 200, ""},
		"another":            {chatKey, "POST", "/v1/chat/completions", direct, 403, "model_not_allowed"},
		"everything":         {shopKey, "POST", "/v1/chat/completions", direct, 200, ""},
		"allowed, not there": {chatKey, "POST", "/v1/chat/completions", strings.Replace(chatBody, "chat", "gone", 1), 404, "model_not_found"},
		"neither":            {chatKey, "POST", "/v1/chat/completions", strings.Replace(chatBody, "chat", "none", 1), 404, "model_not_found"},
		"look at allowed":    {chatKey, "GET", "/v1/models/chat", "", 200, ""},
		"look at another":    {chatKey, "GET", "/v1/models/beta/vendor/m2", "", 403, "model_not_allowed"},
		"look at none":       {chatKey, "GET", "/v1/models/none", "", 404, "model_not_found"},
		"look without a key": {"", "GET", "/v1/models/chat", "", 401, "invalid_api_key"},
		"list without a key": {"", "GET", "/v1/models", "", 401, "invalid_api_key"},
		"probe, anybody":     {"", "GET", "/readyz", "", 200, ""},
	} {
		header := http.Header{}
		if tc.key != "" {
			header.Set("X-Api-Key", tc.key)
		}
		got := g.do(t, tc.method, tc.path, tc.body, header)
		code := ""
		if got.status >= 400 {
			code = problemOf(t, got.body).code()
		}
		if got.status != tc.status || code != tc.code {
			t.Errorf("%s: status %d, %s, want %d %s", name, got.status, got.body, tc.status, tc.code)
		}
	}
	for key, want := range map[string]int{shopKey: 2, chatKey: 1} {
		list := g.do(t, http.MethodGet, "/v1/models", "", http.Header{"X-Api-Key": {key}})
		if got := strings.Count(list.body, `"id":`); got != want || !strings.Contains(list.body, `"id":"chat"`) {
			t.Errorf("%s sees %s, want %d", keys.Public(key), list.body, want)
		}
	}
}
