package keys

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-llm/breakwater/internal/credential"
	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/postgres"
	"github.com/breakwater-llm/breakwater/internal/postgres/dbgen"
)

// DB is a pool, or a transaction, of the gateway's database.
type DB interface {
	dbgen.DBTX
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Repository keeps API keys in Postgres.
type Repository struct {
	db      DB
	queries *dbgen.Queries
}

// NewRepository returns a Repository over a migrated database.
func NewRepository(db DB) *Repository {
	return &Repository{db: db, queries: dbgen.New()}
}

// InsertKey keeps a key. Returns ErrNameTaken if a live one has its name.
func (r *Repository) InsertKey(ctx context.Context, k newKey) (Key, error) {
	limits, err := json.Marshal(k.Limits)
	if err != nil {
		return Key{}, fmt.Errorf("write the limits of an api key: %w", err)
	}
	var row dbgen.APIKey
	err = postgres.InTx(ctx, r.db, func(tx pgx.Tx) (err error) {
		if err := r.queries.UpdateExpiredAPIKeys(ctx, tx, k.Name); err != nil {
			return err
		}
		row, err = r.queries.InsertAPIKey(ctx, tx, dbgen.InsertAPIKeyParams{
			ID: k.ID, Name: k.Name, Owner: k.Owner, Prefix: k.Prefix, SecretHash: k.Hash,
			Configurations: k.Configurations, Limits: limits, TtlMs: k.TTL.Milliseconds(),
		})
		return err
	})
	switch {
	case postgres.Conflicts(err, "api_keys_live_name_idx"):
		return Key{}, fmt.Errorf("%w: %q", ErrNameTaken, k.Name)
	case err != nil:
		return Key{}, fmt.Errorf("insert api key: %w", postgres.Translate(err))
	}
	return keyOf(row)
}

// FindLiveKey returns what a key that begins with the prefix is checked against.
// Returns ErrNotFound if there is none, or it is expired or revoked.
func (r *Repository) FindLiveKey(ctx context.Context, prefix string) (liveKey, error) {
	row, err := r.queries.FindLiveAPIKey(ctx, r.db, prefix)
	switch err = postgres.Translate(err); {
	case errors.Is(err, postgres.ErrNotFound):
		return liveKey{}, ErrNotFound
	case err != nil:
		return liveKey{}, fmt.Errorf("find api key: %w", err)
	}
	limits, err := limitsOf(row.Limits)
	if err != nil {
		return liveKey{}, err
	}
	return liveKey{
		identity: NewIdentity(llm.Caller{KeyID: row.ID.String(), Name: row.Name, Limits: limits}, row.Configurations),
		hash:     row.SecretHash,
		left:     time.Duration(row.LeftMs) * time.Millisecond,
	}, nil
}

// ListKeys returns every key, oldest first.
func (r *Repository) ListKeys(ctx context.Context) ([]Key, error) {
	rows, err := r.queries.ListAPIKeys(ctx, r.db)
	if err != nil {
		return nil, fmt.Errorf("list api keys: %w", postgres.Translate(err))
	}
	all := make([]Key, len(rows))
	for i, row := range rows {
		if all[i], err = keyOf(row); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// RevokeKey revokes a key by id or prefix, and reports whether it was already.
// Returns ErrNotFound.
func (r *Repository) RevokeKey(ctx context.Context, idOrPrefix string) (Key, bool, error) {
	if strings.ContainsRune(idOrPrefix, 0) {
		return Key{}, false, ErrNotFound // nothing that is kept has one
	}
	row, err := r.queries.UpdateAPIKeyRevoked(ctx, r.db, idOrPrefix)
	switch err = postgres.Translate(err); {
	case errors.Is(err, postgres.ErrNotFound):
		return Key{}, false, ErrNotFound
	case err != nil:
		return Key{}, false, fmt.Errorf("revoke api key: %w", err)
	}
	key, err := keyOf(row.APIKey)
	return key, row.Already, err
}

// ListChanged returns the keys that were minted, and the prefixes of those that
// were revoked, within a time that ends now, by the database's clock.
func (r *Repository) ListChanged(ctx context.Context, within time.Duration) (minted []proof, revoked []string, err error) {
	rows, err := r.queries.ListChangedAPIKeys(ctx, r.db, within.Milliseconds())
	if err != nil {
		return nil, nil, fmt.Errorf("list changed api keys: %w", postgres.Translate(err))
	}
	for _, row := range rows {
		if row.Revoked {
			revoked = append(revoked, row.Prefix)
		} else {
			minted = append(minted, proof{row.Prefix, row.SecretHash})
		}
	}
	return minted, revoked, nil
}

// ListIssued returns the newest of the keys that are live, and no more than so
// many.
func (r *Repository) ListIssued(ctx context.Context, atMost int32) ([]proof, error) {
	rows, err := r.queries.ListIssuedAPIKeys(ctx, r.db, atMost)
	if err != nil {
		return nil, fmt.Errorf("list issued api keys: %w", postgres.Translate(err))
	}
	all := make([]proof, len(rows))
	for i, row := range rows {
		all[i] = proof{row.Prefix, row.SecretHash}
	}
	return all, nil
}

func keyOf(row dbgen.APIKey) (Key, error) {
	limits, err := limitsOf(row.Limits)
	return Key{
		ID: row.ID, Name: row.Name, Owner: row.Owner, Prefix: texts.Public(row.Prefix),
		Configurations: row.Configurations, Limits: limits,
		Life: credential.LifeOf(row.CreatedAt, row.ExpiresAt, row.RevokedAt),
	}, err
}

func limitsOf(raw json.RawMessage) (limits llm.Limits, err error) {
	if err := json.Unmarshal(raw, &limits); err != nil {
		return llm.Limits{}, fmt.Errorf("read the limits of an api key: %w", err)
	}
	return limits, nil
}
