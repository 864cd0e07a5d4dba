package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-llm/breakwater/db"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Migration is one step of the schema and whether the database has it.
type Migration struct {
	Version   int64
	Name      string
	Applied   bool
	AppliedAt time.Time // zero unless applied
}

// Migrate brings the schema up to date and returns what it applied, oldest
// first. Processes that migrate one database at the same time wait for each
// other. It returns ErrUnavailable if the database cannot be reached.
func Migrate(ctx context.Context, url string) ([]Migration, error) {
	var applied []Migration
	err := withMigrations(ctx, url, func(p *goose.Provider) error {
		results, err := p.Up(ctx)
		applied = stepsOf(results)
		return err
	})
	if err != nil {
		return applied, fmt.Errorf("migrate the database up: %w", err)
	}
	return applied, nil
}

// MigrateDown takes the newest step back and returns it; ErrNotFound if there
// is none left. The data in what it removes is lost.
func MigrateDown(ctx context.Context, url string) (Migration, error) {
	var undone Migration
	err := withMigrations(ctx, url, func(p *goose.Provider) error {
		result, err := p.Down(ctx)
		if errors.Is(err, goose.ErrNoNextVersion) {
			return fmt.Errorf("%w: no migration is applied", ErrNotFound)
		}
		if err == nil {
			undone = Migration{Version: result.Source.Version, Name: result.Source.Path}
		}
		return err
	})
	if err != nil {
		return Migration{}, fmt.Errorf("migrate the database down: %w", err)
	}
	return undone, nil
}

// MigrationStatus lists every step that this program knows, oldest first.
func MigrationStatus(ctx context.Context, url string) ([]Migration, error) {
	var all []Migration
	err := withMigrations(ctx, url, func(p *goose.Provider) error {
		states, err := p.Status(ctx)
		for _, s := range states {
			all = append(all, Migration{Version: s.Source.Version, Name: s.Source.Path, Applied: s.State == goose.StateApplied, AppliedAt: s.AppliedAt})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the migration status: %w", err)
	}
	return all, nil
}

func stepsOf(results []*goose.MigrationResult) []Migration {
	var steps []Migration
	for _, r := range results {
		steps = append(steps, Migration{Version: r.Source.Version, Name: r.Source.Path, Applied: true})
	}
	return steps
}

// withMigrations lends a connected goose provider to work and translates what
// comes back.
func withMigrations(ctx context.Context, url string, work func(*goose.Provider) error) error {
	conn, err := openSQL(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	// Waiting for another process costs a look per second, ten minutes long.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 600))
	if err != nil {
		return fmt.Errorf("make the migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, conn, db.Migrations(), goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read the embedded migrations: %w", err)
	}
	return Translate(work(provider))
}

// openSQL opens the database for goose, which speaks database/sql.
func openSQL(url string) (*sql.DB, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, unreadable(err)
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = defaultConnectTimeout
	}
	return stdlib.OpenDB(*cfg), nil
}
