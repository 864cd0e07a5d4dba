package config_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

func noVariables(string) (string, bool) { return "", false }

func mustParse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("test.yaml", []byte(text), noVariables)
	if err != nil {
		t.Fatalf("refused:\n%v", err)
	}
	return c
}

func TestExamplesLoad(t *testing.T) {
	t.Parallel()
	env := func(name string) (string, bool) {
		value, ok := map[string]string{"OPENAI_API_KEY": "sk-test", "DATABASE_URL": "postgres://localhost/breakwater"}[name]
		return value, ok
	}
	for file, c := range examples(t, env) {
		if c.Server.Listen != "127.0.0.1:8080" || c.Server.AdminListen != "127.0.0.1:8081" {
			t.Errorf("%s: listens on %s and %s, want the usual ports", file, c.Server.Listen, c.Server.AdminListen)
		}
		if len(c.Targets("chat")) < 2 {
			t.Errorf("%s: chat has the targets %v, want a fallback", file, c.Targets("chat"))
		}
	}
}

// examples reads every example; one that is refused is an error.
func examples(t *testing.T, env func(string) (string, bool)) map[string]*config.Config {
	t.Helper()
	files, _ := filepath.Glob("../../examples/*.yaml")
	if len(files) < 2 {
		t.Fatalf("found the examples %v, want quickstart and openai", files)
	}
	all := map[string]*config.Config{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Parse(file, data, env)
		if err != nil {
			t.Errorf("refused:\n%v", err)
			continue
		}
		all[file] = c
	}
	return all
}

// Whoever reads on while the first example runs starts the next beside it.
func TestExamplesRunBesideEachOther(t *testing.T) {
	t.Parallel()
	env := func(name string) (string, bool) {
		value, ok := map[string]string{"OPENAI_API_KEY": "sk-test", "DATABASE_URL": "postgres://localhost/breakwater", "PORT": "9080", "ADMIN_PORT": "9081"}[name]
		return value, ok
	}
	spools := map[string]string{}
	for file, c := range examples(t, env) {
		if c.Server.Listen != "127.0.0.1:9080" || c.Server.AdminListen != "127.0.0.1:9081" {
			t.Errorf("%s: listens on %s and %s, want PORT and ADMIN_PORT", file, c.Server.Listen, c.Server.AdminListen)
		}
		if other, taken := spools[c.SpoolDir()]; taken {
			t.Errorf("%s and %s have one spool, %s", file, other, c.SpoolDir())
		}
		spools[c.SpoolDir()] = file
	}
}

const nested = `
auth: {mode: open}
database: {private: true}
providers:
  alpha: {kind: simulated, models: {m1: {}, org/m2: {}}}
  beta: {kind: simulated, region: eu, models: {m1: {}}}
configurations:
  fast: {targets: [{provider: alpha, model: org/m2}, {provider: beta, model: m1}]}
  careful: {targets: [{provider: beta, model: m1}, {configuration: fast}, {provider: alpha, model: m1}]}
  all: {targets: [{configuration: careful}, {configuration: fast}]}
`

func TestConfigurationsStandForTheirTargetsOnce(t *testing.T) {
	t.Parallel()
	c := mustParse(t, nested)
	m1 := llm.Target{Provider: "alpha", Model: "m1", Region: "default"}
	m2 := llm.Target{Provider: "alpha", Model: "org/m2", Region: "default"}
	beta := llm.Target{Provider: "beta", Model: "m1", Region: "eu"}

	for name, want := range map[string][]llm.Target{
		"fast":    {m2, beta},
		"careful": {beta, m2, m1},
		"all":     {beta, m2, m1},
		"unknown": nil,
	} {
		if diff := cmp.Diff(want, c.Targets(name)); diff != "" {
			t.Errorf("targets of %s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff([]llm.Target{m1, m2, beta}, c.AllTargets()); diff != "" {
		t.Errorf("all targets (-want +got):\n%s", diff)
	}
}

func TestTargetIsFoundOnlyWhenDeclared(t *testing.T) {
	t.Parallel()
	c := mustParse(t, nested)
	if got, ok := c.Target("beta", "m1"); !ok || got.Key() != "beta/m1/eu" {
		t.Errorf("got %v, %t, want beta/m1/eu", got, ok)
	}
	for _, unknown := range [][2]string{{"beta", "m2"}, {"gamma", "m1"}} {
		if got, ok := c.Target(unknown[0], unknown[1]); ok {
			t.Errorf("got %v for %v, which is not declared", got, unknown)
		}
	}
}

func TestFallbackIsTheTableUnlessWritten(t *testing.T) {
	t.Parallel()
	c := mustParse(t, `
auth: {mode: open}
database: {private: true}
providers: {alpha: {kind: simulated, models: {m1: {}}}}
configurations:
  usual: {targets: [{provider: alpha, model: m1}]}
  own: {targets: [{provider: alpha, model: m1}], fallback_on: [auth, context_length], timeouts: {first_token: 5m}}
  never: {targets: [{provider: alpha, model: m1}], fallback_on: []}
`)
	for name, want := range map[string]llm.ClassSet{
		"usual": llm.DefaultFallback(),
		"own":   {llm.ClassAuth: true, llm.FallbackOnContextLength: true},
		"never": {},
	} {
		if diff := cmp.Diff(want, c.Configurations[name].Fallback()); diff != "" {
			t.Errorf("fallback of %s (-want +got):\n%s", name, diff)
		}
	}
	got := c.Configurations["own"].Timeouts.LLM().Or(c.Providers["alpha"].Timeouts.LLM())
	want := llm.Timeouts{Connect: 5 * time.Second, FirstToken: 5 * time.Minute, Idle: time.Minute, Total: 10 * time.Minute}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("timeouts (-want +got):\n%s", diff)
	}
}

// Covers CST-01: a price is what was written, digit by digit.
func TestPricesAreExactAndAbsentIsNotZero(t *testing.T) {
	t.Parallel()
	c := mustParse(t, `
auth: {mode: open}
database: {private: true}
providers:
  alpha:
    kind: simulated
    models: {priced: {input: 0.1000000001, output: 1.60}, free: {input: 0, output: 0}, unknown: {}}
`)
	models := c.Providers["alpha"].Models
	if got := models["priced"].Input.String(); got != "0.1000000001" {
		t.Errorf("got the price %s, want 0.1000000001", got)
	}
	if free := models["free"]; free.Input == nil || !free.Input.IsZero() || free.CachedInput != nil {
		t.Errorf("got %+v for a free model, want zeros where they are written", free)
	}
	if unknown := models["unknown"]; unknown.Input != nil || unknown.Output != nil {
		t.Errorf("got %+v for an unpriced model, want no prices", unknown)
	}
}

func TestReferencedFilesLoseTheirLastLineBreakOnly(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for written, want := range map[string]string{"sk-1\n": "sk-1", "sk-2\r\n": "sk-2", "sk-3": "sk-3"} {
		file := filepath.Join(folder, want)
		if err := os.WriteFile(file, []byte(written), 0o600); err != nil {
			t.Fatal(err)
		}
		c := mustParse(t, `
auth: {mode: open}
database: {private: true}
providers:
  alpha: {kind: openai, base_url: "http://localhost", api_key: "${file:`+file+`}", models: {m1: {}}}
`)
		if got := c.Providers["alpha"].APIKey.Reveal(); got != want {
			t.Errorf("got the key %q, want %q", got, want)
		}
	}
}

func TestLoadNamesAFileThatIsNotThere(t *testing.T) {
	t.Parallel()
	_, err := config.Load(filepath.Join(t.TempDir(), "none.yaml"))
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("got %v, want fs.ErrNotExist with the file's name", err)
	}
}

func TestLoadReturnsFaultsWithTheirPlace(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(file, []byte("auth: {mode: open}\ndatabase:\n  privat: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load(file)
	var faults config.Faults
	if !errors.As(err, &faults) || len(faults) != 2 {
		t.Fatalf("got %v, want two faults", err)
	}
	want := config.Fault{File: file, Line: 3, Column: 3, Path: "database.privat", Problem: "is not a key", Remedy: `did you mean "private"?`}
	if diff := cmp.Diff(want, faults[1]); diff != "" {
		t.Errorf("second fault (-want +got):\n%s", diff)
	}
}

func TestValidateHoldsCodeToTheSameRules(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Auth.Mode = config.AuthOpen
	c.Database.Private = true
	if err := c.Validate(); err != nil {
		t.Fatalf("refused:\n%v", err)
	}

	c.Server.RequestTimeout = -time.Second
	c.CircuitBreaker.SuccessThreshold = 2
	c.Configurations = map[string]config.Configuration{"chat": {Targets: []config.Target{{Provider: "none", Model: "m1"}}}}
	want := `circuit_breaker.success_threshold: is more than half_open_calls, so no circuit could ever close; give it at most half_open_calls
configurations.chat.targets[0].provider: names "none", which is not declared; there is none to name
server.request_timeout: is too small; give it more than 0s`
	if diff := cmp.Diff(want, c.Validate().Error()); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestDatabaseMayBeNamedInBothFormsOfTheDriver(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://breakwater@localhost/breakwater",
		"postgresql:///breakwater?host=/run/postgresql",
		"host=/run/postgresql user=breakwater password=a://b",
	} {
		c := mustParse(t, "auth: {mode: open}\ndatabase: {url: \""+url+"\"}\n")
		if got := c.Database.URL.Reveal(); got != url {
			t.Errorf("got %q, want %q", got, url)
		}
	}
}

func TestFilesOfOtherEditorsLoad(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "\ufeffauth: {mode: open}\r\ndatabase:\r\n  private: true\r\n")
	if !c.Database.Private {
		t.Error("database.private is lost between byte order mark and CRLF")
	}
}

func TestReferencedFileHasABound(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(file, make([]byte, 65*1024), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Parse("test.yaml", []byte("auth: {mode: \"${file:"+file+"}\"}\ndatabase: {private: true}\n"), noVariables)
	if err == nil || !strings.Contains(err.Error(), "is over 64KiB") {
		t.Errorf("got %v, want a refusal that names the bound", err)
	}
}

func TestLogLevelIsSlogs(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	} {
		if got := (config.Log{Level: name}).SlogLevel(); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}
