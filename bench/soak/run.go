package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/bench/rig"
	"github.com/breakwater-llm/breakwater/internal/postgres/private"
)

// soakCmd is the soak.
type soakCmd struct {
	Gateway string        `default:"bin/breakwater" help:"The gateway to soak."`
	For     time.Duration `default:"10m" help:"How long to load it."`
	Rate    int           `default:"150" help:"Calls per second."`
}

// Run soaks and prints. It fails when a promise was broken, after it has
// printed what it saw.
func (c *soakCmd) Run(ctx context.Context) error {
	if c.For < time.Minute || c.Rate < 1 {
		return errors.New("soak for a minute at least, with one call per second at least")
	}
	return rig.InScratch("breakwater-soak-", func(dir string) error {
		s := &soak{soakCmd: c, breaches: newBreaches(), dir: dir, file: filepath.Join(dir, "breakwater.yaml"), ledger: newLedger()}
		if err := s.run(ctx); err != nil {
			return err
		}
		fmt.Print(s.report())
		return s.err()
	})
}

// soak is one run.
type soak struct {
	*soakCmd
	*breaches
	dir, file string // of the run, of the gateway's configuration

	database *private.Server
	relay    *relay
	upstream *upstream
	gateway  *rig.Child
	client   *client

	ledger       *ledger
	samples      samples
	began, ended time.Time  // of the load
	base, after  rig.Series // without load, before and after it
	reloaded     tally
	looks        tally
	away         stretch
	written      records
}

// run is the whole order of a soak. Everything that it starts ends with it.
func (s *soak) run(ctx context.Context) (err error) {
	s.database, err = private.Start(ctx, private.Config{DataDir: filepath.Join(s.dir, "database"), Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.database.Stop(context.WithoutCancel(ctx))) }()
	if s.relay, err = startRelay(filepath.Join(s.dir, "relay"), s.database.URL()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.relay.stop()) }()
	if s.upstream, err = startUpstream(s.breaches); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.upstream.stop()) }()
	if err := s.install(0); err != nil {
		return err
	}
	if s.gateway, err = rig.Start(ctx, s.dir, "breakwater", s.Gateway, "serve", "--config", s.file); err != nil {
		return err
	}
	s.client = newClient(s.gateway.Listen)
	err = errors.Join(s.load(ctx), ctx.Err())
	if stopping := s.gateway.Stop(); stopping != nil {
		s.broken(stopped, "%v", stopping)
	}
	if err != nil {
		return err
	}
	return s.judgeRecords(ctx)
}

func (s *soak) install(revision int) error {
	return install(s.file, configuration(s.relay.url, s.dir, s.upstream.address, revision))
}

// rest is how long the gateway is left alone before its base is taken.
const rest = 5 * time.Second

// load runs the load and all that goes on beside it, and judges the gateway
// when it is quiet again.
func (s *soak) load(ctx context.Context) (err error) {
	if err := pause(ctx, rest); err != nil {
		return err
	}
	if s.base, err = s.scrape(ctx); err != nil {
		return err
	}
	s.began = time.Now()
	loading, end := context.WithDeadline(ctx, s.began.Add(s.For))
	defer end()
	var beside sync.WaitGroup
	for _, do := range []func(context.Context){s.sample, s.operate, s.watchLive, s.reload, s.takeDatabaseAway, s.tell} {
		beside.Go(func() { do(loading) })
	}
	s.call(loading)
	beside.Wait()
	s.ended = time.Now()
	if err := ctx.Err(); err != nil {
		return err
	}
	s.judgeMemory()
	return s.calmDown(ctx)
}

// pause lets time pass, or returns why it ended early.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
