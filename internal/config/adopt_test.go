package config

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// written reads a configuration around the lines given.
func written(t *testing.T, lines string) *Config {
	t.Helper()
	text := lines + `
auth: {mode: open}
providers:
  alpha: {kind: openai, base_url: "https://alpha.example/v1", models: {m1: {input: 1, output: 5}}}
configurations:
  chat: {targets: [{provider: alpha, model: m1}]}
`
	c, err := Parse("test.yaml", []byte(text), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAdoptKeepsWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	running := written(t, `
server: {listen: "127.0.0.1:1", admin_listen: "127.0.0.1:2", max_body: 1MiB}
database: {url: "postgres://one/a"}
log: {level: info, format: text}
telemetry: {queue: 10, flush_interval: 1s, enabled: true}
health: {window: 1m}`)
	next := written(t, `
server: {listen: "127.0.0.1:3", admin_listen: "127.0.0.1:4", max_body: 2MiB, drain_timeout: 1s}
database: {url: "postgres://two/b", max_conns: 3, migrate: verify}
log: {level: debug, format: json}
telemetry: {queue: 20, flush_interval: 2s, enabled: false}
health: {window: 2m}`)

	adopted, waiting := running.Adopt(next)

	want := []string{
		"server.listen", "server.admin_listen", "log.format",
		"database.url", "database.max_conns", "database.migrate",
		"telemetry.queue", "telemetry.flush_interval",
	}
	if diff := cmp.Diff(want, waiting); diff != "" {
		t.Errorf("keys that need a restart (-want +got):\n%s", diff)
	}
	mixed := written(t, `
server: {listen: "127.0.0.1:1", admin_listen: "127.0.0.1:2", max_body: 2MiB, drain_timeout: 1s}
database: {url: "postgres://one/a"}
log: {level: debug, format: text}
telemetry: {queue: 10, flush_interval: 1s, enabled: false}
health: {window: 2m}`)
	if !adopted.Equal(mixed) {
		t.Errorf("adopted %+v\nwant %+v", adopted, mixed)
	}
	if err := adopted.Validate(); err != nil {
		t.Errorf("what was adopted is not valid: %v", err)
	}
	if next.Server.Listen != "127.0.0.1:3" || next.Telemetry.Queue != 20 {
		t.Error("Adopt changed what was read")
	}
	if _, waiting := adopted.Adopt(mixed); waiting != nil {
		t.Errorf("nothing has changed, and %v need a restart", waiting)
	}
}

func TestEqualSeesASecretThatIsMasked(t *testing.T) {
	t.Parallel()
	one := written(t, `database: {url: "postgres://one/a"}`)
	other := written(t, `database: {url: "postgres://one/b"}`)
	if one.Equal(other) {
		t.Error("two addresses that are both shown as *** count as one")
	}
	if !one.Equal(written(t, `database: {url: "postgres://one/a"}`)) {
		t.Error("a file that is read twice differs from itself")
	}
}
