package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"

	"github.com/breakwater-llm/breakwater/bench/rig"
	"github.com/breakwater-llm/breakwater/internal/app"
	"github.com/breakwater-llm/breakwater/internal/config"
)

// gatewayCmd is the gateway as it is, with a profiler around it: the product
// itself has no door for one.
type gatewayCmd struct {
	Config  string `required:"" help:"Configuration file."`
	Profile string `required:"" help:"Directory for cpu.pprof, allocs.pprof and heap.pprof."`
}

// Run serves until a signal and then writes the profiles.
func (g *gatewayCmd) Run(ctx context.Context) error {
	cfg, err := config.Load(g.Config)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(g.Profile, 0o755); err != nil {
		return err
	}
	cpu, err := os.Create(filepath.Join(g.Profile, "cpu.pprof"))
	if err != nil {
		return err
	}
	defer cpu.Close()
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return err
	}
	log, _ := app.NewLogger(cfg.Log, os.Stderr)
	err = app.Run(ctx, cfg, app.Options{
		Version: "bench", Commit: "bench", Log: log,
		Listening: func(data, admin string) { log.Info(rig.Listening, "listen", data, "admin_listen", admin) },
	})
	pprof.StopCPUProfile()
	runtime.GC() // so that the heap holds what is in use
	return errors.Join(err, g.write("allocs"), g.write("heap"))
}

func (g *gatewayCmd) write(profile string) error {
	f, err := os.Create(filepath.Join(g.Profile, profile+".pprof"))
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup(profile).WriteTo(f, 0), f.Close())
}
