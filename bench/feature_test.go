package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/bench/rig"
	"github.com/breakwater-llm/breakwater/internal/config"
)

func TestEveryFeatureIsAConfiguration(t *testing.T) {
	t.Parallel()
	for _, f := range features() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			text := f.text("postgres://127.0.0.1/bench", "127.0.0.1:1", t.TempDir(), &rig.Redis{URL: "redis://127.0.0.1:2"})
			cfg, err := config.Parse("bench.yaml", text, func(string) (string, bool) { return "", false })
			if err != nil {
				t.Fatal(err)
			}
			got := feature{
				name: f.name, keyed: f.keyed, again: f.again, chat: f.chat,
				key:    cfg.Auth.Mode == config.AuthKeys,
				limits: len(cfg.Limits()) > 0, shared: cfg.Cache.URL.Reveal() != "",
				cached: cfg.Configurations["chat"].ResponseCache != nil,
			}
			if diff := cmp.Diff(f, got, cmp.AllowUnexported(feature{})); diff != "" {
				t.Errorf("what the configuration turns on (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHeadersOfACall(t *testing.T) {
	t.Parallel()
	f := &featured{feature: feature{keyed: true}, secret: "bw_x"}
	again := &featured{feature: feature{keyed: true, again: true}}
	got := []string{f.headers(), f.headers(), again.headers(), again.headers(), new(featured).headers()}
	want := []string{
		"Authorization: Bearer bw_x\r\nIdempotency-Key: call-1\r\n",
		"Authorization: Bearer bw_x\r\nIdempotency-Key: call-2\r\n",
		"Idempotency-Key: call\r\n",
		"Idempotency-Key: call\r\n",
		"",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}
