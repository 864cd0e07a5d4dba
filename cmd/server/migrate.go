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

// withDatabase runs work on the database of a configuration and ends a private
// server that only this command needed.
func withDatabase(ctx context.Context, cfg *config.Config, std streams, work func(url string) error) (err error) {
	log, _ := app.NewLogger(cfg.Log, std.Err)
	db, err := app.UseDatabase(ctx, cfg.Database, log)
	if err != nil {
		return err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		err = errors.Join(err, db.Close(stopping))
	}()
	return work(db.URL)
}

type migrateUpCmd struct{ configFlag }

// Run prints a line per migration that it applied.
func (c migrateUpCmd) Run(ctx context.Context, std streams) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	return withDatabase(ctx, cfg, std, func(url string) error {
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
	return withDatabase(ctx, cfg, std, func(url string) error {
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
	return withDatabase(ctx, cfg, std, func(url string) error {
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
