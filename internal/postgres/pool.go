// Package postgres is the gateway's way to its database: the pool, the
// transaction helper, the migrations, and the border at which the driver's
// errors become the gateway's own. It knows no table: queries belong to the
// rooms whose rows they are, generated into dbgen.
package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Options are the pool's settings; zero values mean the defaults.
type Options struct {
	// MaxConns bounds the connections that are open at once; default 8.
	MaxConns int
	// ConnectTimeout bounds one attempt to connect, unless the URL says
	// otherwise; default 5 s.
	ConnectTimeout time.Duration
}

const (
	defaultMaxConns       = 8
	defaultConnectTimeout = 5 * time.Second
)

// Pool are connections to a database, for those that only pass them on.
type Pool = pgxpool.Pool

// Open makes a pool without connecting: a database that cannot be reached is
// an error of the query that needs it, not of Open, so the gateway can start
// before its database. It fails only if the URL cannot be read. The context
// does not bound the pool; Close does.
func Open(ctx context.Context, url string, opts Options) (*Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, unreadable(err)
	}
	cfg.MaxConns = defaultMaxConns
	if opts.MaxConns > 0 {
		cfg.MaxConns = int32(opts.MaxConns)
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = defaultConnectTimeout
		if opts.ConnectTimeout > 0 {
			cfg.ConnConfig.ConnectTimeout = opts.ConnectTimeout
		}
	}
	cfg.AfterConnect = registerTypes
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("make the database pool: %w", err)
	}
	return pool, nil
}
