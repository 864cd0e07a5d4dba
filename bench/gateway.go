package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/breakwater-llm/breakwater/bench/rig"
)

// configuration has everything on that is on by itself: retries and places per
// provider, a second target, declared windows, circuits, prices, reordering by
// health, a record of every call. It ends in the section of what is called.
const configuration = `server: {listen: "127.0.0.1:0", admin_listen: "127.0.0.1:0"}
log: {format: json}
database: {url: %q, data_dir: %[3]q}
health: {reorder_fallback: true, reorder_primary: true}
providers:
  first:
    kind: openai
    base_url: http://%[2]s/v1
    api_key: sk-first
    models: {m1: {input: 0.40, cached_input: 0.10, output: 1.60, context_window: 128000}}
  second:
    kind: openai
    base_url: http://%[2]s/v1
    api_key: sk-second
    models: {m1: {input: 0.60, cached_input: 0.15, output: 2.40, context_window: 128000}}
configurations:
  chat:
    targets:
      - {provider: first, model: m1}
      - {provider: second, model: m1}
`

// open lets every caller in.
const open = "auth: {mode: open}\n"

// gateway is a running gateway and what it should have on record.
type gateway struct {
	*rig.Child
	db     *database
	before records
	sent   int // calls
}

// startGateway runs a gateway in front of an upstream. The program's arguments
// lack only those that name the configuration.
func startGateway(ctx context.Context, dir string, db *database, upstream string, program ...string) (*gateway, error) {
	before, err := db.records(ctx)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "breakwater.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, open+configuration, db.server.URL(), upstream, dir), 0o600); err != nil {
		return nil, err
	}
	c, err := rig.Start(ctx, dir, "breakwater", program[0], append(program[1:], "--config", file)...)
	if err != nil {
		return nil, err
	}
	return &gateway{Child: c, db: db, before: before}, nil
}

// settle ends the gateway, which writes its last records, and checks that
// every call has its own.
func (g *gateway) settle(ctx context.Context) error {
	dropped, err := g.dropped(ctx)
	if err := errors.Join(err, g.Stop()); err != nil {
		return err
	}
	after, err := g.db.records(ctx)
	if err != nil {
		return err
	}
	runs, attempts := after.runs-g.before.runs, after.attempts-g.before.attempts
	if runs != g.sent || attempts != g.sent || dropped != 0 {
		return fmt.Errorf("%d calls were sent, but %d runs and %d attempts are on record and %d rows were dropped", g.sent, runs, attempts, dropped)
	}
	return nil
}

// dropped returns how many rows the gateway says that it had to drop.
func (g *gateway) dropped(ctx context.Context) (int, error) {
	series, err := rig.Scrape(ctx, "http://"+g.AdminListen+"/metrics")
	if err != nil {
		return 0, err
	}
	dropped, said := series[`breakwater_telemetry_rows_total{result="dropped"}`]
	if !said {
		return 0, errors.New("the gateway does not say how many rows it dropped")
	}
	return int(dropped), nil
}
