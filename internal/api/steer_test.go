package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/api"
	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/operators"
)

// helm takes commands and answers with a circuit that obeys them.
type helm struct {
	commands map[string]breaker.Command // by circuit key
	unsaved  bool
	err      error
}

func (h *helm) Command(_ context.Context, key string, c breaker.Command) (breaker.Snapshot, bool, error) {
	if h.err != nil {
		return breaker.Snapshot{}, false, h.err
	}
	h.commands[key] = c
	circuit := breaker.Snapshot{Key: key, Enabled: true, State: breaker.Shadow, Reason: breaker.ReasonOperator, Generation: 8, Note: c.Note, Actor: c.Actor}
	if c.For > 0 {
		circuit.Until = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(c.For)
	}
	return circuit, !h.unsaved, nil
}

// badges are tokens by their text.
type badges map[string]operators.Operator

func (b badges) Verify(_ context.Context, token string) (operators.Operator, error) {
	if token == "unchecked" {
		return operators.Operator{}, fmt.Errorf("%w: %w", operators.ErrUnchecked, errAway)
	}
	if who, ok := b[token]; ok {
		return who, nil
	}
	return operators.Operator{}, operators.ErrInvalidToken
}

// setupHelm is the operator API with ada, who may steer, and vic, who may look.
func setupHelm(t *testing.T) (*console, *helm) {
	t.Helper()
	h := &helm{commands: map[string]breaker.Command{}}
	return setupAdmin(t, func(a *api.Admin, _ *api.Snapshot) {
		a.Steering = h
		a.Circuits = circuits{openCircuit.Key: openCircuit}
		a.Tokens = badges{
			"ada": {Name: "ada", Role: operators.RoleOperator},
			"vic": {Name: "vic", Role: operators.RoleViewer},
		}
	}), h
}

const steerA = "/api/v1/circuits/alpha%2Fm1%2Fr1/"

func bearerOf(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

func TestACircuitIsSteered(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("ä", 500)
	tests := map[string]struct {
		action, body string
		header       http.Header
		want         breaker.Command
	}{
		"open, without a word":      {"open", "", nil, breaker.Command{Action: breaker.ActionOpen, Actor: "local"}},
		"open, empty":               {"open", "{}", nil, breaker.Command{Action: breaker.ActionOpen, Actor: "local"}},
		"close":                     {"close", `{"reason":"repaired"}`, nil, breaker.Command{Action: breaker.ActionClose, Note: "repaired", Actor: "local"}},
		"reset":                     {"reset", `{"ttl_ms":0}`, nil, breaker.Command{Action: breaker.ActionReset, Actor: "local"}},
		"disable, the longest time": {"disable", `{"ttl_ms":2592000000}`, nil, breaker.Command{Action: breaker.ActionDisable, For: 30 * 24 * time.Hour, Actor: "local"}},
		"shadow, many words":        {"shadow", `{"reason":"` + longest + `"}`, nil, breaker.Command{Action: breaker.ActionShadow, Note: longest, Actor: "local"}},
		"by the owner of a token": {"open", `{"reason":"maintenance 🛠","ttl_ms":600000}`, bearerOf("ada"),
			breaker.Command{Action: breaker.ActionOpen, For: 10 * time.Minute, Note: "maintenance 🛠", Actor: "ada"}},
		"the scheme in any case": {"open", "", http.Header{"Authorization": {"bearer ada"}}, breaker.Command{Action: breaker.ActionOpen, Actor: "ada"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, h := setupHelm(t)
			got := c.do(t, http.MethodPost, steerA+tc.action, tc.body, tc.header)
			if diff := cmp.Diff(map[string]breaker.Command{openCircuit.Key: tc.want}, h.commands); got.status != 200 || diff != "" {
				t.Errorf("status %d, body %s, commands (-want +got):\n%s", got.status, got.body, diff)
			}
		})
	}
}

func TestASteeredCircuitIsShownAsItIsThen(t *testing.T) {
	t.Parallel()
	c, h := setupHelm(t)
	h.unsaved = true
	got := c.do(t, http.MethodPost, "/api/v1/circuits/beta%2Fvendor%2Fm2%2Fr2/shadow", `{"reason":"just looking","ttl_ms":1000}`, bearerOf("ada"))
	want := `{"key":"beta/vendor/m2/r2","provider":"beta","model":"vendor/m2","region":"r2","state":"shadow","reason":"operator","class":null,` +
		`"generation":8,"since":null,"retry_after_ms":0,"eligible":false,"calls":0,"failures":0,"slow":0,"failure_rate":null,"slow_call_rate":null,` +
		`"consecutive_failures":0,"rejected":0,"policy":"default","policy_override":null,"note":"just looking","actor":"ada","until":"2026-01-02T03:04:06Z","saved":false}` + "\n"
	if got.status != 200 || got.body != want {
		t.Errorf("status %d, body\n%s\nwant\n%s", got.status, got.body, want)
	}
	h.unsaved = false
	var saved struct{ Saved bool }
	got = c.do(t, http.MethodPost, steerA+"shadow", "", nil)
	if err := json.Unmarshal([]byte(got.body), &saved); err != nil || !saved.Saved {
		t.Errorf("a kept decision is not told as saved: %s", got.body)
	}
}

func TestACommandThatMakesNoSenseChangesNothing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		path, body string
		header     http.Header
		wantStatus int
		wantCode   string
		wantParam  string
		wantWord   string // in the message
	}{
		"an unknown action":          {steerA + "explode", "", nil, 404, "unknown_url", "", "POST"},
		"half-open is not a command": {steerA + "half_open", "", nil, 404, "unknown_url", "", "POST"},
		"a key with its slashes":     {"/api/v1/circuits/primary/small/default/close", "", nil, 404, "unknown_url", "", "written %2F: /api/v1/circuits/primary%2Fsmall%2Fdefault/close."},
		"slashes in its model":       {"/api/v1/circuits/beta/vendor/m2/r2/open", "", nil, 404, "unknown_url", "", "/api/v1/circuits/beta%2Fvendor%2Fm2%2Fr2/open."},
		"an unknown circuit":         {"/api/v1/circuits/nope%2Fm1%2Fr1/open", "", nil, 404, "not_found", "", "nope/m1/r1"},
		"no key":                     {"/api/v1/circuits/alpha%2Fm1/open", "", nil, 400, "invalid_value", "key", "provider/model/region"},
		"a parameter":                {steerA + "open?ttl_ms=5", "", nil, 400, "invalid_value", "ttl_ms", "ttl_ms"},
		"no JSON":                    {steerA + "open", "{", nil, 400, "invalid_json", "", "ends before"},
		"no object":                  {steerA + "open", `"please"`, nil, 400, "invalid_json", "", "no object"},
		"an unknown member":          {steerA + "open", `{"ttl":5}`, nil, 400, "invalid_json", "", "/ttl"},
		"a repeated member":          {steerA + "open", `{"reason":"a","reason":"b"}`, nil, 400, "invalid_json", "", "/reason"},
		"a reason that is a number":  {steerA + "open", `{"reason":5}`, nil, 400, "invalid_json", "", "/reason"},
		"a ttl that is text":         {steerA + "open", `{"ttl_ms":"10m"}`, nil, 400, "invalid_json", "", "/ttl_ms"},
		"a ttl with a part":          {steerA + "open", `{"ttl_ms":1.5}`, nil, 400, "invalid_json", "", "/ttl_ms"},
		"a ttl in the past":          {steerA + "open", `{"ttl_ms":-1}`, nil, 400, "invalid_value", "ttl_ms", "30 days"},
		"a ttl over 30 days":         {steerA + "open", `{"ttl_ms":2592000001}`, nil, 400, "invalid_value", "ttl_ms", "30 days"},
		"a close that lasts":         {steerA + "close", `{"ttl_ms":1}`, nil, 400, "invalid_value", "ttl_ms", "leave ttl_ms out"},
		"a reset that lasts":         {steerA + "reset", `{"ttl_ms":1}`, nil, 400, "invalid_value", "ttl_ms", "leave ttl_ms out"},
		"a reason over 500":          {steerA + "open", `{"reason":"` + strings.Repeat("ä", 501) + `"}`, nil, 400, "invalid_value", "reason", "500"},
		"a reason of two lines":      {steerA + "open", `{"reason":"a\nb"}`, nil, 400, "invalid_value", "reason", "control characters"},
		"a reason with a NUL":        {steerA + "open", `{"reason":"a\u0000b"}`, nil, 400, "invalid_value", "reason", "control characters"},
		"a reason that runs back":    {steerA + "open", `{"reason":"a\u202eb"}`, nil, 400, "invalid_value", "reason", "control characters"},
		"a body without end":         {steerA + "open", `{"reason":"` + strings.Repeat("x", 1<<17), nil, 413, "request_too_large", "", "65536"},
		"a viewer":                   {steerA + "open", "", bearerOf("vic"), 403, "operator_required", "", "vic"},
		"a wrong token":              {steerA + "open", "", bearerOf("eve"), 401, "invalid_token", "", "revoked"},
		"a token nobody can check":   {steerA + "open", "", bearerOf("unchecked"), 503, "database_unavailable", "", "cannot be checked"},
		"another origin":             {steerA + "open", "", http.Header{"Origin": {"https://evil.test"}}, 403, "cross_origin", "", "origin"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, h := setupHelm(t)
			got := c.do(t, http.MethodPost, tc.path, tc.body, tc.header)
			p := problemOf(t, got.body)
			if got.status != tc.wantStatus || p.code() != tc.wantCode || p.param() != tc.wantParam || !strings.Contains(p.Message, tc.wantWord) {
				t.Errorf("status %d, %s", got.status, got.body)
			}
			if len(h.commands) > 0 {
				t.Errorf("the circuit was told: %v", h.commands)
			}
		})
	}
}

func TestAFaultOfSteeringIsOurs(t *testing.T) {
	t.Parallel()
	c, h := setupHelm(t)
	h.err = errors.New("a secret of the inside")
	got := c.do(t, http.MethodPost, steerA+"open", "", nil)
	if got.status != 500 || strings.Contains(got.body, "secret") {
		t.Errorf("status %d, body %s", got.status, got.body)
	}
}

// A token that is given is checked, whatever is asked; without one this machine
// may do everything.
func TestTokensAreCheckedOnEveryOperatorRoute(t *testing.T) {
	t.Parallel()
	routes := map[string]string{
		"/api/v1/pipeline": "GET", "/api/v1/health/providers": "GET", "/api/v1/circuits": "GET", "/api/v1/circuits/alpha%2Fm1%2Fr1": "GET",
		"/api/v1/circuits/alpha%2Fm1%2Fr1/events": "GET", "/api/v1/runs": "GET", "/api/v1/config": "GET", "/api/v1/simulated/alpha": "GET",
		steerA + "close": "POST", steerA + "reset": "POST", steerA + "disable": "POST", steerA + "shadow": "POST",
	}
	tests := map[string]struct {
		header           http.Header
		wantRead, wantDo int
	}{
		"none":             {nil, 200, 200},
		"an operator":      {bearerOf("ada"), 200, 200},
		"a viewer":         {bearerOf("vic"), 200, 403},
		"a wrong one":      {bearerOf("eve"), 401, 401},
		"an empty one":     {http.Header{"Authorization": {"Bearer "}}, 401, 401},
		"another scheme":   {http.Header{"Authorization": {"Basic YWRhOmFkYQ=="}}, 401, 401},
		"nothing in it":    {http.Header{"Authorization": {""}}, 401, 401},
		"two":              {http.Header{"Authorization": {"Bearer ada", "Bearer vic"}}, 401, 401},
		"cannot be proved": {bearerOf("unchecked"), 503, 503},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := setupHelm(t)
			for path, method := range routes {
				want := tc.wantRead
				if method != "GET" {
					want = tc.wantDo
				}
				got := c.do(t, method, path, "", tc.header)
				if got.status != want {
					t.Errorf("%s %s: status %d, want %d: %s", method, path, got.status, want, got.body)
				}
				if challenged := strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer "); challenged != (want == 401) {
					t.Errorf("%s %s: WWW-Authenticate is %q at status %d", method, path, got.header.Get("WWW-Authenticate"), got.status)
				}
			}
			if got := c.do(t, "PUT", "/api/v1/simulated/alpha", "{}", tc.header); got.status != tc.wantDo {
				t.Errorf("a simulated provider is changed with status %d, want %d", got.status, tc.wantDo)
			}
			read, do := tc.wantRead, tc.wantDo
			if _, bears := strings.CutPrefix(tc.header.Get("Authorization"), "Bearer "); !bears || len(tc.header["Authorization"]) > 1 {
				read, do = 200, 200 // a page is not told what a proxy is
			}
			if got := c.do(t, "GET", "/page", "", tc.header); got.status != read {
				t.Errorf("a page is shown with status %d, want %d", got.status, read)
			}
			if got := c.do(t, "POST", "/page", "", tc.header); got.status != do {
				t.Errorf("a page's button answers with status %d, want %d", got.status, do)
			}
			for _, path := range []string{"/metrics", "/healthz"} {
				if got := c.do(t, "GET", path, "", tc.header); got.status != 200 {
					t.Errorf("%s asks for an operator token: status %d", path, got.status)
				}
			}
		})
	}
}
