package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// confidential is a configuration whose secrets are marked, in every way in which
// they come into a file.
type confidential struct {
	marks          apptest.Marks
	role           *apptest.Role
	text           string // of the file
	fromEnv, token string
}

func newConfidential(t *testing.T) *confidential {
	t.Helper()
	c := &confidential{}
	c.role = apptest.NewRole(t, postgrestest.EmptyURL(t), c.marks.Plant("the database's password", `p/w"%s@:#`))
	c.fromEnv, c.token = c.marks.Plant("a key from a variable", `sk-"%s<&`), c.marks.Plant("an operator token", "bwo_0123456789_%s")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(c.marks.Plant("a token from a file", "mt-%s")), 0o600); err != nil {
		t.Fatal(err)
	}
	c.text = strings.NewReplacer(
		"auth:", "log: {level: debug, format: json}\ncache: {url: \"redis://:"+c.marks.Plant("the cache's password", "pw-%s")+"@127.0.0.1:1\"}\nauth:",
		`admin_listen: "127.0.0.1:0"`, `admin_listen: "127.0.0.1:0", metrics_token: "${file:`+file+`}"`,
		"sk-very-secret", "${API_KEY}",
		"configurations:", "  beta: {kind: openai, base_url: \"http://127.0.0.1:1/v1\", api_keys: ["+c.marks.Plant("a key in the file", "sk-%s")+"], models: {m1: {}}}\nconfigurations:",
	).Replace(smallConfig)
	return c
}

// run runs one command on a file and a database, and returns what it wrote to
// stdout and stderr.
func (c *confidential) run(t *testing.T, text, databaseURL string, args ...string) (stdout, stderr string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Args[0], cmd.Dir = "breakwater", t.TempDir()
	if err := os.WriteFile(filepath.Join(cmd.Dir, "breakwater.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "DATABASE_URL="+databaseURL, "API_KEY="+c.fromEnv, "BREAKWATER_TOKEN="+c.token, "BREAKWATER_URL=http://ops:"+c.token+"@127.0.0.1:1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // some fail, as they should; what they say counts
	return out.String(), errs.String()
}

// keeps complains about every secret in what something wrote.
func (c *confidential) keeps(t *testing.T, what, text string) {
	t.Helper()
	for _, leak := range c.marks.Leaks(text) {
		t.Errorf("%s shows %s (%s): …%q…", what, leak.Secret, leak.Form, leak.Near)
	}
}

// No command shows a secret, whether it does what it is told or complains about
// the file, the database or the gateway.
func TestNoCommandShowsASecret(t *testing.T) {
	t.Parallel()
	c := newConfidential(t)
	commands := [][]string{
		{"config", "check"}, {"config", "show"}, {"config", "show", "--circuit", "alpha/m1/default"}, {"config", "schema"}, {"version"},
		{"migrate", "up"}, {"migrate", "status"}, {"tokens", "list"}, {"tokens", "revoke", c.token}, {"keys", "list"}, {"keys", "revoke", c.token}, {"telemetry", "purge", "--dry-run"}, {"usage"}, {"usage", "--format", "csv"},
		{"circuits", "list"}, {"circuits", "list", "--url", c.token}, {"circuits", "open", "alpha/m1/default", "--url", "user:" + c.token + "@h"},
		{"cache", "clear"}, {"cache", "clear", "--url", c.token}, {"cache", "clear", "--url", "user:" + c.token + "@h"},
	}
	for _, args := range commands {
		stdout, stderr := c.run(t, c.text, c.role.URL, args...)
		c.keeps(t, strings.Join(args[:1], " "), stdout+stderr)
		if args[0] == "config" && args[1] == "show" && len(args) == 2 && strings.Count(stdout, "***") < 5 {
			t.Errorf("the configuration shows fewer masks than it has secrets:\n%s%s", stdout, stderr)
		}
	}

	// What is minted is shown where it is made, this once.
	token, _ := c.run(t, c.text, c.role.URL, "tokens", "create", "ada", "--role", "operator")
	token = strings.TrimSpace(token)
	if !strings.HasPrefix(token, "bwo_") {
		t.Fatalf("minted %q", token)
	}
	c.marks.Watch("a minted token", token, token[strings.LastIndexByte(token, '_')+1:])
	for _, args := range [][]string{{"tokens", "list"}, {"tokens", "revoke", token}, {"tokens", "revoke", token}, {"tokens", "list"}} {
		stdout, stderr := c.run(t, c.text, c.role.URL, args...)
		c.keeps(t, strings.Join(args[:2], " "), stdout+stderr)
	}

	key, said := c.run(t, c.text, c.role.URL, "keys", "create", "shop", "--owner", "Team Shop")
	key = strings.TrimSpace(key)
	if !strings.HasPrefix(key, "bw_") {
		t.Fatalf("minted %q", key)
	}
	c.marks.Watch("a minted key", key, key[strings.LastIndexByte(key, '_')+1:])
	c.keeps(t, "what is said beside a key", said)
	for _, args := range [][]string{{"keys", "list"}, {"keys", "revoke", key}, {"keys", "revoke", key}, {"keys", "revoke", key + "x"}, {"keys", "list"}} {
		stdout, stderr := c.run(t, c.text, c.role.URL, args...)
		c.keeps(t, strings.Join(args[:2], " "), stdout+stderr)
	}

	// A database that refuses, one that is not there, and addresses that are none.
	mistyped := c.marks.Plant("a mistyped password", "%s")
	for _, address := range []string{
		strings.Replace(c.role.URL, ":p", ":"+mistyped+"p", 1), "postgres://u:" + mistyped + "@127.0.0.1:1/d?connect_timeout=1",
		"postgres://u:" + mistyped + "/x@127.0.0.1/d", "postgres://u:1/" + mistyped + "@127.0.0.1/d", "postgres://u:%zz" + mistyped + "@127.0.0.1/d",
		"user=u password='a\\' " + mistyped + "' sslmode=bad", "http://u:" + mistyped + "@127.0.0.1/d",
	} {
		for _, args := range [][]string{{"migrate", "up"}, {"tokens", "list"}, {"keys", "list"}, {"keys", "create", "till"}, {"usage"}} {
			stdout, stderr := c.run(t, c.text, address, args...)
			c.keeps(t, fmt.Sprint(args), stdout+stderr)
			if stderr == "" {
				t.Errorf("%v says nothing of a database that it cannot use", args)
			}
		}
	}

	// A slip of the pen beside each secret.
	for _, slip := range []struct{ old, by string }{
		{"${API_KEY}", "|${API_KEY}"}, {"${API_KEY}", "${" + mistyped + "-}"}, {"kind: openai", "kind: ${API_KEY}"}, {"provider: alpha", "provider: \"${API_KEY}\""},
		{"redis://:", "redis//:"}, {"redis://:", "redis://:1#"}, {"base_url: http://", "base_url: http://u:" + mistyped + "@"}, {"metrics_token: ", "metrics_token: x"},
	} {
		stdout, stderr := c.run(t, strings.Replace(c.text, slip.old, slip.by, 1), c.role.URL, "config", "check")
		c.keeps(t, "a slip by "+slip.old, stdout+stderr)
	}
}

// The program shows no secret in what it prints and logs from its start to its
// end, a faulty file in between.
func TestTheProgramShowsNoSecret(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		t.Run(format, func(t *testing.T) {
			c := newConfidential(t)
			t.Setenv("API_KEY", c.fromEnv)
			text := strings.Replace(c.text, "format: json", "format: "+format, 1)
			var r *running
			t.Cleanup(func() { // runs when the program has ended
				if r != nil {
					c.keeps(t, "the program", r.said.String())
				}
			})
			r = serveText(t, text, c.role.URL)
			prompt := c.marks.Plant("a prompt", "say %s")
			answer, err := apptest.Do(t.Context(), http.MethodPost, r.data+"/v1/chat/completions", `{"model":"chat","messages":[{"role":"user","content":"`+prompt+`"}]}`, "Authorization", "Bearer "+c.token)
			if err != nil || answer.Status != http.StatusBadGateway && answer.Status != http.StatusUnauthorized {
				t.Fatalf("a call to nobody got %d, %v", answer.Status, err)
			}
			r.write(t, strings.Replace(text, "kind: openai", "kind: ${API_KEY}", 1))
			r.signal(t, syscall.SIGHUP)
			r.await(t, "configuration was not reloaded")
			page, err := apptest.Do(t.Context(), http.MethodGet, r.admin+"/api/v1/config", "")
			if err != nil || page.Status != http.StatusOK {
				t.Fatalf("the configuration got %d, %v", page.Status, err)
			}
			c.keeps(t, "an answer", fmt.Sprint(answer, page))
			if !strings.Contains(r.said.String(), "is running") {
				t.Errorf("nothing is kept of what the program says: %q", r.said.String())
			}
		})
	}
}
