package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/breakwater-llm/breakwater/bench/rig"
)

// featuresCmd measures gateways that differ in one feature each.
type featuresCmd struct {
	Gateway     string        `default:"bin/breakwater" help:"The gateway to measure."`
	Rounds      int           `default:"5" help:"How often each is measured, all in turns."`
	Slice       time.Duration `default:"1500ms" help:"How long each is loaded in each case of a round."`
	Concurrency []int         `default:"1,16" help:"Connections that make calls at once."`
	Limit       time.Duration `default:"20m" help:"When to give up."`
}

// Run measures and prints. It fails when a call failed or has no record, after
// it has printed what it saw.
func (f *featuresCmd) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, f.Limit)
	defer cancel()
	return rig.InScratch("breakwater-bench-", func(dir string) error { return f.measure(ctx, dir) })
}

func (f *featuresCmd) measure(ctx context.Context, dir string) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	db, err := startDatabase(ctx, filepath.Join(dir, "database"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.stop(context.WithoutCancel(ctx))) }()
	redis, err := rig.StartRedis(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, redis.Stop()) }()
	upstream, err := rig.Start(ctx, dir, "upstream", self, "upstream")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, upstream.Stop()) }()

	b := &bench{
		runCmd: &runCmd{Gateway: f.Gateway, Rounds: f.Rounds, Slice: f.Slice, Answers: []mode{whole}, Concurrency: f.Concurrency},
		dir:    dir, self: self, db: db, upstream: upstream, exchanges: exchanges(),
	}
	before := describeMachine()
	table, err := b.compareFeatures(ctx, redis)
	if err != nil {
		return err
	}
	fmt.Print(featuresReport(b.runCmd, before, describeMachine(), table))
	return errors.Join(b.faults...)
}

// compareFeatures measures every load on every gateway, in turns, and returns
// the medians over the rounds.
func (b *bench) compareFeatures(ctx context.Context, redis *rig.Redis) (table []row, err error) {
	var subjects []subject
	var owed records
	for _, f := range features() {
		gateway, err := startFeatured(ctx, b, f, redis)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, gateway.Stop()) }()
		s := subject{name: f.name, address: gateway.Listen, headers: gateway.headers, pid: gateway.PID(), db: b.db, sent: new(int)}
		if f.shared {
			s.redis = redis
		}
		subjects = append(subjects, s)
	}
	rounds, err := b.rounds(ctx, subjects)
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return nil, err
	}
	for i, f := range features() {
		owed.runs += *subjects[i].sent
		if f.cached || f.again {
			owed.attempts++ // the one whose answer was kept
			continue
		}
		owed.attempts += *subjects[i].sent
	}
	if err := b.written(ctx, owed); err != nil {
		b.faults = append(b.faults, err)
	}
	for _, l := range b.loads() {
		for _, f := range features() {
			c := cell{l, f.name}
			all := make([]figures, len(rounds))
			for i, r := range rounds {
				all[i] = r.beside(c, cell{l, plain})
			}
			table = append(table, row{c, medianFigures(all)})
		}
	}
	return table, nil
}

// written waits until every call has its records.
func (b *bench) written(ctx context.Context, owed records) error {
	for {
		there, err := b.db.records(ctx)
		if err != nil || there == owed {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("calls left %d runs and %d attempts, but %d and %d are on record", owed.runs, owed.attempts, there.runs, there.attempts)
		}
	}
}

// beside fills in what a gateway's figures are beside another's of the same round.
func (r round) beside(c, other cell) figures {
	f, base := r[c], r[other]
	f.addedP50 = f.p50 - base.p50
	f.cpuRatio = f.cpu / base.cpu
	f.addedP50Ratio = float64(f.p50) / float64(base.p50)
	f.rateRatio = f.rate / base.rate
	return f
}

func featuresReport(r *runCmd, before, after machine, table []row) string {
	var text strings.Builder
	writeHead(&text, before, after)
	fmt.Fprintf(&text, "Medians of %d rounds, %s per gateway and load in each; ratios are to the plain gateway in the same round.\n\n", r.Rounds, r.Slice)
	text.WriteString("| at once | gateway | requests/s | p50 ms | added p50 ms | p50 ratio | p99 ms | CPU s per 1,000 | CPU ratio | Postgres CPU s per 1,000 | scripts per call | Redis CPU s per 1,000 |\n" +
		"|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, t := range table {
		fmt.Fprintf(&text, "| %d | %s | %.0f | %s | %s | %.2f | %s | %s | %.2f | %s | %.2f | %s |\n", t.concurrency, t.server, t.rate,
			ms(t.p50), ms(t.addedP50), t.addedP50Ratio, ms(t.p99), seconds(t.cpu), t.cpuRatio, seconds(t.database), t.scripts, seconds(t.store))
	}
	return text.String()
}
