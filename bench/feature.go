package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/breakwater-llm/breakwater/bench/rig"
)

// feature is one way to run the gateway, beside the plain one.
type feature struct {
	name   string
	key    bool   // callers have a key
	limits bool   // limits hold for the key and for the configuration, which nobody reaches
	keyed  bool   // every call has an idempotency key, of its own but for again
	again  bool   // it is always the same, so that all calls but the first are replays
	shared bool   // state is on the Redis of the run, circuits included
	chat   string // more lines of the configuration that is called
	cached bool   // all calls but the first are answered from the cache
}

// plain is what the others are held against.
const plain = "plain"

// features are in the order of the table.
func features() []feature {
	return []feature{
		{name: plain},
		{name: "keys", key: true},
		{name: "keys, limits", key: true, limits: true},
		{name: "idempotency keys", keyed: true},
		{name: "replays", keyed: true, again: true},
		{name: "response cache, hits", chat: "    response_cache: {ttl: 1h}\n", cached: true},
		{name: "shared state", shared: true},
		{name: "shared, keys, limits", shared: true, key: true, limits: true},
		{name: "shared, idempotency keys", shared: true, keyed: true},
		{name: "shared, replays", shared: true, keyed: true, again: true},
	}
}

// farLimits are the limits that hold, far out of reach.
var farLimits = []string{
	"requests_per_day=1000000000", "tokens_per_day=1000000000000", "cost_per_day=9000000", "cost_per_month=9000000",
	"requests_per_minute=1000000000", "concurrent=1000000000",
}

// text is the feature's configuration.
func (f feature) text(database, upstream, dir string, redis *rig.Redis) []byte {
	var text strings.Builder
	if !f.key {
		text.WriteString(open)
	}
	if f.shared {
		fmt.Fprintf(&text, "cache: {url: %q, timeout: 1s}\n", redis.URL)
	}
	fmt.Fprintf(&text, configuration, database, upstream, dir)
	text.WriteString(f.chat)
	if f.limits {
		text.WriteString("    limits: {" + strings.ReplaceAll(strings.Join(farLimits, ", "), "=", ": ") + "}\n")
	}
	return []byte(text.String())
}

// featured is a running gateway with a feature.
type featured struct {
	*rig.Child
	feature feature
	secret  string // of the callers' key; empty = they have none
	calls   atomic.Int64
}

// startFeatured runs the gateway in a directory of its own.
func startFeatured(ctx context.Context, b *bench, f feature, redis *rig.Redis) (*featured, error) {
	dir := filepath.Join(b.dir, strings.NewReplacer(",", "", " ", "-").Replace(f.name))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "breakwater.yaml")
	if err := os.WriteFile(file, f.text(b.db.server.URL(), b.upstream.Listen, dir, redis), 0o600); err != nil {
		return nil, err
	}
	child, err := rig.Start(ctx, dir, "breakwater", b.Gateway, "serve", "--config", file)
	if err != nil || !f.key {
		return &featured{Child: child, feature: f}, err
	}
	args := []string{"keys", "create", filepath.Base(dir), "--config", file}
	if f.limits {
		for _, limit := range farLimits {
			args = append(args, "--limit", limit)
		}
	}
	create := exec.CommandContext(ctx, b.Gateway, args...)
	secret, err := create.Output()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create a key: %w", err), child.Stop())
	}
	return &featured{Child: child, feature: f, secret: strings.TrimSpace(string(secret))}, nil
}

// headers are those of the next call.
func (f *featured) headers() string {
	var lines strings.Builder
	if f.secret != "" {
		lines.WriteString("Authorization: Bearer " + f.secret + "\r\n")
	}
	switch {
	case f.feature.again:
		lines.WriteString("Idempotency-Key: call\r\n")
	case f.feature.keyed:
		fmt.Fprintf(&lines, "Idempotency-Key: call-%d\r\n", f.calls.Add(1))
	}
	return lines.String()
}
