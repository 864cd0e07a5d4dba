package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/breakwater-llm/breakwater/bench/rig"
)

// drillCmd is the drill as it is started by hand.
type drillCmd struct {
	Gateway  string `default:"bin/breakwater" help:"The gateway to drill."`
	Config   string `default:"examples/failure-drill.yaml" help:"Its configuration."`
	Scenario string `default:"examples/scenarios/failure-drill.yaml" help:"What happens, and what may come of it."`
	Breaker  string `default:"on" enum:"on,off" help:"off shows what happens without circuits; then no bound is judged."`
	Probe    string `default:"traffic" enum:"traffic,canary" help:"Who finds out that the provider is well again: the callers' next calls, or before them a small one of the gateway's own."`
	Cache    string `env:"DRILL_CACHE" help:"Where the circuits are kept: redis starts a server of the drill's own, a URL names yours; empty keeps them in the gateway."`
}

// Run drills and prints. It fails when a bound was broken, after it has printed
// what it saw.
func (c *drillCmd) Run(ctx context.Context) error {
	s, err := readScenario(c.Scenario)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d phases in %s\n", len(s.Phases), s.length())
	return rig.InScratch("breakwater-drill-", func(dir string) error {
		load := loadAverage()
		r, err := c.drill(ctx, dir, s)
		if err != nil {
			return err
		}
		card := newScorecard(s, r, c.Breaker == "on")
		fmt.Print(card.report(c.title(r), load))
		return errors.Join(card.broken...)
	})
}

// drill starts everything, goes through the scenario and stops everything.
func (c *drillCmd) drill(ctx context.Context, dir string, s *scenario) (r *record, err error) {
	cache := c.Cache
	if cache == "redis" {
		redis, failed := rig.StartRedis(ctx, dir)
		if failed != nil {
			return nil, failed
		}
		defer func() { err = errors.Join(err, redis.Stop()) }()
		cache = redis.URL
	}
	gateway, err := rig.Start(ctx, dir, "breakwater", "env", c.settings(dir, cache)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, gateway.Stop()) }()
	d := newDrill(s, "http://"+gateway.Listen, "http://"+gateway.AdminListen)
	d.judged = c.Breaker == "on"
	return d.run(ctx)
}

// settings are the variables of the configuration and the gateway that env
// gives way to.
func (c *drillCmd) settings(dir, cache string) []string {
	return []string{
		"PORT=0", "ADMIN_PORT=0",
		"DATA_DIR=" + filepath.Join(dir, "database"),
		"CACHE_URL=" + cache,
		"BREAKER=" + strconv.FormatBool(c.Breaker == "on"),
		"PROBE=" + c.Probe,
		c.Gateway, "serve", "--config", c.Config,
	}
}

func (c *drillCmd) title(r *record) string {
	kept := "circuits in the gateway"
	if c.Cache != "" {
		kept = "circuits in the shared cache"
	}
	if c.Probe == "canary" {
		kept += ", probed by canaries"
	}
	if c.Breaker == "off" {
		kept = "no circuits"
	}
	return fmt.Sprintf("Failure drill, %s to %s UTC, %s.", r.phases[0].began.UTC().Format("2006-01-02 15:04"),
		r.phases[len(r.phases)-1].ended.UTC().Format("15:04"), kept)
}

// loadAverage is how busy the machine is, where it says so.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
