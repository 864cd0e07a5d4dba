package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-llm/breakwater/internal/postgres/private"
)

// database is the Postgres that the gateway writes to: as durable as any, in a
// directory of this run.
type database struct {
	server *private.Server
	pid    int
}

func startDatabase(ctx context.Context, dir string) (*database, error) {
	server, err := private.Start(ctx, private.Config{DataDir: dir, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "postgres", "postmaster.pid"))
	if err != nil {
		return nil, err
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	pid, err := strconv.Atoi(string(line))
	if err != nil {
		return nil, fmt.Errorf("read the process id of Postgres: %w", err)
	}
	return &database{server: server, pid: pid}, nil
}

// cpuTime is that of the server and all its sessions.
func (d *database) cpuTime() (time.Duration, error) { return treeCPUTime(d.pid) }

func (d *database) stop(ctx context.Context) error { return d.server.Stop(ctx) }

// records are the rows that tell of calls that went well.
type records struct{ runs, attempts int }

// records counts the rows; a database without tables has none.
func (d *database) records(ctx context.Context) (records, error) {
	conn, err := pgx.Connect(ctx, d.server.URL())
	if err != nil {
		return records{}, err
	}
	defer conn.Close(ctx)
	var r records
	var migrated bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass('telemetry_runs') IS NOT NULL").Scan(&migrated); err != nil || !migrated {
		return r, err
	}
	err = conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM telemetry_runs WHERE outcome = 'success'),
		(SELECT count(*) FROM telemetry_attempts WHERE outcome = 'success')`).Scan(&r.runs, &r.attempts)
	return r, err
}
