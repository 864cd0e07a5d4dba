package cases

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
)

var secrets = theme{
	"SEC_01": callersHeadersStayHere,
	"SEC_03": ourKeyInAnUpstreamsWordsGoesNowhere,
	"SEC_07": correlationIDCannotForgeAnything,
}

func callersHeadersStayHere(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a))

	served(t, g.Post(t, apptest.ChatBody,
		"Authorization", "Bearer gk-t1", "X-Api-Key", "gk-t2", "Api-Key", "gk-t3", "X-Goog-Api-Key", "gk-t4",
		"Cookie", "session=gk-t5", "Proxy-Authorization", "Basic gk-t6", "X-Forwarded-For", "203.0.113.7"), circuitA)

	got := a.Requests()[0]
	equal(t, "A's credential", got.Header.Get("Authorization"), "Bearer sk-alpha-secret")
	sent := fmt.Sprint(got.Path, got.Query, got.Header)
	for _, value := range []string{"gk-t", "203.0.113.7"} {
		if strings.Contains(sent, value) {
			t.Errorf("%q of the caller reached A: %s", value, sent)
		}
	}
}

func ourKeyInAnUpstreamsWordsGoesNowhere(t *testing.T) {
	const key = "sk-alpha-secret" // what the configuration gives A
	repeating := func(status int) apptest.Script {
		return apptest.JSON(status, `{"error":{"message":"Incorrect API key provided: `+key+`","type":"invalid_request_error","param":null,"code":null}}`)
	}
	a := apptest.NewUpstream(t, apptest.Sequence(repeating(401), repeating(400), repeating(500),
		apptest.JSON(200, `{"error":{"message":"Incorrect API key provided: `+key+`","type":"invalid_request_error","code":null}}`)))
	g := apptest.Start(t, apptest.OneTarget(a))

	var seen strings.Builder
	for _, want := range []int{502, 400, 502, 400} {
		answer := g.Post(t, apptest.ChatBody)
		equal(t, "status", answer.Status, want)
		if want == 400 {
			equal(t, "message", answer.Error(t).Message, "Incorrect API key provided: [redacted]")
		}
		fmt.Fprint(&seen, answer.Header, answer.Body)
	}
	runs := g.Runs(t, 4)
	fmt.Fprint(&seen, runs, g.Attempts(t, 4), g.Logs.String())
	run := fmt.Sprint("/runs/", runs[0]["run_id"])
	for _, path := range []string{"/", run, "/metrics", "/api/v1" + run, "/api/v1/runs", "/api/v1/config", "/api/v1/circuits", "/api/v1/health/providers"} {
		page := apptest.Read(t, g.AdminURL+path)
		equal(t, "status of "+path, page.Status, http.StatusOK)
		seen.WriteString(page.Body)
	}
	hash := sha256.Sum256([]byte(key))
	for _, secret := range []string{key, hex.EncodeToString(hash[:])[:16]} {
		if at := strings.Index(seen.String(), secret); at >= 0 {
			t.Errorf("the key is seen: …%s…", seen.String()[max(0, at-100):at+len(secret)])
		}
	}
}

func correlationIDCannotForgeAnything(t *testing.T) {
	a := apptest.NewUpstream(t, apptest.OK())
	g := apptest.Start(t, apptest.OneTarget(a))

	own := uuid.NewString()
	equal(t, "a good id", g.Post(t, apptest.ChatBody, "X-Correlation-ID", own).Header.Get("X-Correlation-ID"), own)
	for name, forged := range map[string]string{"long": strings.Repeat("a", 10<<10), "tab": "a\tb{\"level\":\"error\"}"} {
		answer := g.Post(t, apptest.ChatBody, "X-Correlation-ID", forged)
		minted(t, name, answer.Header.Get("X-Correlation-ID"))
	}
	folded := raw(t, g, "X-Correlation-ID: a\r\n {\"level\":\"error\"}\r\n")
	equal(t, "status of a folded header", folded.StatusCode, http.StatusOK)
	minted(t, "folded", folded.Header.Get("X-Correlation-ID"))
	equal(t, "status of a bare CR", raw(t, g, "X-Correlation-ID: a\r{\"level\":\"error\"}\r\n").StatusCode, http.StatusBadRequest)

	for _, run := range g.Runs(t, a.Calls()) {
		if strings.Contains(fmt.Sprint(run["correlation_id"]), "error") {
			t.Errorf("a forged id was recorded: %v", run["correlation_id"])
		}
	}
	apptest.Eventually(t, func() string { // which may come behind the rows
		return cmp.Diff(a.Calls(), callLines(t, g.Logs.String()))
	})
}

// minted checks that an id is one of the gateway's own.
func minted(t *testing.T, name, id string) {
	t.Helper()
	if parsed, err := uuid.Parse(id); err != nil || parsed.Version() != 7 {
		t.Errorf("%s: the id is %.60q, want one of the gateway's own", name, id)
	}
}

// raw sends a chat request with a header that no client library would send.
func raw(t *testing.T, g *apptest.Gateway, header string) *http.Response {
	t.Helper()
	host := strings.TrimPrefix(g.URL, "http://")
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n%s",
		host, len(apptest.ChatBody), header, apptest.ChatBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp
}

// callLines counts the log lines of chat calls; any line that is no JSON object
// fails the test.
func callLines(t *testing.T, log string) int {
	t.Helper()
	count := 0
	for line := range strings.Lines(log) {
		var entry struct{ Route string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("log line %q: %v", line, err)
		}
		if entry.Route == "/v1/chat/completions" {
			count++
		}
	}
	return count
}
