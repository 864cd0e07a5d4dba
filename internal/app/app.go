package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/breakwater-llm/breakwater/internal/config"
)

// Options are what the gateway is told besides its configuration.
type Options struct {
	Version string
	Commit  string
	Log     *slog.Logger
	// TryKey is a file that is to hold a key to try the gateway with; empty = none.
	TryKey string
	// Listening is called once both listeners are bound, with their real
	// addresses.
	Listening func(data, admin string)

	// Reload loads the configuration anew each time that Reloads says why it
	// may have changed. Without Reloads the configuration stays.
	Reload  func() (*config.Config, error)
	Reloads <-chan string
	// Level is that of Log; a reload sets it. May be nil.
	Level *slog.LevelVar
}

// flushTimeout bounds how long the last records may take to be written after
// the last call has ended.
const flushTimeout = 10 * time.Second

// databaseTimeout is how long the private database may take to write everything
// down. One that is cut short recovers at the next start.
const databaseTimeout = 20 * time.Second

// closeTimeout bounds every other part of the shutdown after the last call.
const closeTimeout = 5 * time.Second

// abortGrace is how long calls that were cut off at the end of draining may
// take to tell their clients.
const abortGrace = 2 * time.Second

// Run runs the gateway until ctx ends, then drains it: readiness falls at once,
// calls in flight may finish, every record is written. It returns an error when
// the gateway could not start or something was lost on the way down.
func Run(ctx context.Context, cfg *config.Config, opts Options) error {
	if err := errors.Join(bindable("listen", cfg.Server.Listen), bindable("admin_listen", cfg.Server.AdminListen)); err != nil {
		return err
	}
	db, err := ownDatabase(ctx, cfg.Database, opts.Log)
	if err != nil {
		return err
	}
	g, err := newGateway(ctx, cfg, db, opts)
	if err != nil {
		return errors.Join(err, db.Close(context.WithoutCancel(ctx)))
	}
	if err := g.start(ctx); err != nil {
		return errors.Join(err, g.stop(context.WithoutCancel(ctx)))
	}
	if opts.TryKey != "" {
		if err := keepTryKey(ctx, g.keys, opts.TryKey); err != nil {
			opts.Log.Warn("there is no key to try the gateway with, breakwater keys create mints one", "error", err)
		}
	}
	if opts.Listening != nil {
		opts.Listening(g.data.address(), g.admin.address())
	}
	err = g.serve(ctx, opts)
	return errors.Join(err, g.stop(context.WithoutCancel(ctx)))
}

// serve returns when ctx ends or something broke; until then it reloads the
// configuration when it is told to, one reload after the other.
func (g *gateway) serve(ctx context.Context, opts Options) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-g.broken:
			return err
		case why := <-opts.Reloads:
			g.reload(ctx, opts.Reload, why)
		}
	}
}

// start brings everything up, in the order in which one relies on the other.
func (g *gateway) start(ctx context.Context) error {
	if err := g.schema.Start(ctx); err != nil {
		return fmt.Errorf("prepare the database: %w", err)
	}
	g.recorder.StartWithoutDatabase()
	g.circuits.Start()
	g.ledger.Start()
	g.idempotency.Start()
	g.health.Start()
	g.checks.Start()
	if err := errors.Join(g.data.listen(), g.admin.listen()); err != nil {
		return err
	}
	g.data.serve(g.broken)
	g.admin.serve(g.broken)
	g.gate.Open()
	return nil
}

// stop takes everything down in the opposite order of what relies on it. The
// admin listener, which serves the probes, closes after everything that it shows.
func (g *gateway) stop(ctx context.Context) error {
	g.log.Info("shutting down", "calls_in_flight", g.gate.Inside())
	g.gate.Close() // readiness is 503 and new calls are refused from here on
	g.drain(ctx)
	g.closeUnshared(g.runtime.Load(), nil)

	err := errors.Join(
		within(ctx, closeTimeout, g.data.close),
		within(ctx, closeTimeout, g.idempotency.Stop),
		within(ctx, closeTimeout, g.responses.Stop),
		within(ctx, closeTimeout, g.checks.Stop),
		within(ctx, closeTimeout, g.circuits.Stop), // hands its last events to the recorder, and tells the other replicas
		within(ctx, closeTimeout, g.schema.LastTry),
		within(ctx, flushTimeout, g.recorder.Stop),
		within(ctx, closeTimeout, g.stopLedger), // answers the others until its last runs are written
		within(ctx, closeTimeout, g.health.Stop),
	)
	err = errors.Join(err,
		g.closeSpool(),
		g.closeCache(),
		within(ctx, closeTimeout, g.feed.Stop),
		within(ctx, closeTimeout, g.pages.Stop),
		within(ctx, closeTimeout, g.admin.close),
	)
	err = errors.Join(err,
		within(ctx, closeTimeout, g.keys.Stop),
		within(ctx, closeTimeout, g.overrides.Stop), // nobody decides anything any more
		within(ctx, closeTimeout, g.closePool),      // nobody asks it any more
		within(ctx, databaseTimeout, g.db.Close),
	)
	g.log.Info("stopped")
	return err
}

// closePool says goodbye on every connection, which takes a database that hangs
// longer than anyone should wait: the process's end closes them as well.
func (g *gateway) closePool(ctx context.Context) error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		g.pool.Close()
	}()
	select {
	case <-closed:
	case <-ctx.Done():
		g.log.Warn("connections to the database do not close, they are left")
	}
	return nil
}

// within gives one part of the shutdown a time of its own, so that one that
// takes long does not cost the others theirs.
func within(ctx context.Context, d time.Duration, stop func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return stop(ctx)
}

// drain lets calls in flight end: it goes on listening for drain_delay, so that
// load balancers notice, waits up to drain_timeout, and then cuts off what is
// left.
func (g *gateway) drain(ctx context.Context) {
	server := g.runtime.Load().cfg.Server
	if server.DrainDelay > 0 {
		time.Sleep(server.DrainDelay)
	}
	g.data.stopAccepting()
	waiting, cancel := context.WithTimeout(ctx, server.DrainTimeout)
	defer cancel()
	if g.gate.Drain(waiting) == nil {
		return
	}
	g.log.Warn("draining took too long, calls are cut off", "calls_in_flight", g.gate.Inside(), "drain_timeout", server.DrainTimeout)
	g.gate.Abort()
	grace, cancel := context.WithTimeout(ctx, abortGrace)
	defer cancel()
	if err := g.gate.Drain(grace); err != nil {
		g.log.Error("calls did not end when they were cut off", "calls_in_flight", g.gate.Inside())
	}
}
