package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwater-llm/breakwater/bench/rig"
)

// drill goes through one scenario with one gateway.
type drill struct {
	*scenario
	admin  string        // URL of the admin plane
	judged bool          // wait for circuits that are late
	places chan struct{} // of calls under way at once; nil = any number

	client  *client
	sim     simulator
	journal journal
	at      atomic.Int32 // the phase that calls begin in

	mu    sync.Mutex
	calls []call
}

// record is what was seen.
type record struct {
	phases []stretch
	calls  []call
	events []event
	late   time.Duration // after a sick time, of calls that began in it; 0 = lateness
}

// stretch is a phase as it went.
type stretch struct {
	began, ended time.Time
	probes       int // what circuits let through to find out until its end, canaries too
}

func newDrill(s *scenario, api, admin string) *drill {
	return &drill{
		scenario: s, admin: admin, judged: true, client: newClient(api),
		sim: simulator{url: admin + "/api/v1/simulated/" + s.Provider},
	}
}

// run is the whole order of a drill. Everything that it starts ends with it;
// the provider is well again afterwards.
func (d *drill) run(ctx context.Context) (r *record, err error) {
	if err := d.sim.remember(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.sim.behave(context.WithoutCancel(ctx), nil)) }()
	following, unfollow := context.WithCancel(ctx)
	defer unfollow()
	if err := d.journal.open(following, d.admin, d.Circuit); err != nil {
		return nil, err
	}
	loading, unload := context.WithCancel(ctx)
	defer unload()
	var load sync.WaitGroup
	load.Go(func() { d.load(loading) })
	phases, err := d.walk(ctx)
	unload()
	load.Wait()
	unfollow()
	events, missed := d.journal.close()
	if err := errors.Join(err, missed); err != nil {
		return nil, err
	}
	return &record{phases: phases, calls: d.calls, events: events}, nil
}

// walk goes from phase to phase.
func (d *drill) walk(ctx context.Context) ([]stretch, error) {
	var phases []stretch
	for i, p := range d.Phases {
		fmt.Fprintf(os.Stderr, "%s\n", p.Name)
		began, err := d.begin(ctx, i)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(pause(ctx, p.For), d.await(ctx, i, began)); err != nil {
			return nil, err
		}
		seen, err := d.probes(ctx)
		if err != nil {
			return nil, err
		}
		phases = append(phases, stretch{began, time.Now(), seen})
	}
	return phases, nil
}

// begin makes the provider behave as a phase says. A call that may meet the
// sick provider counts as one of the sick phase.
func (d *drill) begin(ctx context.Context, i int) (time.Time, error) {
	p := d.Phases[i]
	if p.well() {
		err := d.sim.behave(ctx, nil)
		d.at.Store(int32(i))
		return time.Now(), err
	}
	d.at.Store(int32(i))
	began := time.Now()
	return began, d.sim.behave(ctx, p.Set)
}

// glance is how often the drill looks whether a circuit that is late has come.
const glance = 20 * time.Millisecond

// heardWithin bounds how long a phase goes on until a caller has been answered.
const heardWithin = 2 * time.Minute

// await waits for a circuit that is late, until the phase's bound is over, and for
// a call of the phase that has ended: where not any number may be under way, those
// of the phase before may be in its way.
func (d *drill) await(ctx context.Context, i int, began time.Time) error {
	p := d.Phases[i]
	due := func() bool { return p.Opens == 0 || d.journal.opened(began) }
	if p.well() {
		due = func() bool { return p.Closes == 0 || d.journal.closed() }
	}
	for d.judged && (!due() && time.Since(began) < max(p.Opens, p.Closes) || !d.heard(i) && time.Since(began) < heardWithin) {
		if err := pause(ctx, glance); err != nil {
			return err
		}
	}
	return nil
}

// heard reports whether a call with a fallback has ended that counts for a phase.
func (d *drill) heard(phase int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.calls, func(c call) bool { return c.phase == phase && c.fallback })
}

// probes reads how many there have been.
func (d *drill) probes(ctx context.Context) (int, error) {
	series, err := rig.Scrape(ctx, d.admin+"/metrics")
	return int(series.Sum("breakwater_circuit_probes_total", fmt.Sprintf("provider=%q", d.Provider))), err
}

// pause lets time pass, or returns why it ended early.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
