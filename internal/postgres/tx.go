package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Beginner starts transactions: a pool does, and a transaction by a savepoint.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// InTx runs work in one transaction: committed if work returns nil, else (also
// when it panics) rolled back. The error of work, or of the commit, comes back
// translated.
func InTx(ctx context.Context, db Beginner, work func(tx pgx.Tx) error) error {
	err := pgx.BeginFunc(ctx, db, work)
	if err != nil {
		return fmt.Errorf("in a transaction: %w", Translate(err))
	}
	return nil
}
