package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

// soakCmd is the soak.
type soakCmd struct {
	For     time.Duration `default:"5m" help:"How long to load it."`
	Store   string        `default:"local" enum:"local,cached,strict" help:"Where circuits are kept: local, in this process alone; cached and strict, by several processes on one server, in that mode."`
	Keys    int           `default:"1000" help:"Circuits."`
	Workers int           `default:"64" help:"Goroutines that call."`
}

// Run soaks and prints. It fails when a promise was broken, after it has
// printed what it saw.
func (c *soakCmd) Run(ctx context.Context) error {
	if c.For < 2*time.Second || c.Keys < 100 || c.Workers < 1 {
		return errors.New("soak for two seconds at least, with a hundred keys and one worker at least")
	}
	if err := checkSettings(c.Keys); err != nil {
		return err
	}
	if c.Store != "local" {
		return c.runShared(ctx)
	}
	s := newSoak(c)
	if err := s.run(ctx); err != nil {
		return err
	}
	fmt.Print(s.report())
	return s.err()
}

// soak is one run.
type soak struct {
	*soakCmd
	*breaches
	registry  *breaker.Registry
	keys      []*key
	chronicle *chronicle

	workers      []*worker
	samples      []sample
	began, ended time.Time
	goroutines   int // before anything
	commands     int
	reconfigured int
	recovery     time.Duration
	sum          stats
}

func newSoak(c *soakCmd) *soak {
	s := &soak{soakCmd: c, breaches: newBreaches(), goroutines: runtime.NumGoroutine()}
	for i := range c.Keys {
		s.keys = append(s.keys, &key{name: nameOf(i), index: i, temper: temperOf(i, c.Keys)})
	}
	s.chronicle = newChronicle(s.breaches, c.Keys)
	for i := range c.Workers {
		s.workers = append(s.workers, newWorker(s, uint64(i)))
	}
	return s
}

// run is the whole order of a soak. Everything that it starts ends with it.
func (s *soak) run(ctx context.Context) error {
	s.registry = s.open()
	s.registry.Start()
	s.began = time.Now()
	s.load(ctx)
	s.ended = time.Now()
	s.recover(ctx)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := s.registry.Stop(stopping); err != nil {
		return err
	}
	s.judgeCounts()
	s.judgeMemory()
	s.judgeGoroutines()
	return nil
}

// open makes the circuits.
func (s *soak) open() *breaker.Registry {
	return breaker.New(breaker.Config{Settings: settingsOf(0, s.Keys), OnEvent: s.chronicle.add})
}

// load runs everything at once until the time is up.
func (s *soak) load(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.For)
	defer cancel()
	var all sync.WaitGroup
	for _, w := range s.workers {
		all.Go(func() { w.work(ctx) })
	}
	all.Go(func() { s.command(ctx) })
	all.Go(func() { s.reconfigure(ctx) })
	all.Go(func() { s.watch(ctx) })
	all.Wait()
	for _, w := range s.workers {
		s.sum.add(&w.stats)
	}
}

// every calls do once a period until ctx ends.
func every(ctx context.Context, period time.Duration, do func()) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}
