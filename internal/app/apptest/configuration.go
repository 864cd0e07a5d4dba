package apptest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/config"
)

// Refused returns why a configuration does not load.
func Refused(t testing.TB, text string) string {
	t.Helper()
	_, err := load(text, "postgres://127.0.0.1:1/none")
	if err == nil {
		t.Fatalf("the configuration loads:\n%s", text)
	}
	return err.Error()
}

func parse(t testing.TB, text, databaseURL string) *config.Config {
	t.Helper()
	cfg, err := load(text, databaseURL)
	if err != nil {
		t.Fatalf("configuration:\n%s\n%v", text, err)
	}
	return cfg
}

// load adds the sections that a test leaves out and parses the whole.
func load(text, databaseURL string) (*config.Config, error) {
	var frame strings.Builder
	sections := map[string]string{
		"server":    "server: {listen: \"127.0.0.1:0\", admin_listen: \"127.0.0.1:0\"}\n",
		"database":  fmt.Sprintf("database: {url: %q, max_conns: 4}\n", databaseURL),
		"auth":      "auth: {mode: open}\n",
		"telemetry": "telemetry: {flush_interval: 20ms}\n",
	}
	for name, section := range sections {
		if !strings.Contains("\n"+text, "\n"+name+":") {
			frame.WriteString(section)
		}
	}
	return config.Parse("test.yaml", []byte(frame.String()+text), func(string) (string, bool) { return "", false })
}

// Provider describes one openai provider in a configuration made by Configuration.
type Provider struct {
	Name, Region string
	Upstream     *Upstream
	Extra        string // further keys of the provider, one per line, such as "retry: {max: 2}"
}

// TwoTargets returns the setting of the cases: upstreams A = alpha/m1/r1 and
// B = beta/m1/r2 behind the configuration chat, no retries, clocks and a window that
// no test outlasts, a breaker that opens for one second when more than half of at
// least ten calls failed.
func TwoTargets(a, b *Upstream, more ...string) string {
	return Configuration(strings.Join(more, "\n"),
		Provider{Name: "alpha", Region: "r1", Upstream: a},
		Provider{Name: "beta", Region: "r2", Upstream: b})
}

// OneTarget is TwoTargets with A alone.
func OneTarget(a *Upstream, more ...string) string {
	return Configuration(strings.Join(more, "\n"), Provider{Name: "alpha", Region: "r1", Upstream: a})
}

// Configuration writes a configuration whose `chat` walks the providers in
// order; more holds further top-level sections, of which circuit_breaker
// replaces the cases' own.
func Configuration(more string, providers ...Provider) string {
	var text strings.Builder
	if !strings.Contains("\n"+more, "\ncircuit_breaker:") {
		text.WriteString("circuit_breaker: {failure_threshold: 0, window: {size: 10m}, cooldown: 1s, cooldown_jitter: 0}\n")
	}
	text.WriteString("providers:\n")
	for _, p := range providers {
		fmt.Fprintf(&text, "  %s:\n    kind: openai\n    base_url: %s\n    region: %s\n", p.Name, p.Upstream.URL, p.Region)
		if !strings.Contains(p.Extra, "api_keys:") {
			fmt.Fprintf(&text, "    api_key: sk-%s-secret\n", p.Name)
		}
		if !strings.Contains(p.Extra, "timeouts:") {
			text.WriteString("    timeouts: {connect: 2m, first_token: 2m, idle: 2m, total: 2m}\n")
		}
		if !strings.Contains(p.Extra, "retry:") {
			text.WriteString("    retry: {max: 0, base: 10ms}\n")
		}
		if !strings.Contains(p.Extra, "models:") {
			text.WriteString("    models: {m1: {input: 1, cached_input: 0.1, output: 5}, m2: {input: 1, output: 5}}\n")
		}
		for line := range strings.Lines(p.Extra) {
			text.WriteString("    " + line)
		}
		text.WriteString("\n")
	}
	if !strings.Contains("\n"+more, "\nconfigurations:") {
		text.WriteString("configurations:\n  chat:\n    targets:\n")
		for _, p := range providers {
			fmt.Fprintf(&text, "      - {provider: %s, model: m1}\n", p.Name)
		}
	}
	return text.String() + more + "\n"
}
