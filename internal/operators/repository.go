package operators

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-llm/breakwater/internal/credential"
	"github.com/breakwater-llm/breakwater/internal/postgres"
	"github.com/breakwater-llm/breakwater/internal/postgres/dbgen"
)

// DB is a pool, or a transaction, of the gateway's database.
type DB interface {
	dbgen.DBTX
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Repository keeps operator tokens and overrides in Postgres.
type Repository struct {
	db      DB
	queries *dbgen.Queries
}

// NewRepository returns a Repository over a migrated database.
func NewRepository(db DB) *Repository {
	return &Repository{db: db, queries: dbgen.New()}
}

// Unavailable reports whether an error means that the database cannot be
// reached.
func (r *Repository) Unavailable(err error) bool { return errors.Is(err, postgres.ErrUnavailable) }

// InsertToken keeps a token. Returns ErrNameTaken if a live one has its name.
func (r *Repository) InsertToken(ctx context.Context, t NewToken) (Token, error) {
	var row dbgen.OperatorToken
	err := postgres.InTx(ctx, r.db, func(tx pgx.Tx) (err error) {
		if err := r.queries.UpdateExpiredOperatorTokens(ctx, tx, t.Name); err != nil {
			return err
		}
		row, err = r.queries.InsertOperatorToken(ctx, tx, dbgen.InsertOperatorTokenParams{
			ID: t.ID, Name: t.Name, Role: string(t.Role), Prefix: t.Prefix, SecretHash: t.Hash, TtlMs: t.TTL.Milliseconds(),
		})
		return err
	})
	switch {
	case postgres.Conflicts(err, "operator_tokens_live_name_idx"):
		return Token{}, fmt.Errorf("%w: %q", ErrNameTaken, t.Name)
	case err != nil:
		return Token{}, fmt.Errorf("insert operator token: %w", postgres.Translate(err))
	}
	return tokenOf(row), nil
}

// FindLiveToken returns what a token that begins with the prefix is checked
// against. Returns ErrTokenNotFound if there is none, or it is expired or
// revoked.
func (r *Repository) FindLiveToken(ctx context.Context, prefix string) (LiveToken, error) {
	row, err := r.queries.FindLiveOperatorToken(ctx, r.db, prefix)
	switch err = postgres.Translate(err); {
	case errors.Is(err, postgres.ErrNotFound):
		return LiveToken{}, ErrTokenNotFound
	case err != nil:
		return LiveToken{}, fmt.Errorf("find operator token: %w", err)
	}
	return LiveToken{
		Operator: Operator{Name: row.Name, Role: Role(row.Role)},
		Hash:     row.SecretHash,
		Left:     time.Duration(row.LeftMs) * time.Millisecond,
	}, nil
}

// ListTokens returns every token, oldest first.
func (r *Repository) ListTokens(ctx context.Context) ([]Token, error) {
	rows, err := r.queries.ListOperatorTokens(ctx, r.db)
	if err != nil {
		return nil, fmt.Errorf("list operator tokens: %w", postgres.Translate(err))
	}
	tokens := make([]Token, len(rows))
	for i, row := range rows {
		tokens[i] = tokenOf(row)
	}
	return tokens, nil
}

// RevokeToken revokes a token by id or prefix, and reports whether it was
// already. Returns ErrTokenNotFound.
func (r *Repository) RevokeToken(ctx context.Context, idOrPrefix string) (Token, bool, error) {
	if strings.ContainsRune(idOrPrefix, 0) {
		return Token{}, false, ErrTokenNotFound // nothing that is kept has one
	}
	row, err := r.queries.UpdateOperatorTokenRevoked(ctx, r.db, idOrPrefix)
	switch err = postgres.Translate(err); {
	case errors.Is(err, postgres.ErrNotFound):
		return Token{}, false, ErrTokenNotFound
	case err != nil:
		return Token{}, false, fmt.Errorf("revoke operator token: %w", err)
	}
	return tokenOf(row.OperatorToken), row.Already, nil
}

// Time is what the database's clock shows.
func (r *Repository) Time(ctx context.Context) (time.Time, error) {
	now, err := r.queries.FindDatabaseTime(ctx, r.db)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask the database for the time: %w", postgres.Translate(err))
	}
	return now, nil
}

// ListOverrides returns every override, also those whose time is up.
func (r *Repository) ListOverrides(ctx context.Context) ([]Override, error) {
	rows, err := r.queries.ListCircuitOverrides(ctx, r.db)
	if err != nil {
		return nil, fmt.Errorf("list circuit overrides: %w", postgres.Translate(err))
	}
	overrides := make([]Override, len(rows))
	for i, row := range rows {
		overrides[i] = Override(row)
		overrides[i].SetAt = row.SetAt.UTC()
	}
	return overrides, nil
}

// SaveOverride keeps an override in place of those before it. It reports false
// when a later one is there.
func (r *Repository) SaveOverride(ctx context.Context, o Override) (bool, error) {
	changed, err := r.queries.InsertCircuitOverride(ctx, r.db, dbgen.InsertCircuitOverrideParams(o))
	if err != nil {
		return false, fmt.Errorf("save circuit override: %w", postgres.Translate(err))
	}
	return changed > 0, nil
}

// DeleteOverride removes the override of a circuit unless it was set later.
func (r *Repository) DeleteOverride(ctx context.Context, key string, until time.Time) error {
	if _, err := r.queries.DeleteCircuitOverride(ctx, r.db, dbgen.DeleteCircuitOverrideParams{Key: key, SetAt: until}); err != nil {
		return fmt.Errorf("delete circuit override: %w", postgres.Translate(err))
	}
	return nil
}

// DeleteExpiredOverrides removes those whose time is up.
func (r *Repository) DeleteExpiredOverrides(ctx context.Context) error {
	if _, err := r.queries.DeleteExpiredCircuitOverrides(ctx, r.db); err != nil {
		return fmt.Errorf("delete expired circuit overrides: %w", postgres.Translate(err))
	}
	return nil
}

func tokenOf(row dbgen.OperatorToken) Token {
	return Token{
		ID: row.ID, Name: row.Name, Role: Role(row.Role), Prefix: texts.Public(row.Prefix),
		Life: credential.LifeOf(row.CreatedAt, row.ExpiresAt, row.RevokedAt),
	}
}
