package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-llm/breakwater/internal/app"
	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/postgres"
)

// closeTimeout bounds how long a command waits for a private server to stop.
const closeTimeout = 30 * time.Second

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Apply what is pending."`
	Down   migrateDownCmd   `cmd:"" help:"Take the newest migration back; its data is lost."`
	Status migrateStatusCmd `cmd:"" help:"List every migration and when it was applied."`
}

// withExisting runs work on the database of a configuration and ends a private
// server that only this command needed. It makes no private database.
func withExisting(ctx context.Context, cfg *config.Config, std streams, work func(url string) error) error {
	return withDatabase(ctx, cfg, true, std, work)
}

// withDatabase is withExisting, which may also make a private database.
func withDatabase(ctx context.Context, cfg *config.Config, existing bool, std streams, work func(url string) error) (err error) {
	log, _ := app.NewLogger(cfg.Log, std.Err)
	db, err := app.UseDatabase(ctx, cfg.Database, existing, log)
	if err != nil {
		return err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		err = errors.Join(err, db.Close(stopping))
	}()
	return advised(work(db.URL), cfg.Database)
}

// advised says what to do about a database that cannot be reached. A private one
// is nobody's to start. The advice is a line of its own, as those of the driver are.
func advised(err error, database config.Database) error {
	told := postgres.Translate(err)
	if !errors.Is(told, postgres.ErrUnavailable) || database.Private {
		return err
	}
	return fmt.Errorf("%w\nstart the database, or check database.url", told)
}

type migrateUpCmd struct{ configFlag }

// Run prints a line per migration that it applied.
func (c migrateUpCmd) Run(ctx context.Context, std streams) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	return withDatabase(ctx, cfg, false, std, func(url string) error {
		applied, err := postgres.Migrate(ctx, url)
		for _, m := range applied {
			fmt.Fprintf(std.Out, "applied %05d %s\n", m.Version, m.Name)
		}
		if err == nil && len(applied) == 0 {
			fmt.Fprintln(std.Out, "nothing to apply")
		}
		return err
	})
}

type migrateDownCmd struct{ configFlag }

// Run prints the migration that it took back.
func (c migrateDownCmd) Run(ctx context.Context, std streams) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	return withExisting(ctx, cfg, std, func(url string) error {
		m, err := postgres.MigrateDown(ctx, url)
		if errors.Is(err, postgres.ErrNotFound) {
			fmt.Fprintln(std.Out, "nothing to take back")
			return nil
		}
		if err == nil {
			fmt.Fprintf(std.Out, "took back %05d %s\n", m.Version, m.Name)
		}
		return err
	})
}

type migrateStatusCmd struct{ configFlag }

// Run prints a line per migration, oldest first.
func (c migrateStatusCmd) Run(ctx context.Context, std streams) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	return withExisting(ctx, cfg, std, func(url string) error {
		all, err := postgres.MigrationStatus(ctx, url)
		for _, m := range all {
			state := "pending"
			if m.Applied {
				state = "applied " + m.AppliedAt.UTC().Format(time.RFC3339)
			}
			fmt.Fprintf(std.Out, "%05d %s %s\n", m.Version, m.Name, state)
		}
		return err
	})
}
