package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/postgres"
	"github.com/breakwater-llm/breakwater/internal/postgres/private"
)

// migrateRetry is how long the gateway waits before it tries again to migrate
// a database that could not be reached.
const migrateRetry = 2 * time.Second

// Database is the Postgres that a command or the gateway works on: one that
// the configuration names, or the private server.
type Database struct {
	URL    string
	server *private.Server // nil unless database.private
}

// UseDatabase gives a command its database. A private server that a running
// gateway owns is used as it is, else it is started until Close. One that is not
// there is made, unless only an existing one will do: private.ErrNoDatabase.
func UseDatabase(ctx context.Context, cfg config.Database, existing bool, log *slog.Logger) (*Database, error) {
	if !cfg.Private {
		return &Database{URL: cfg.URL.Reveal()}, nil
	}
	server, err := private.Use(ctx, private.Config{DataDir: cfg.DataDir, Existing: existing, Log: log})
	if errors.Is(err, private.ErrNoDatabase) {
		return nil, err // which says where it was looked for
	}
	if err != nil {
		return nil, fmt.Errorf("use the private database: %w", err)
	}
	return &Database{URL: server.URL(), server: server}, nil
}

// ownDatabase gives the gateway its database. A private server belongs to one
// gateway: a second one on the same data directory is an error.
func ownDatabase(ctx context.Context, cfg config.Database, log *slog.Logger) (*Database, error) {
	if !cfg.Private {
		return &Database{URL: cfg.URL.Reveal()}, nil
	}
	server, err := private.Start(ctx, private.Config{DataDir: cfg.DataDir, Log: log})
	if errors.Is(err, private.ErrInUse) {
		return nil, err // which says who has it, and what to do
	}
	if err != nil {
		return nil, fmt.Errorf("start the private database: %w", err)
	}
	return &Database{URL: server.URL(), server: server}, nil
}

// Close ends a private server that this process started.
func (d *Database) Close(ctx context.Context) error {
	if d.server == nil {
		return nil
	}
	return d.server.Stop(ctx)
}

const backAgain = "database is back and its schema is as it should be"

// schema brings the database's schema up to date, or checks it, before the
// gateway relies on it. A database that cannot be reached is not an old schema:
// the gateway serves, and the schema is seen to when the database returns.
type schema struct {
	url   string
	mode  string
	log   *slog.Logger
	ready func() // called once, when the schema is as it should be

	settled atomic.Bool
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// Settled reports whether the schema is known to be as it should be.
func (s *schema) Settled() bool { return s.settled.Load() }

// Start sees to the schema at once. It returns an error for a schema that this
// program may not or cannot use; an unreachable database is tried again in the
// background until Stop.
func (s *schema) Start(ctx context.Context) error {
	err := s.settle(ctx)
	if err == nil {
		return nil
	}
	if !errors.Is(err, postgres.ErrUnavailable) {
		return err
	}
	s.log.Warn("database is away, calls are served and their records wait", "error", err)
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = cancel
	s.done.Go(func() { s.retry(background) })
	return nil
}

// LastTry sees to the schema once more when the gateway stops, if that is still to
// be done: with it the records that wait can be written.
func (s *schema) LastTry(ctx context.Context) error {
	s.Stop()
	if s.stop == nil || s.Settled() {
		return nil
	}
	if err := s.settle(ctx); err != nil {
		s.log.Warn("the database is still away or its schema cannot be used, records wait for the next start", "error", err)
		return nil
	}
	s.log.Info(backAgain)
	return nil
}

// Stop ends the background work. It may be called twice.
func (s *schema) Stop() {
	if s.stop != nil {
		s.stop()
	}
	s.done.Wait()
}

// retry tries until the schema is settled. Of a database that came back with a
// schema that cannot be used it says so once.
func (s *schema) retry(ctx context.Context) {
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(migrateRetry):
		}
		switch err := s.settle(ctx); {
		case err == nil:
			s.log.Info(backAgain)
			return
		case ctx.Err() != nil:
			return
		case !errors.Is(err, postgres.ErrUnavailable) && err.Error() != said:
			said = err.Error()
			s.log.Error("database schema cannot be used, records wait; breakwater migrate up applies what is missing", "error", err)
		}
	}
}

func (s *schema) settle(ctx context.Context) error {
	if err := s.bringUp(ctx); err != nil {
		return err
	}
	s.settled.Store(true)
	s.ready()
	return nil
}

func (s *schema) bringUp(ctx context.Context) error {
	if s.mode == "verify" {
		return postgres.Verify(ctx, s.url)
	}
	applied, err := postgres.Migrate(ctx, s.url)
	for _, m := range applied {
		s.log.Info("migration applied", "version", m.Version, "name", m.Name)
	}
	return err
}
