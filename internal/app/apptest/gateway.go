package apptest

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-llm/breakwater/internal/app"
	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

// patience bounds every wait of a test; a slow machine needs most of it.
const patience = 2 * time.Minute

// Gateway is a running gateway with a database of its own.
type Gateway struct {
	URL      string // data plane
	AdminURL string
	DB       *pgxpool.Pool
	Logs     *Logs
	// MetricsToken is what /metrics asks for, where it asks for any.
	MetricsToken string

	next    atomic.Pointer[string] // text of the configuration that a reload finds
	reloads chan string

	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// Start runs the gateway with a configuration until the test ends. The text
// holds everything but listeners, database and auth, which Start adds.
func Start(t testing.TB, text string) *Gateway {
	t.Helper()
	return StartWith(t, text, postgrestest.URL(t))
}

// StartWith is Start on a database of the test's choice.
func StartWith(t testing.TB, text, databaseURL string) *Gateway {
	t.Helper()
	g := StartUnwell(t, text, databaseURL)
	t.Cleanup(func() {
		if err := g.Stop(); err != nil {
			t.Errorf("stop the gateway: %v", err)
		}
	})
	return g
}

// StartUnwell is StartWith for a gateway that may end with an error.
func StartUnwell(t testing.TB, text, databaseURL string) *Gateway {
	t.Helper()
	spool := t.TempDir()
	cfg := withSpool(parse(t, text, databaseURL), spool)
	pool, err := pgxpool.New(context.Background(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	g := &Gateway{DB: pool, Logs: &Logs{}, reloads: make(chan string), done: make(chan struct{})}
	level := new(slog.LevelVar)
	level.Set(slog.LevelDebug)
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel

	listening := make(chan struct{})
	go func() {
		defer close(g.done)
		g.err = app.Run(ctx, cfg, app.Options{
			Version: "test", Commit: "test",
			Log:   slog.New(slog.NewJSONHandler(g.Logs, &slog.HandlerOptions{Level: level})),
			Level: level,
			Reload: func() (*config.Config, error) {
				next, err := load(*g.next.Load(), databaseURL)
				return withSpool(next, spool), err
			},
			Reloads: g.reloads,
			Listening: func(data, admin string) {
				g.URL, g.AdminURL = "http://"+data, "http://"+admin
				close(listening)
			},
		})
	}()
	t.Cleanup(func() {
		_ = g.Stop()
		pool.Close()
		if t.Failed() {
			t.Logf("warnings and errors of the gateway:\n%s", g.Logs.warnings())
		}
	})
	select {
	case <-listening:
	case <-g.done:
		t.Fatalf("the gateway did not start: %v", g.err)
	}
	return g
}

// NoStart runs a gateway that cannot start, and returns why.
func NoStart(t testing.TB, text, databaseURL string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return app.Run(ctx, parse(t, text, databaseURL), app.Options{Log: slog.New(slog.DiscardHandler)})
}

// withSpool gives a gateway a spool of its own where its configuration names none.
func withSpool(cfg *config.Config, dir string) *config.Config {
	if cfg != nil && cfg.Telemetry.SpoolDir == "" {
		cfg.Telemetry.SpoolDir = dir
	}
	return cfg
}

// Terminate tells the gateway to stop, as SIGTERM does, without waiting.
func (g *Gateway) Terminate() { g.cancel() }

// Stop ends the gateway and returns what Run returned. It may be called twice.
func (g *Gateway) Stop() error {
	g.cancel()
	<-g.done
	return g.err
}

// Done is closed when the gateway has stopped.
func (g *Gateway) Done() <-chan struct{} { return g.done }

// Eventually waits until check has nothing to complain about.
func Eventually(t testing.TB, check func() string) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		complaint := check()
		if complaint == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("still after %s: %s", patience, complaint)
		}
	}
}
