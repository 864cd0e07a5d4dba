package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// configuration writes what the gateway runs with: trouble has targets of its
// own, so that each has its own circuit, and healthy ones to fall back to. The
// clocks are short, so that ten minutes see them all. A revision differs from
// its neighbours in what a reload takes over, clients of providers included.
func configuration(databaseURL, dir, upstream string, revision int) string {
	var text strings.Builder
	fmt.Fprintf(&text, `server: {listen: "127.0.0.1:0", admin_listen: "127.0.0.1:0", write_timeout: 1s, stream_keepalive: 1s}
log: {format: json}
auth: {mode: open}
database: {url: %q, data_dir: %q, max_conns: %d}
health: {window: 1m, refresh: 2s, reorder_fallback: true}
circuit_breaker: {failure_threshold: 4, cooldown: 1s, max_cooldown: 4s, cooldown_jitter: 0.%d}
`, databaseURL, dir, maxConns, 1+revision%2)
	text.WriteString("providers:\n")
	for _, p := range providers() {
		fmt.Fprintf(&text, "  %s:\n    kind: openai\n    base_url: http://%s/v1\n    region: r1\n    %s\n", p.name, upstream, p.key)
		fmt.Fprintf(&text, "    timeouts: {connect: 5s, first_token: 1%ds, idle: 10s, total: 20s}\n    retry: {max: 1, base: 10ms}\n    models:\n", revision%2)
		for _, model := range p.models {
			fmt.Fprintf(&text, "      %s: {input: 0.%d, output: 1.6}\n", model, 4+revision%3)
		}
	}
	text.WriteString(configurations)
	return text.String()
}

// maxConns bounds the gateway's connections to its database.
const maxConns = 4

// provider is a provider as the configuration declares it.
type provider struct {
	name, key string
	models    []string
}

func providers() []provider {
	return []provider{
		{"alpha", "api_key: sk-alpha", []string{"m1", "slow", "flood", "refuse"}},
		{"beta", "api_key: sk-beta", []string{"m1"}},
		{"gamma", "api_key: sk-gamma", []string{"m1"}},
		{"troubled", "api_key: sk-troubled", []string{"flaky", "cut", "hang"}},
		{"keyed", "api_keys: [sk-one, sk-two]", []string{"limited"}},
		{"closed", "api_key: sk-closed", []string{"locked"}},
	}
}

const configurations = `configurations:
  chat: {targets: [{provider: alpha, model: m1}, {provider: beta, model: m1}, {provider: gamma, model: m1}]}
  slow: {targets: [{provider: alpha, model: slow}]}
  flood: {targets: [{provider: alpha, model: flood}]}
  flaky: {targets: [{provider: troubled, model: flaky}, {configuration: chat}]}
  cut: {targets: [{provider: troubled, model: cut}, {configuration: chat}]}
  limited: {targets: [{provider: keyed, model: limited}, {configuration: chat}]}
  limited-alone: {targets: [{provider: keyed, model: limited}]}
  refuse: {targets: [{provider: alpha, model: refuse}, {configuration: chat}]}
  locked: {targets: [{provider: closed, model: locked}, {configuration: chat}]}
  hang:
    targets: [{provider: troubled, model: hang}, {configuration: chat}]
    timeouts: {first_token: 700ms, total: 700ms}
`

// faulty is a configuration that no gateway may take over.
const faulty = "server: {listen: nowhere}\nproviders: {alpha: {kind: unheard-of}}\n"

// install puts a configuration where the gateway reads it, in one step, so that
// it never sees half of it.
func install(file, text string) error {
	next := filepath.Join(filepath.Dir(file), "next.yaml")
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(next, file)
}
