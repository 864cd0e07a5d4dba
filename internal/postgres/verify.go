package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/breakwater-llm/breakwater/db"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
)

// OldSchemaError says that steps of the schema are missing in a database that
// does answer.
type OldSchemaError struct {
	Missing []int64 // versions, oldest first
}

func (e *OldSchemaError) Error() string {
	return fmt.Sprintf("the database lacks %d migration(s), from version %d on", len(e.Missing), e.Missing[0])
}

// Verify checks that the database has every step this program knows, without
// changing anything. It returns an *OldSchemaError if one is missing and
// ErrUnavailable if the database cannot be asked. A schema newer than the
// program passes: that is what a replica meets while the others are updated.
func Verify(ctx context.Context, url string) error {
	known, err := knownVersions(url)
	if err != nil {
		return err
	}
	applied, err := appliedVersions(ctx, url)
	if err != nil {
		return fmt.Errorf("verify the schema: %w", Translate(err))
	}
	var missing []int64
	for _, version := range known {
		if !applied[version] {
			missing = append(missing, version)
		}
	}
	if len(missing) > 0 {
		return &OldSchemaError{Missing: missing}
	}
	return nil
}

func knownVersions(url string) ([]int64, error) {
	conn, err := openSQL(url)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, conn, db.Migrations(), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("read the embedded migrations: %w", err)
	}
	var versions []int64
	for _, source := range provider.ListSources() {
		versions = append(versions, source.Version)
	}
	return versions, nil
}

// appliedVersions reads goose's table itself, because goose would create it
// where it is missing and a program that only verifies may lack the right to.
func appliedVersions(ctx context.Context, url string) (map[int64]bool, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, unreadable(err)
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = defaultConnectTimeout
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))

	rows, _ := conn.Query(ctx, "SELECT version_id FROM "+goose.DefaultTablename+" WHERE is_applied") // the error comes with the rows
	versions, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == undefinedTable {
		return nil, nil
	}
	applied := map[int64]bool{}
	for _, version := range versions {
		applied[version] = true
	}
	return applied, err
}

const undefinedTable = "42P01"
