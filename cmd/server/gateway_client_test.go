package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answering serves one answer to every request, and tells what it was asked.
func answering(t *testing.T, status int, body string) (server *httptest.Server, asked func() []string) {
	t.Helper()
	var log []string
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		log = append(log, strings.Join([]string{r.Method, r.RequestURI, r.Header.Get("Authorization"), string(sent)}, " "))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server, func() []string {
		server.Close() // waits for the handlers
		return log
	}
}

const forcedOpen = `{"key":"a/b/c/d","state":"forced_open","reason":"operator","class":null,"since":"2026-01-02T02:04:05Z","retry_after_ms":0,` +
	`"calls":0,"failure_rate":null,"note":"upgrade","actor":"anna","until":"2026-01-02T03:04:05Z","saved":true}`

func TestACommandCarriesTheTokenAndTheKeyAsOneSegment(t *testing.T) {
	t.Parallel()
	server, asked := answering(t, http.StatusOK, forcedOpen)
	client, err := newGatewayClient(server.URL+"/", "bwo_x")
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.command(t.Context(), "a/b/c/d", "open", "upgrade", 10*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if want := "a/b/c/d is forced_open, set by anna, until 2026-01-02T03:04:05Z: upgrade"; got.sentence() != want {
		t.Errorf("got %q, want %q", got.sentence(), want)
	}
	if _, err := client.command(t.Context(), "a/b/c/d", "close", "", 0); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`POST /api/v1/circuits/a%2Fb%2Fc%2Fd/open Bearer bwo_x {"reason":"upgrade","ttl_ms":600000}`,
		`POST /api/v1/circuits/a%2Fb%2Fc%2Fd/close Bearer bwo_x {}`,
	}
	if diff := cmp.Diff(want, asked()); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// Whatever the gateway answers, one line says what to do.
func TestRefusalsSayWhatToDo(t *testing.T) {
	t.Parallel()
	refusal := func(code, message string) string {
		return `{"error":{"message":"` + message + `","type":"x","param":null,"code":"` + code + `"}}`
	}
	for name, test := range map[string]struct {
		token  string
		status int
		body   string
		want   string
	}{
		"no token":         {"", 401, refusal("invalid_token", "No."), "asks for a token: set BREAKWATER_TOKEN"},
		"wrong token":      {"bwo_x", 401, refusal("invalid_token", "No."), "does not accept the token in BREAKWATER_TOKEN"},
		"viewer":           {"bwo_x", 403, refusal("forbidden", "A viewer may only look"), "A viewer may only look. Set BREAKWATER_TOKEN to a token of role operator"},
		"cannot check":     {"bwo_x", 503, refusal("database_unavailable", "Later."), "refuses: Later."},
		"field":            {"", 400, refusal("invalid_value", "reason is too long."), "refuses: reason is too long."},
		"colours":          {"", 400, refusal("invalid_value", `a\u001b[31mb`), "refuses: a?[31mb"},
		"silent refusal":   {"", 500, refusal("internal_error", ""), "refuses: status 500"},
		"too old":          {"", 405, refusal("method_not_allowed", "No."), "name its server.admin_listen"},
		"another surface":  {"", 404, refusal("unknown_url", "No."), "name its server.admin_listen"},
		"some web server":  {"", 404, "<html>404</html>", "name its server.admin_listen"},
		"not a circuit":    {"", 200, `{"hello":"world"}`, "name its server.admin_listen"},
		"no JSON":          {"", 200, "hello", "name its server.admin_listen"},
		"an unlisted miss": {"", 404, refusal("not_found", "There is no circuit."), "refuses: There is no circuit."},
	} {
		server, _ := answering(t, test.status, test.body)
		client, err := newGatewayClient(server.URL, test.token)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.command(t.Context(), "a/b/c", "open", "", 0)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %q in one line", name, err, test.want)
		}
		if usage := (usageError{}); errors.As(err, &usage) {
			t.Errorf("%s: is taken for wrong use", name)
		}
	}
}

// A command that holds and is not saved succeeds, and warns.
func TestAnUnsavedCommandIsToldOnStderr(t *testing.T) {
	t.Parallel()
	server, _ := answering(t, http.StatusOK, strings.Replace(forcedOpen, `"saved":true`, `"saved":false`, 1))
	var out, errs bytes.Buffer
	exit := run([]string{"circuits", "open", "a/b/c/d", "--url", server.URL}, streams{Out: &out, Err: &errs})
	if exit != exitDone || !strings.HasPrefix(out.String(), "a/b/c/d is forced_open") {
		t.Errorf("exit %d, stdout %q", exit, out.String())
	}
	if got := errs.String(); !strings.HasPrefix(got, "breakwater: the command holds, but it is not saved yet") || strings.Count(got, "\n") != 1 {
		t.Errorf("stderr %q", got)
	}
}

func TestTheTableOfCircuits(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	all := []circuit{
		{Key: "a/m/r", State: "open", Reason: "failure_rate", Class: "server_error", Since: since, RetryAfterMS: 21_049, Calls: 12, FailureRate: new(0.75)},
		{Key: "b/m/r", State: "open", Reason: "consecutive", Since: since, Eligible: true},
		{Key: "c/m/r", State: "shadow", Reason: "operator", Actor: "anna", Since: since, Calls: 3},
		{Key: "d/m/r", State: "forced_open", Reason: "operator", Actor: "anna", Since: since, Note: "a\x1b[31m\tb", Until: since.Add(time.Hour)},
	}
	var got bytes.Buffer
	if err := printCircuits(&got, all); err != nil {
		t.Fatal(err)
	}
	want := `KEY    STATE        WHY                          SINCE                 RETRY AFTER  FAILURE RATE  CALLS  NOTE
a/m/r  open         failure_rate (server_error)  2026-01-02T03:04:05Z  21s          75.0%         12     -
b/m/r  open         consecutive                  2026-01-02T03:04:05Z  due          -             0      -
c/m/r  shadow       set by anna                  2026-01-02T03:04:05Z  -            -             3      -
d/m/r  forced_open  set by anna                  2026-01-02T03:04:05Z  -            -             0      a?[31m?b (until 2026-01-02T04:04:05Z)
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestTheNearestKeysComeFirst(t *testing.T) {
	t.Parallel()
	known := []circuit{{Key: "azure/gpt-4.1/eu"}, {Key: "openai/gpt-4.1-mini/global"}, {Key: "openai/gpt-4.1/global"}, {Key: "openai/o3/global"}}
	err := noSuchCircuit("openai/gpt-4.1-min/global", known)
	if want := "nearest: openai/gpt-4.1-mini/global, openai/gpt-4.1/global, openai/o3/global;"; !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	if err := noSuchCircuit("a/b/c", nil); !strings.Contains(err.Error(), "declares no target") {
		t.Errorf("without any circuit: %v", err)
	}
}
