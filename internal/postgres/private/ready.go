package private

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// lingering is how long the sessions of a killed server may take to let go of
// its memory once they have ended.
const lingering = 10 * time.Second

var errLingering = errors.New("sessions of an earlier server still hold its memory")

// launchReady starts the server and returns when its database answers.
func launchReady(ctx context.Context, cfg Config, d door, p place, sockets string) (*process, error) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	began := time.Now()
	for {
		s, err := launch(cfg, d, p, sockets)
		if err != nil {
			return nil, err
		}
		err = awaitReady(ctx, p, s, socketURL(sockets))
		if err == nil {
			return s, nil
		}
		err = errors.Join(err, giveUp(ctx, s))
		if !errors.Is(err, errLingering) || time.Since(began) > lingering {
			return nil, err
		}
		<-tick.C
	}
}

// giveUp stops a server that did not become ready, be it frozen.
func giveUp(ctx context.Context, s *process) error {
	ctx, cancel := context.WithTimeout(ctx, lingering)
	defer cancel()
	return s.stop(ctx)
}

// awaitReady returns when the server's database answers.
func awaitReady(ctx context.Context, p place, s *process, url string) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if file, err := readPidFile(p); err == nil && file.ready && file.pid == s.pid() {
			return ensureDatabase(ctx, url)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the private database: %w", ctx.Err())
		case <-s.done:
			return startError(s.log.last())
		case <-tick.C:
		}
	}
}

func startError(last string) error {
	if strings.Contains(last, "pre-existing shared memory block") {
		return fmt.Errorf("%w: %s", errLingering, last)
	}
	return fmt.Errorf("the private database did not start: %s", last)
}

const undefinedDatabase = "3D000"

// ensureDatabase connects, and makes the database where there is none yet.
func ensureDatabase(ctx context.Context, url string) error {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("read the private database's address: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err == nil {
		return conn.Close(ctx)
	}
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != undefinedDatabase {
		return fmt.Errorf("connect to the private database: %w", err)
	}
	cfg.Database = "postgres"
	if conn, err = pgx.ConnectConfig(ctx, cfg); err != nil {
		return fmt.Errorf("connect to the private database: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+owner); err != nil {
		return fmt.Errorf("create the database %s: %w", owner, err)
	}
	return nil
}
