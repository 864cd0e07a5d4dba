package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/breakwater-llm/breakwater/bench/rig"
)

// runCmd is the benchmark.
type runCmd struct {
	Gateway     string        `default:"bin/breakwater" help:"The gateway to measure."`
	Rounds      int           `default:"5" help:"How often each case is measured, all servers in turns; 0 = not at all."`
	Slice       time.Duration `default:"1500ms" help:"How long each server is loaded in each case of a round."`
	Answers     []mode        `default:"whole,stream" enum:"whole,stream" help:"How the answers come."`
	Concurrency []int         `default:"1,16,64" help:"Connections that make calls at once."`
	Calls       int           `default:"100000" help:"Calls after which a fresh gateway's memory is read; 0 = not at all."`
	FirstToken  time.Duration `default:"0s" help:"How long the upstream waits before an answer."`
	Pace        time.Duration `default:"0s" help:"How long the upstream waits between the pieces of a stream."`
	Profile     string        `placeholder:"DIR" help:"Measure a gateway inside this program and write its profiles there."`
	Limit       time.Duration `default:"20m" help:"When to give up."`
}

// Run measures and prints. It fails when a call failed or has no record, after
// it has printed what it saw.
func (r *runCmd) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.Limit)
	defer cancel()
	return rig.InScratch("breakwater-bench-", func(dir string) error { return r.measure(ctx, dir) })
}

func (r *runCmd) measure(ctx context.Context, dir string) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	db, err := startDatabase(ctx, filepath.Join(dir, "database"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.stop(context.WithoutCancel(ctx))) }()
	upstream, err := rig.Start(ctx, dir, "upstream", self, "upstream", "--first-token", r.FirstToken.String(), "--pace", r.Pace.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, upstream.Stop()) }()

	b := &bench{runCmd: r, dir: dir, self: self, db: db, upstream: upstream, exchanges: exchanges()}
	before := describeMachine()
	table, err := b.compare(ctx)
	if err != nil {
		return err
	}
	held, err := b.hold(ctx)
	if err != nil {
		return err
	}
	fmt.Print(report(r, before, describeMachine(), table, held))
	return errors.Join(b.faults...)
}

// bench is one run.
type bench struct {
	*runCmd
	dir, self string
	db        *database
	upstream  *rig.Child
	exchanges map[mode]exchange
	faults    []error // what makes the run worthless
}

// newGateway starts the gateway that is measured.
func (b *bench) newGateway(ctx context.Context) (*gateway, error) {
	program := []string{b.Gateway, "serve"}
	if b.Profile != "" {
		program = []string{b.self, "gateway", "--profile", b.Profile}
	}
	return startGateway(ctx, b.dir, b.db, b.upstream.Listen, program...)
}

// blame keeps the faults of a slice: how many, and the first of them.
func (b *bench) blame(what string, o outcome) {
	if len(o.errs) > 0 {
		b.faults = append(b.faults, fmt.Errorf("%s: %d of %d calls failed, the first: %w", what, len(o.errs), o.sent, o.errs[0]))
	}
}
